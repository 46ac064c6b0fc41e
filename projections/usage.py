"""What models and tools used, counted from what is recorded of their steps, and the days and months to count it in.

A cost is what was recorded beside the tokens. Nothing here looks up a price: the same events give the same sum.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, Inexact
from typing import Any, Final, Literal, TypeAlias

import msgspec

from ..journal.facts import NOTHING, StepCompleted

__all__ = ["PERIODS", "Period", "Usage", "model_of", "period_of", "tell_usage", "told_usage", "used_by", "used_within"]

Period: TypeAlias = Literal["all", "day", "month"]
"""What a budget is for: all there ever was, or a day or month of UTC."""

PERIODS: Final = ("all", "day", "month")

_EXACT: Final = Context(prec=100, traps=[Inexact])
_COST_MAX: Final = Decimal(10) ** 15
_DIGITS_MAX: Final = 60
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Usage(msgspec.Struct):
    """What model calls used: how many there were, their tokens, and what they cost.

    `cost_usd` is the sum of the costs that are known, exactly; None where none is. `unpriced` counts the requests whose
    cost is not known, of the sub-agents in a tool only where that of none is; so where it is 0, a cost is the whole.
    """

    requests: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal | None = None
    unpriced: int = 0

    @property
    def tokens(self) -> int:
        """Tokens in and out."""
        return self.input_tokens + self.output_tokens

    def add(self, other: Usage, *, times: int = 1) -> None:
        """Add what another one used, or take it off again with `times=-1`."""
        self.requests += times * other.requests
        self.tool_calls += times * other.tool_calls
        self.input_tokens += times * other.input_tokens
        self.output_tokens += times * other.output_tokens
        self.unpriced += times * other.unpriced
        if other.cost_usd is not None:
            self.cost_usd = _EXACT.fma(other.cost_usd, times, self.cost_usd or 0)

    def plus(self, other: Usage) -> Usage:
        """Return both together."""
        both = msgspec.structs.replace(self)
        both.add(other)
        return both

    def beyond(self, other: Usage) -> Usage:
        """Return what this one used more than another one, in each count; no cost where it is not more."""
        more = self.plus(Usage())
        more.add(other, times=-1)
        cost = None if self.cost_usd is None or not (more.cost_usd or 0) > 0 else more.cost_usd
        return Usage(
            max(0, more.requests),
            max(0, more.tool_calls),
            max(0, more.input_tokens),
            max(0, more.output_tokens),
            cost,
            max(0, more.unpriced),
        )


class _Told(msgspec.Struct):
    """A usage as it is recorded: pydantic-ai's, in which a cost is USD; `unpriced` is ours, where it is not plain."""

    requests: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal | None = None
    unpriced: int | None = None


class _Attempt(msgspec.Struct):
    """A request that was answered and then given up for another one; it was paid for too."""

    usage: _Told | None = None


class _Response(msgspec.Struct):
    """What counts of a model's response."""

    usage: _Told | None = None
    failed_attempts: list[_Attempt] | None = None
    model_name: str | None = None


_USAGE = msgspec.json.Decoder(_Told | None)
_RESPONSE = msgspec.json.Decoder(_Response)


def used_by(event: StepCompleted) -> Usage | None:
    """Return what a step used: a turn of the model, or a tool with the sub-agents in it; None for any other step.

    What sub-agents do within a tool is that tool's own affair, and counts with it.
    """
    if "/" in event.step:
        return None
    if event.step.startswith("llm:"):
        return _used_by_response(event.result)
    if event.step.startswith("tool:"):
        used = told_usage(event.usage)
        used.tool_calls += 1
        return used
    return None


def used_within(event: StepCompleted) -> Usage | None:
    """Return what a turn of a sub-agent used that is a step within a tool; None for any other step."""
    _, within, step = event.step.rpartition("/")
    return _used_by_response(event.result) if within and step.startswith("llm:") else None


def model_of(event: StepCompleted) -> str:
    """Return the name of the model that a turn was taken by; empty where it is not recorded."""
    named = event.request.get("model", "") if event.step.startswith("llm:brief:") else ""
    return _response(event.result).model_name or named


def told_usage(told: msgspec.Raw) -> Usage:
    """Return a recorded usage; nothing was used where nothing is told."""
    try:
        return _usage(_USAGE.decode(told) or _Told())
    except (msgspec.ValidationError, ArithmeticError):
        # Not ours, and not known: an actor must not fail to wake because of it.
        return Usage()


def tell_usage(used: Usage) -> msgspec.Raw:
    """Return a usage as it is recorded; nothing where nothing was used."""
    told: dict[str, Any] = {
        "requests": used.requests,
        "tool_calls": used.tool_calls,
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
    }
    if used.cost_usd is not None:
        told |= {"cost": str(used.cost_usd), "unpriced": used.unpriced}
    kept = {key: value for key, value in told.items() if value}
    return msgspec.Raw(msgspec.json.encode(kept)) if kept else NOTHING


def period_of(at: int, per: Period) -> str:
    """Return the day (`2026-05-01`) or month (`2026-05`) of UTC that a time in nanoseconds is in; "" of all time."""
    if per == "all":
        return ""
    day = (_EPOCH + timedelta(days=at // 86_400_000_000_000)).date().isoformat()
    return day if per == "day" else day[:7]


def _used_by_response(result: msgspec.Raw) -> Usage:
    response = _response(result)
    told = response.usage or _Told()
    told.requests = told.tool_calls = 0
    used = _usage(told)
    used.requests, used.unpriced = 1, int(used.cost_usd is None)
    for attempt in response.failed_attempts or ():
        if attempt.usage is not None:
            attempt.usage.requests = 0
            given_up = _usage(attempt.usage)
            given_up.unpriced = int(given_up.cost_usd is None)
            used.add(given_up)
    return used


def _response(result: msgspec.Raw) -> _Response:
    try:
        return _RESPONSE.decode(result)
    except (msgspec.ValidationError, ArithmeticError):
        # Not every answer of a model is a response with a usage; then the tokens are not known.
        return _Response()


def _usage(told: _Told) -> Usage:
    cost = _known(told.cost)
    unpriced = told.unpriced if told.unpriced is not None else told.requests if cost is None else 0
    return Usage(told.requests, told.tool_calls, told.input_tokens, told.output_tokens, cost, unpriced)


def _known(cost: Decimal | None) -> Decimal | None:
    """Return a cost that can be added up exactly; anything else is none that is known."""
    if cost is None or not cost.is_finite() or not 0 <= cost < _COST_MAX:
        return None
    exponent = cost.as_tuple().exponent
    return cost if isinstance(exponent, int) and -_DIGITS_MAX <= exponent <= _DIGITS_MAX else None
