"""A process of `clew demo approvals`: it carries on what is open, then asks for one more refund and dies in it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Final

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolReturnPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from ...actors import ActorSystem
from ...actors.agent import AgentDefinition, Approve, Reject, RunNow, Thread, this_run, tool_step
from ...examples.refunds import MANAGER, Ledger, Movement, Way, build_refunds, open_ledger, prompt_of, rules
from ...projections import RunView, ThreadView

__all__ = ["CASES", "POINTS", "Case", "begun", "carry_on", "desk_over", "journal_of", "ledger_of"]

_POLL_S: Final = 0.05

POINTS: Final = {
    "waiting": "before the decision",
    "decided": "between decision and tool",
    "begun": "in the tool, before money moved",
    "moved": "in the tool, after money moved",
    "recorded": "after the tool was recorded",
}
"""Where a process dies, by name."""


@dataclass(frozen=True)
class Case:
    """A refund that is asked for, what the manager says to it, and where its process dies."""

    order_id: str
    way: Way
    cents: int
    point: str | None = None
    decision: Approve | Reject = field(default_factory=Approve)

    @property
    def approved(self) -> int:
        """How many cents may go out."""
        if isinstance(self.decision, Reject):
            return 0
        edited = self.decision.arguments
        return self.cents if edited is None else int(edited["cents"])


def _cases() -> list[Case]:
    ways: tuple[Way, ...] = ("refund", "pay_cash")
    killed = list(product(ways, POINTS))
    cases = [Case(f"R-{101 + n}", way, 1000 + 111 * n, point) for n, (way, point) in enumerate(killed)]
    edited = Approve({"order_id": "R-201", "cents": 2500})
    return [
        *cases,
        Case("R-201", "refund", 9900, decision=edited),
        Case("R-202", "pay_cash", 9900, decision=Reject("the parcel was never sent back")),
    ]


CASES: Final = _cases()


def carry_on(folder: Path, cases: Sequence[Case]) -> None:
    """Serve the cases, one after the other, and die where the last one says; nothing of it is told but by the journal.

    What earlier processes left open goes on as soon as the journal is open.
    """
    words = os.open(folder / "process.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(words, 2)
    end = _End(cases[-1])
    desk = desk_over(_DyingLedger(ledger_of(folder).path, end, folder / "begun.txt"), end)
    with ActorSystem(journal_of(folder), agents=[desk]) as system:
        for case in cases:
            _Service(system, desk, ledger_of(folder), end).serve(case)


def journal_of(folder: Path) -> Path:
    """Return where the journal is."""
    return folder / "journal"


def ledger_of(folder: Path) -> Ledger:
    """Return the ledger, which is made if needed."""
    return open_ledger(folder / "ledger.sqlite")


def begun(folder: Path) -> list[str]:
    """Return the calls of the ledger that began, by the idempotency keys of their steps."""
    path = folder / "begun.txt"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def desk_over(ledger: Ledger, end: _End | None = None) -> AgentDefinition[Ledger, str]:
    """Return the refund desk; with an `end`, its process dies there."""
    if end is None:
        return build_refunds(ledger)

    def deps_for(run: RunNow) -> Ledger:
        # Asked for each time that the run is driven, before anything of it goes on.
        if end.decided == run.thread:
            end.here("decided", run.thread)
        return ledger

    return build_refunds(ledger, _HeldModel(rules(), end), deps_for=deps_for)


class _End:
    """Where this process dies."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self.decided: str | None = None

    def is_here(self, point: str, order_id: str) -> bool:
        return (self._case.order_id, self._case.point) == (order_id, point)

    def here(self, point: str, order_id: str) -> None:
        if self.is_here(point, order_id):
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class _DyingLedger(Ledger):
    """The ledger, in whose calls the process may die."""

    end: _End
    begun: Path

    def refund(self, key: str, order_id: str, cents: int) -> Movement:
        self._begin(order_id)
        moved = super().refund(key, order_id, cents)
        self.end.here("moved", order_id)
        return moved

    def pay_cash(self, order_id: str, cents: int) -> Movement:
        self._begin(order_id)
        moved = super().pay_cash(order_id, cents)
        self.end.here("moved", order_id)
        return moved

    def _begin(self, order_id: str) -> None:
        with self.begun.open("a", encoding="utf-8") as file:
            file.write(f"{tool_step().idempotency_key}\n")
        self.end.here("begun", order_id)


class _HeldModel(WrapperModel):
    """A model that never answers in a run that is to die before its answer."""

    def __init__(self, wrapped: Any, end: _End) -> None:  # noqa: ANN401  (a model, or the name of one)
        super().__init__(wrapped)
        self._end = end

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        last = messages[-1]
        told = isinstance(last, ModelRequest) and any(isinstance(part, ToolReturnPart) for part in last.parts)
        if told and self._end.is_here("recorded", this_run().thread):
            await asyncio.Event().wait()
        return await super().request(messages, model_settings, model_request_parameters)


class _Service:
    """A customer who asks for a refund, and a manager who decides and settles, both through the public API."""

    def __init__(self, system: ActorSystem, desk: AgentDefinition[Ledger, str], ledger: Ledger, end: _End) -> None:
        self._system = system
        self._desk = desk
        self._ledger = ledger
        self._end = end

    def serve(self, case: Case) -> None:
        """Ask for a refund, or for the same one again, and see it through to its end."""
        thread = self._system.thread(self._desk, case.order_id, owner="customer")
        # The order's number makes asking again safe.
        thread.run(prompt_of(case.way, case.order_id, case.cents), run_id=case.order_id).started()
        grew = threading.Event()
        unwatch = self._system.journal.watch(grew.set, stream=thread.stream)
        is_decided = False
        try:
            while True:
                grew.clear()
                view = thread.view()
                run = view.known_run(case.order_id)
                if run.ended_at is not None:
                    return
                if run.steps > 1:
                    self._end.here("recorded", case.order_id)
                is_decided = is_decided or self._decide(case, view, run)
                self._settle(case, thread, run)
                grew.wait(_POLL_S)
        finally:
            unwatch()

    def _decide(self, case: Case, view: ThreadView, run: RunView) -> bool:
        """Decide what waits; a manager who does not remember decides again, and is answered with the first decision."""
        if not view.approvals or (view.pending and not run.suspended):
            return False
        if view.pending:
            self._end.here("waiting", case.order_id)
        self._end.decided = case.order_id
        asked = view.approvals[0]
        self._system.approvals(by=MANAGER).decide(f"{view.stream}/{asked.id}", case.decision).get()
        return True

    def _settle(self, case: Case, thread: Thread[str], run: RunView) -> None:
        """Look at what came of a payment in doubt, and say so."""
        for step in run.in_doubt if run.suspended else ():
            if moved := self._ledger.movements(case.order_id):
                thread.settle(run.run, step, result=asdict(moved[-1]), by=MANAGER).get()
            else:
                thread.settle(run.run, step, retry=True, by=MANAGER).get()
