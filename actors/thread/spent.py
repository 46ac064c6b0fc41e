"""What a conversation has used, folded from its own events, and whether that is all that it may use."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from ...journal.facts import RunFinished, RunStarted, StepCompleted, ThreadEvent
from ...projections.usage import Period, Usage, period_of, told_usage, used_by
from ..errors import BudgetExceeded

__all__ = ["BUDGET_EXCEEDED", "InPeriod", "Limits", "Over", "Spent", "check_spent", "over", "spend"]

BUDGET_EXCEEDED = BudgetExceeded.__name__
"""The type of the error of a run that did not begin because a budget was spent."""


class Limits(msgspec.Struct, frozen=True):
    """How many tokens and how much money (USD) may be used in a period; what is not given is not limited.

    Money that nobody knows the amount of cannot be kept within a limit, unless it is to count as nothing.
    """

    tokens: int | None = None
    usd: Decimal | None = None
    per: Period = "all"
    allow_unpriced: bool = False


class InPeriod(msgspec.Struct, frozen=True):
    """What was used in a day or month of UTC."""

    name: str = ""
    usage: Usage = msgspec.field(default_factory=Usage)


class Spent(msgspec.Struct, frozen=True):
    """What a conversation used: in all, in the last day and month in which it used something, and in its last run."""

    total: Usage = msgspec.field(default_factory=Usage)
    month: InPeriod = InPeriod()
    day: InPeriod = InPeriod()
    run: Usage = msgspec.field(default_factory=Usage)

    def within(self, per: Period, at: int) -> Usage:
        """Return what was used in the period that a time in nanoseconds is in."""
        if per == "all":
            return self.total
        last = self.day if per == "day" else self.month
        # Where the clock was set back, what was used "later" counts.
        return last.usage if last.name >= period_of(at, per) else Usage()


class Over(NamedTuple):
    """What is spent: of `limit` tokens or USD; or how many requests are `unpriced`, where the limit is of USD."""

    what: Literal["tokens", "usd", "unpriced"]
    limit: int | Decimal
    spent: int | Decimal


def spend(spent: Spent, event: ThreadEvent) -> Spent:
    """Return what was used after an event."""
    match event:
        case RunStarted():
            return replace(spent, run=Usage())
        case StepCompleted():
            used = used_by(event)
            return spent if used is None else _more(spent, used, event.at)
        case RunFinished():
            # The loop's own count knows of requests that no step was recorded for.
            return _more(spent, told_usage(event.usage).beyond(spent.run), event.at)
        case _:
            return spent


def over(limits: Limits, used: Usage) -> Over | None:
    """Return which of the limits is reached; None while there is something left."""
    if limits.tokens is not None and used.tokens >= limits.tokens:
        return Over("tokens", limits.tokens, used.tokens)
    if limits.usd is None:
        return None
    if used.cost_usd is not None and used.cost_usd >= limits.usd:
        return Over("usd", limits.usd, used.cost_usd)
    if used.unpriced and not limits.allow_unpriced:
        return Over("unpriced", limits.usd, used.unpriced)
    return None


def check_spent(stream: str, spent: Spent, limits: Limits, at: int) -> None:
    """Let a conversation go on that may use more.

    Raises:
        BudgetExceeded: it has used all that it may.
    """
    if (found := over(limits, spent.within(limits.per, at))) is not None:
        raise BudgetExceeded(scope="thread", name=stream, per=limits.per, **found._asdict())


def _more(spent: Spent, used: Usage, at: int) -> Spent:
    return Spent(
        spent.total.plus(used),
        _in_period(spent.month, period_of(at, "month"), used),
        _in_period(spent.day, period_of(at, "day"), used),
        spent.run.plus(used),
    )


def _in_period(last: InPeriod, name: str, used: Usage) -> InPeriod:
    if name < last.name:
        # The clock was set back over midnight: that day is over, and counts in the whole only.
        return last
    return InPeriod(name, last.usage.plus(used) if name == last.name else used)
