"""What an agent may use: in a run, in a thread, and for an owner over all of their threads.

1. a run stops before a turn once it has used what a run may (`stopped == "budget"`);
2. a run is refused before anything of it is recorded, where its thread or owner has used all there is for them;
3. one that was asked for otherwise (it waited, a schedule or another agent started it) is looked at when it begins,
   and then fails with `BudgetExceeded` in place of being driven.

Only what is recorded counts.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, cast

from ...journal import Journal
from ...journal.facts import RunFailed, StepCompleted, StepFailed, StepStarted, ThreadOpened
from ...projections.spending import spent_by_owner
from ...projections.usage import PERIODS, Period
from ..clock import Clock
from ..errors import BudgetExceeded, RunEnded, SystemClosed
from ..ref import ActorRef
from ..thread import BUDGET_EXCEEDED, Limits, Spent, ThreadCommand, ThreadState, check_spent, over, spend
from .ending import record_end
from .failures import describe
from .recorded_run import CATALOG, RecordedRun
from .used import UsedSoFar

if TYPE_CHECKING:
    from .definition import AgentDefinition

__all__ = ["Budget", "may_begin", "refusal_of_owner", "was_refused"]

_AMOUNTS = ("run_usd", "thread_usd", "owner_usd")
_TOKENS = ("run_tokens", "thread_tokens", "owner_tokens")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How many tokens (in and out) and how much money (USD) an agent may use; what is not given is not limited.

    - `run_*`: a run that has used as much takes no further turn, and ends with `stopped == "budget"`.
    - `thread_*`: a thread that has used as much gets no further run: `BudgetExceeded`.
    - `owner_*`: nor does an owner, over all threads and agents. Runs of threads without an owner count for nobody.

    `per` is the period that thread and owner have it for: `"all"` time, or each `"day"` or `"month"` of UTC. Runs that
    are under way go on, so what is spent can be more than the budget by what they use. Where the cost of a request is
    not known, a limit of USD counts as reached; with `allow_unpriced`, such requests cost nothing.

    Raises:
        ValueError: no limit was given, or one that is not more than 0, or a period that is none.
        TypeError: a limit is not a number.
    """

    run_tokens: int | None = None
    run_usd: Decimal | float | str | None = None
    thread_tokens: int | None = None
    thread_usd: Decimal | float | str | None = None
    owner_tokens: int | None = None
    owner_usd: Decimal | float | str | None = None
    per: Period = "all"
    allow_unpriced: bool = False

    def __post_init__(self) -> None:
        """Check it where it is declared."""
        for name in _AMOUNTS:
            object.__setattr__(self, name, _usd(name, getattr(self, name)))
        for name in _TOKENS:
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
                raise TypeError(f"budget: {name} is a whole number of tokens, not {value!r}")
        given = {name: value for name in (*_TOKENS, *_AMOUNTS) if (value := getattr(self, name)) is not None}
        if not given:
            raise ValueError("budget: it limits nothing; give one of run_, thread_ or owner_ tokens or usd")
        for name, value in given.items():
            if not value > 0:
                raise ValueError(f"budget: {name} is more than 0, not {value}")
        if self.per not in PERIODS:
            raise ValueError(f"budget: per is one of {', '.join(PERIODS)}, not {self.per!r}")

    @property
    def run(self) -> Limits | None:
        """What a run may use."""
        return self._limits(self.run_tokens, self.run_usd, "all")

    @property
    def thread(self) -> Limits | None:
        """What a thread may use."""
        return self._limits(self.thread_tokens, self.thread_usd, self.per)

    @property
    def owner(self) -> Limits | None:
        """What an owner may use."""
        return self._limits(self.owner_tokens, self.owner_usd, self.per)

    def stops(self, used: UsedSoFar) -> bool:
        """Whether a run has used all that it may, and takes no further turn."""
        return self.run is not None and over(self.run, used.so_far) is not None

    def _limits(self, tokens: int | None, usd: Decimal | float | str | None, per: Period) -> Limits | None:
        given = tokens is not None or usd is not None
        return Limits(tokens, cast("Decimal | None", usd), per, self.allow_unpriced) if given else None


def was_refused(recorded: RecordedRun, error: str) -> bool:
    """Whether a run that failed with this type of error never began, for its budget was spent."""
    return error == BUDGET_EXCEEDED and not _has_begun(recorded)


def refusal_of_owner(budget: Budget | None, journal: Journal, owner: str | None, at: int) -> BudgetExceeded | None:
    """Return why an owner gets no run; None where there is something left for them, or no owner or budget."""
    limits = None if budget is None else budget.owner
    if limits is None or owner is None:
        return None
    found = over(limits, spent_by_owner(journal, owner, per=limits.per, at=at))
    return found and BudgetExceeded(scope="owner", name=owner, per=limits.per, **found._asdict())


async def may_begin(
    definition: AgentDefinition[Any, Any],
    run: str,
    thread: ActorRef[ThreadCommand, ThreadState],
    journal: Journal,
    clock: Clock,
) -> bool:
    """Whether a run is driven: it has begun, or its budget is not spent. If it is, record that the run failed."""
    budget = definition.budget
    if budget is None or (budget.thread is None and budget.owner is None):
        return True
    # A look at what an owner spent may have to fold a part of the journal; other runs need not wait for that.
    refused = await asyncio.to_thread(_refusal, budget, thread.stream, run, journal, clock())
    if refused is None:
        return True
    with suppress(RunEnded, SystemClosed):
        await record_end(thread, RunFailed(run, describe(refused), clock()), clock())
    return False


def _refusal(budget: Budget, stream: str, run: str, journal: Journal, at: int) -> BudgetExceeded | None:
    """Return why a run may not begin; None where it may, or has begun."""
    spent, owner = Spent(), None
    for recorded in journal.read(stream):
        if not CATALOG.knows(recorded):
            continue
        event = CATALOG.decode(recorded)
        if isinstance(event, ThreadOpened):
            owner = event.owner
        if isinstance(event, _STEPS) and event.run == run:
            return None
        spent = spend(spent, cast("Any", event))
    try:
        if budget.thread is not None:
            check_spent(stream, spent, budget.thread, at)
    except BudgetExceeded as refused:
        return refused
    return refusal_of_owner(budget, journal, owner, at)


_STEPS = (StepCompleted, StepFailed, StepStarted)


def _has_begun(recorded: RecordedRun) -> bool:
    return any(isinstance(event, _STEPS) for _, event in recorded.events)


def _usd(name: str, value: object) -> Decimal | None:
    """Return an amount of money as it was written: 0.1 is a tenth."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Decimal | int | float | str):
        raise TypeError(f"budget: {name} is a number of USD, not {value!r}")
    try:
        amount = Decimal(str(value))
    except InvalidOperation as error:
        raise TypeError(f"budget: {name} is a number of USD, not {value!r}") from error
    if not amount.is_finite():
        raise ValueError(f"budget: {name} is a number of USD, not {value}")
    return amount
