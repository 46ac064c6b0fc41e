"""What became of a question for people, as whoever asked to be told of it is told."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ...journal import RecordedEvent
from ...journal.facts import ApprovalRequested, ApprovalResolved, ApprovalSettled, StepCompleted
from ...projections import conversation
from ..thread import approval_key
from .approval import place_of_approval
from .sealing import Seal, Unreadable

if TYPE_CHECKING:
    from .definition import AgentDefinition

__all__ = ["ApprovalSettlement", "settlement_of", "tell_settled"]


@dataclass(frozen=True)
class ApprovalSettlement:
    """What became of an approval; what `on_settled` gets.

    `approval` is its name in the thread (`RUN/STEP`). `outcome` is `approved` (its call has its result), `rejected`,
    `expired`, `cancelled`, `unknown` (there is no such tool any more) or `unreadable`. `arguments` are those that were
    decided about, as edited by whoever decided; None where they cannot be read. `by` decided, for this `reason`.
    `result` is what the tool returned, as JSON values; None where it did not run or raised.
    """

    thread: str
    run: str
    approval: str
    tool: str
    outcome: str
    arguments: Any
    by: str | None
    reason: str
    result: Any


class _Result(msgspec.Struct):
    kind: str = ""
    result: Any = None


async def tell_settled(definition: AgentDefinition[Any, Any], settled: ApprovalSettlement) -> None:
    """Call the agent's `on_settled`, and wait for it if it is async; raises what it raises."""
    if definition.on_settled is None:
        return
    said = definition.on_settled(settled)
    if inspect.isawaitable(said):
        await said


def settlement_of(stream: str, run: str, step: str, events: Iterable[RecordedEvent], seal: Seal) -> ApprovalSettlement:
    """Return what became of an approval that is settled, from the recorded events of its thread.

    Raises:
        LookupError: they do not say so.
    """
    asked: ApprovalRequested | None = None
    resolved: ApprovalResolved | None = None
    settled: ApprovalSettled | None = None
    results: dict[str, msgspec.Raw] = {}
    catalog = conversation.catalog
    for recorded in events:
        match catalog.decode(recorded) if catalog.knows(recorded) else None:
            case ApprovalRequested() as event if (event.run, event.step) == (run, step):
                asked = event
            case ApprovalResolved() as event if (event.run, event.step) == (run, step):
                resolved = event
            case ApprovalSettled() as event if (event.run, event.step) == (run, step):
                settled = event
            case StepCompleted() as event if event.run == run:
                results[event.step] = event.result
            case _:
                pass
    if asked is None or resolved is None or settled is None:
        raise LookupError(f"{stream}: approval {approval_key(run, step)} is not settled")
    result = results.get(asked.call) if settled.outcome == "approved" else None
    return ApprovalSettlement(
        thread=stream.partition("/")[2],
        run=run,
        approval=approval_key(run, step),
        tool=asked.tool,
        outcome=settled.outcome,
        arguments=_arguments(stream, asked, resolved, seal),
        by=resolved.by,
        reason=resolved.reason,
        result=None if result is None else _returned(result),
    )


def _arguments(stream: str, asked: ApprovalRequested, resolved: ApprovalResolved, seal: Seal) -> object:
    edited = bytes(resolved.arguments) != b"null"
    place = place_of_approval(stream, asked.run, asked.step, edited=edited)
    try:
        return seal.open(resolved.arguments if edited else asked.arguments, place)
    except Unreadable:
        return None


def _returned(result: msgspec.Raw) -> object:
    """Return the tool's own value, out of what its step recorded and of pydantic-ai's wrapper around it."""
    recorded = msgspec.json.decode(result, type=_Result)
    content = recorded.result
    if recorded.kind != "tool_content_result" and isinstance(content, dict):
        wrapped = cast("dict[str, Any]", content)
        return wrapped.get("return_value") if wrapped.get("kind") == "tool-return" else wrapped
    return content
