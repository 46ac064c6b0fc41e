"""Whether a call may be made: asked of people once, and answered by what is recorded, on whatever machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote

import msgspec

from ...journal import encode_exact
from ...journal.facts import ApprovalRequested, ApprovalResolved
from ..thread import AGENT, RequestApproval
from .options import ToolPolicy
from .payload import check_fits
from .sealing import NO_SEAL, Seal, Unreadable

if TYPE_CHECKING:
    from .steps import RunSteps

__all__ = [
    "ApprovalTerms",
    "Decision",
    "Granted",
    "Refused",
    "approval_step",
    "ask_a_question",
    "ask_people",
    "fingerprint_of",
    "principal_of",
]

_ENCODER = msgspec.json.Encoder(order="sorted")


@dataclass(frozen=True)
class ApprovalTerms:
    """Under which terms an agent's calls are approved: the policy's version, who is told, how arguments are kept."""

    agent: str
    policy: str = "1"
    notify: bool = False
    seal: Seal = NO_SEAL


class Granted(NamedTuple):
    """A call may be made: `step` is the approval it spends, `arguments` those to call with if they were edited."""

    step: str
    arguments: dict[str, Any] | None


class Decision(NamedTuple):
    """What people said of a question in the middle of a tool; `decision` is approved, rejected or expired."""

    approved: bool
    decision: str
    by: str | None
    reason: str


class Refused(NamedTuple):
    """A call may not be made: what the model is told, and how the approval `step` is settled."""

    step: str | None
    text: str
    outcome: str


def approval_step(call: str) -> str:
    """Return the name of the step in which a tool's step waits for approval: `approval:CALL_ID`, in the same place."""
    scope, slash, own = call.rpartition("/")
    return f"{scope}{slash}approval:{own.split(':', 2)[2]}"


def place_of_approval(stream: str, run: str, step: str, *, edited: bool = False) -> str:
    """Return what sealed arguments of an approval are bound to: those that were asked about, or those it got."""
    return f"{stream}/{run}/{step}{'!edited' if edited else ''}"


def principal_of(agent: str, stream: str) -> str:
    """Return who acts: this agent in this thread, and no other."""
    return f"{AGENT}{quote(agent, safe='')}:{quote(stream.partition('/')[2], safe='')}"


def fingerprint_of(tool: str, arguments: object, principal: str, policy: str) -> str:
    """Return what stands for one call by one principal under one policy: 32 hexadecimal digits."""
    return sha256(_ENCODER.encode([tool, arguments, principal, policy])).hexdigest()[:32]


async def ask_people(
    steps: RunSteps, terms: ApprovalTerms, call: str, tool: str, arguments: Mapping[str, Any], policy: ToolPolicy
) -> Granted | Refused:
    """Return what people said of a call; where they have not yet, ask them, once, and park."""
    step = approval_step(call)
    principal = principal_of(terms.agent, steps.stream)
    fingerprint = fingerprint_of(tool, arguments, principal, terms.policy)
    if step not in steps.waits.asked and (before := _refused_before(steps, fingerprint)) is not None:
        return Refused(None, f"{_refusal(before)} This is the same call again, so nobody was asked.", "rejected")

    asked, resolved = await _ask(steps, terms, step, call, tool, arguments, policy.approval_timeout_s)
    if resolved.decision != "approved":
        return Refused(step, _refusal(resolved), resolved.decision)
    try:
        return _granted(steps, terms, asked, resolved, arguments)
    except Unreadable as error:
        return Refused(step, f"The call was approved, but not made: {error}", "unreadable")


async def ask_a_question(steps: RunSteps, terms: ApprovalTerms, call: str, question: Any, timeout_s: float) -> Decision:
    """Return what people said of a question in the middle of a tool; where they have not yet, ask, once, and park."""
    tool = call.rpartition("/")[2].split(":", 2)[1]
    asked = {"question": msgspec.json.decode(encode_exact(question, what=f"the question of {call}"))}
    check_fits(f"the question of {call}", msgspec.Raw(msgspec.json.encode(asked)))
    step = steps.names.wait("approval")
    found, resolved = await _ask(steps, terms, step, call, tool, asked, timeout_s)
    if found.principal != principal_of(terms.agent, steps.stream):
        return Decision(approved=False, decision="rejected", by=None, reason=f"{found.principal} asked, not this one")
    return Decision(resolved.decision == "approved", resolved.decision, resolved.by, resolved.reason)


async def _ask(
    steps: RunSteps,
    terms: ApprovalTerms,
    step: str,
    call: str,
    tool: str,
    arguments: Mapping[str, Any],
    timeout_s: float,
) -> tuple[ApprovalRequested, ApprovalResolved]:
    principal = principal_of(terms.agent, steps.stream)

    def ask(at: int) -> RequestApproval:
        return RequestApproval(
            run=steps.run,
            step=step,
            tool=tool,
            call=call,
            arguments=terms.seal.close(arguments, place_of_approval(steps.stream, steps.run, step)),
            fingerprint=fingerprint_of(tool, arguments, principal, terms.policy),
            principal=principal,
            policy=terms.policy,
            notify=terms.notify,
            expires_at=at + round(timeout_s * 1e9),
            at=at,
        )

    resolved = cast("ApprovalResolved", await steps.wait(step, ask))
    return cast("ApprovalRequested", steps.waits.asked[step]), resolved


def _granted(
    steps: RunSteps,
    terms: ApprovalTerms,
    asked: ApprovalRequested,
    resolved: ApprovalResolved,
    arguments: Mapping[str, Any],
) -> Granted | Refused:
    """Return the grant, if it is good for what is to be called, here and with these arguments or the edited ones."""
    edited = bytes(resolved.arguments) != b"null"
    place = place_of_approval(steps.stream, steps.run, asked.step, edited=edited)
    stored = terms.seal.open(resolved.arguments if edited else asked.arguments, place)
    principal, called = principal_of(terms.agent, steps.stream), stored if edited else arguments
    found = fingerprint_of(asked.tool, called, principal, asked.policy)
    if found != resolved.fingerprint:
        text = "The call was not made: what was approved is not what would be called. Ask again if it is still wanted."
        return Refused(asked.step, text, "unreadable")
    return Granted(asked.step, cast("dict[str, Any]", stored) if edited else None)


def _refused_before(steps: RunSteps, fingerprint: str) -> ApprovalResolved | None:
    """Return the rejection of the very same call earlier in the run."""
    return next(
        (
            answer
            for answer in steps.waits.answers.values()
            if isinstance(answer, ApprovalResolved)
            and answer.decision == "rejected"
            and answer.fingerprint == fingerprint
        ),
        None,
    )


def _refusal(resolved: ApprovalResolved) -> str:
    """Return what the model is told, so that it does not try again."""
    if resolved.decision == "expired":
        return (
            "The call was not made: approval timed out, nobody decided in time. "
            "Do not repeat it unless the user asks for it again."
        )
    who = f" ({resolved.by})" if resolved.by else ""
    why = f" Reason: {resolved.reason.rstrip('. ')}." if resolved.reason else ""
    return f"A person{who} refused this call, and it was not made.{why} Do not repeat it; find another way or stop."
