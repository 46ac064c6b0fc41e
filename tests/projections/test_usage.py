"""Usage: tokens and costs add up exactly, and what is not known is neither zero nor an error."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.journal.facts import NOTHING, StepCompleted
from clew.projections import Usage, view_of
from clew.projections.usage import model_of, period_of, tell_usage, told_usage, used_by, used_within
from tests.actors.story import Story, complete, fail, finish, raw, start

costs = st.decimals(min_value=0, max_value=10**6, allow_nan=False, allow_infinity=False, places=18)
counts = st.integers(0, 10**9)
usages = st.builds(Usage, counts, counts, counts, counts, st.none() | costs, counts)


def step(name: str, result: object = None, *, usage: object = None, request: dict[str, str] | None = None) -> Any:
    return StepCompleted("r", name, request or {}, raw(result), 1, NOTHING, raw(usage))


@given(st.lists(usages, max_size=30), st.integers(1, 6))
def test_costs_add_up_exactly_in_any_order_whatever_precision_the_process_has(used: list[Usage], digits: int) -> None:
    known = [one.cost_usd for one in used if one.cost_usd is not None]
    there, back = Usage(), Usage()

    with localcontext(Context(prec=digits)):
        for one in used:
            there.add(one)
        for one in reversed(used):
            back.add(one)

    with localcontext(Context(prec=200)):
        assert there.cost_usd == (sum(known, Decimal(0)) if known else None)
    assert there == back


@given(usages, usages)
def test_what_was_added_can_be_taken_off_and_told_apart(one: Usage, other: Usage) -> None:
    both = one.plus(other)
    counted = ("requests", "tool_calls", "input_tokens", "output_tokens", "unpriced")

    assert [getattr(both.beyond(one), name) for name in counted] == [getattr(other, name) for name in counted]
    assert (both.beyond(one).cost_usd or 0) == (other.cost_usd or 0)
    assert one.beyond(both) == Usage()
    both.add(other, times=-1)
    assert [getattr(both, name) for name in counted] == [getattr(one, name) for name in counted]
    assert (both.cost_usd or 0) == (one.cost_usd or 0)


@given(usages)
def test_a_usage_is_told_and_read_back_as_it_was(used: Usage) -> None:
    if used.cost_usd is None:
        used.unpriced = used.requests

    assert told_usage(tell_usage(used)) == used


def test_nothing_used_is_told_as_nothing() -> None:
    assert bytes(tell_usage(Usage())) == bytes(NOTHING)


@pytest.mark.requirement("L-LOOP-15")
def test_a_turn_has_the_cost_that_was_recorded_with_it() -> None:
    used = {"input_tokens": 10, "output_tokens": 2, "cost": "0.000123"}

    assert used_by(step("llm:turn:1", {"usage": used})) == Usage(1, 0, 10, 2, Decimal("0.000123"), 0)
    assert used_by(step("llm:turn:1", {"usage": {**used, "cost": "0"}})) == Usage(1, 0, 10, 2, Decimal(0), 0)
    assert used_by(step("llm:turn:1", {"usage": {"input_tokens": 10}})) == Usage(1, 0, 10, 0, None, 1)


def test_responses_that_were_given_up_for_another_one_were_paid_for_too() -> None:
    attempts = [{"usage": {"input_tokens": 5, "cost": "0.5"}}, {"usage": None}, {"usage": {"output_tokens": 3}}]
    result = {"usage": {"input_tokens": 10, "cost": "0.25"}, "failed_attempts": attempts}

    assert used_by(step("llm:turn:1", result)) == Usage(1, 0, 15, 3, Decimal("0.75"), 1)


@pytest.mark.parametrize("cost", ['"NaN"', '"-Infinity"', "-1", '"1E-99"', '"1E+99"'])
def test_a_cost_that_is_none_is_not_known(cost: str) -> None:
    told = msgspec.Raw(b'{"requests":2,"input_tokens":7,"cost":%s}' % cost.encode())

    assert told_usage(told) == Usage(2, 0, 7, 0, None, 2)


@pytest.mark.parametrize(
    "told", ["7", '"x"', '{"input_tokens":"many"}', '{"cost":"x"}', '{"cost":"1E+9999999999999999999"}']
)
def test_what_is_no_usage_is_not_known_and_stops_nobody(told: str) -> None:
    assert told_usage(msgspec.Raw(told.encode())) == Usage()
    assert used_by(step("llm:turn:1", {"usage": msgspec.Raw(told.encode())})) == Usage(requests=1, unpriced=1)


def test_a_step_within_a_tool_counts_with_the_tool() -> None:
    within = step("tool:ask:c1/llm:turn:1", {"usage": {"input_tokens": 10}})
    tool = step("tool:ask:c1", usage={"requests": 1, "input_tokens": 10})

    assert used_by(within) is None
    assert used_within(within) == Usage(requests=1, input_tokens=10, unpriced=1)
    assert used_by(tool) == Usage(requests=1, tool_calls=1, input_tokens=10, unpriced=1)
    assert used_within(tool) is used_within(step("tool:ask:c1/tool:add:c2")) is used_by(step("instructions")) is None


def test_the_model_of_a_turn_is_the_one_that_answered() -> None:
    assert model_of(step("llm:turn:1", {"model_name": "m-1"}, request={"model": "digest"})) == "m-1"
    assert model_of(step("llm:brief:2", {"text": "x"}, request={"model": "cheap"})) == "cheap"
    assert not model_of(step("llm:turn:1", "no response", request={"model": "digest"}))


def test_costs_of_runs_that_ended_anyhow_add_up_in_the_thread() -> None:
    turn = {"usage": {"input_tokens": 10, "output_tokens": 2, "cost": "0.1"}}
    told = {"requests": 1, "input_tokens": 10, "output_tokens": 2, "cost": "0.1"}
    story = Story(start(), complete(result=turn), finish(usage=told), start("r2"), complete(run="r2", result=turn))
    story.tell(fail("r2"), start("r3"), complete(run="r3", result={"usage": {"input_tokens": 10}}), finish("r3"))

    view = view_of(story.events)

    assert [run.usage.cost_usd for run in view.runs] == [Decimal("0.1"), Decimal("0.1"), None]
    assert (view.usage.cost_usd, view.runs[0].usage.unpriced) == (Decimal("0.2"), 0)


def test_a_run_of_an_earlier_version_has_the_cost_that_its_end_tells() -> None:
    told = {"requests": 2, "input_tokens": 10, "cost": "0.0300"}

    view = view_of(Story(start(), complete(result={"usage": {"input_tokens": 10}}), finish(usage=told)).events)

    assert view.usage == view.runs[0].usage == Usage(requests=2, input_tokens=10, cost_usd=Decimal("0.03"))


@pytest.mark.parametrize(
    ("at", "day", "month"),
    [(0, "1970-01-01", "1970-01"), (86_400 * 10**9 - 1, "1970-01-01", "1970-01"), (-1, "1969-12-31", "1969-12")],
)
def test_days_and_months_are_those_of_utc(at: int, day: str, month: str) -> None:
    assert (period_of(at, "day"), period_of(at, "month"), period_of(at, "all")) == (day, month, "")
