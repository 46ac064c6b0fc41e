"""Which tool calls of a run need a decision, and how far each has come: what is known of one without a result."""

from __future__ import annotations

from typing import Final

import msgspec

from ..journal.facts import ApprovalRequested, ApprovalResolved, StepStarted

__all__ = ["AWAITS_DECISION", "NOT_RUN", "Gates"]

AWAITS_DECISION: Final = "This call waits for a decision; the tool has not run."

NOT_RUN: Final = "not run: {why}"
"""What is said of a call that is known not to have run; it needs no checking before it is made again."""


class _Gate(msgspec.Struct):
    """A call that needs a decision: the decision, and whether it was begun."""

    decision: str | None = None
    reason: str = ""
    begun: bool = False


class Gates:
    """The calls of one run that need a decision, by their names and by the steps that ask for it."""

    def __init__(self) -> None:
        self._by_call: dict[str, _Gate] = {}
        self._by_step: dict[str, _Gate] = {}

    def take(self, event: ApprovalRequested | ApprovalResolved | StepStarted) -> None:
        """Take in what happened to one."""
        match event:
            case ApprovalRequested():
                # What a call asks when it has been begun, in a step within its own, is no gate before it.
                if not event.step.startswith(f"{event.call}/"):
                    self._by_call[event.call] = self._by_step[event.step] = _Gate()
            case ApprovalResolved():
                if (gate := self._by_step.get(event.step)) is not None:
                    gate.decision, gate.reason = event.decision, event.reason
            case StepStarted():
                if (gate := self._by_call.get(event.step)) is not None:
                    gate.begun = True

    def awaits_decision(self, call: str) -> bool:
        """Whether a call waits for a decision."""
        gate = self._by_call.get(call)
        return gate is not None and gate.decision is None

    def why_not_run(self, call: str, ended: str | None) -> str | None:
        """Return why a call without a result has certainly not run; None when it may have.

        `ended` says how its run did; None while it is open.
        """
        gate = self._by_call.get(call)
        if gate is None or gate.begun:
            # A call that needs no decision leaves no word when it is begun.
            return None
        if gate.decision in ("rejected", "expired"):
            return NOT_RUN.format(why=f"{gate.decision}: {gate.reason}" if gate.reason else gate.decision)
        return AWAITS_DECISION if ended is None else NOT_RUN.format(why=ended)
