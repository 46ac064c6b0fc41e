"""Who wants to know what became of an approval is told once, whatever it was, and can do no harm."""

from __future__ import annotations

import queue
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from pydantic_ai import Agent

from clew.actors import ActorSystem, UnknownKind
from clew.actors.agent import AgentDefinition, ApprovalSettlement
from clew.actors.agent.sealing import Unreadable
from clew.actors.thread import (
    AlarmFired,
    RequestApproval,
    ResolveApproval,
    StartStep,
    SuspendRun,
    ThreadCommand,
)
from clew.journal.facts import ApprovalNotified
from clew.projections import conversation
from tests.actors.story import Story, cancel, complete, finish, raw, start
from tests.actors.support import WAIT_S, events_of, marked, until

CALL, STEP = "tool:pay:c1", "approval:c1"
ASKED = [
    start(),
    RequestApproval(
        run="r1",
        step=STEP,
        tool="pay",
        call=CALL,
        arguments=raw({"cents": 5}),
        fingerprint="f",
        principal="agent:agent:t",
        policy="1",
        notify=True,
        expires_at=100,
        at=2,
    ),
    SuspendRun("r1", (STEP,), 2),
]


def decided(decision: str, *, arguments: object = None) -> ResolveApproval:
    fingerprint = None if arguments is None else "that of the edited arguments"
    return ResolveApproval("r1", STEP, decision, "eve", "because", 3, raw(arguments), fingerprint)


def called(result: object, *, outcome: str = "approved") -> list[ThreadCommand]:
    """The call is made once it is approved, and the run goes on to its end."""
    done = msgspec.structs.replace(complete(CALL, result=result), approval=STEP, outcome=outcome)
    return [StartStep("r1", CALL, 1, False, STEP, None, 4), done, finish()]


APPROVED = [*ASKED, decided("approved"), *called({"kind": "tool_result", "result": {"paid": 5}})]


def settlement(**fields: Any) -> ApprovalSettlement:
    known: dict[str, Any] = {"by": "eve", "reason": "because", "arguments": {"cents": 5}, "result": None}
    return ApprovalSettlement(thread="t", run="r1", approval=f"r1/{STEP}", tool="pay", **{**known, **fields})


class Told:
    """Notes what it is told; `raises` is what it does about it."""

    def __init__(self, raises: Exception | None = None) -> None:
        self.settled: queue.SimpleQueue[ApprovalSettlement] = queue.SimpleQueue()
        self._raises = raises

    def __call__(self, settled: ApprovalSettlement) -> None:
        self.settled.put(settled)
        if self._raises is not None:
            raise self._raises

    async def later(self, settled: ApprovalSettlement) -> None:
        self(settled)


def agent(**options: Any) -> AgentDefinition[None, str]:
    return AgentDefinition(agent=Agent("test", name="agent"), **options)


def notices(story: Story) -> int:
    return events_of(story.journal, "thread/t").count("notified")


ENDS: dict[str, tuple[list[ThreadCommand], ApprovalSettlement]] = {
    "approved": (APPROVED, settlement(outcome="approved", result={"paid": 5})),
    "approved as edited": (
        [*ASKED, decided("approved", arguments={"cents": 4}), *called({"kind": "tool_result", "result": 4})],
        settlement(outcome="approved", arguments={"cents": 4}, result=4),
    ),
    "a result in pydantic-ai's wrapper": (
        [*ASKED, decided("approved"), *called({"kind": "x", "result": {"kind": "tool-return", "return_value": 7}})],
        settlement(outcome="approved", result=7),
    ),
    "rejected": ([*ASKED, decided("rejected"), cancel()], settlement(outcome="rejected")),
    "expired": (
        [*ASKED, AlarmFired(100), cancel()],
        settlement(outcome="expired", by=None, reason="approval timed out"),
    ),
    "cancelled": (
        [*ASKED, cancel()],
        settlement(outcome="cancelled", by=None, reason="the run ended before anybody decided"),
    ),
    "unknown": ([*ASKED, decided("approved"), cancel()], settlement(outcome="unknown")),
    "unreadable": (
        [*ASKED, decided("approved"), *called({"message": "not made"}, outcome="unreadable")],
        settlement(outcome="unreadable"),
    ),
}


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(("commands", "expected"), ENDS.values(), ids=ENDS.keys())
def test_each_settlement_is_told_once(
    commands: list[ThreadCommand], expected: ApprovalSettlement, is_async: bool
) -> None:
    story, told = Story(*commands), Told()
    told_agent = agent(on_settled=told.later if is_async else told)

    for _ in range(2):
        with ActorSystem(story.journal, agents=[told_agent]) as system:
            until(lambda: not marked(story.journal, "thread/t"))
            assert list(system.failures) == []

    assert told.settled.get(timeout=WAIT_S) == expected
    assert told.settled.empty()
    assert notices(story) == 1


def test_a_settlement_is_noted_after_it_was_told_with_the_time_of_the_system() -> None:
    story, told = Story(*APPROVED), Told()
    with ActorSystem(story.journal, agents=[agent(on_settled=told)], clock=lambda: 1234):
        until(lambda: not marked(story.journal, "thread/t"))

    assert conversation.catalog.decode(story.events[-1]) == ApprovalNotified("r1", STEP, 1234)


def test_what_the_listener_raises_is_reported_and_harms_nothing() -> None:
    story, told = Story(*APPROVED), Told(RuntimeError("boom"))
    with ActorSystem(story.journal, agents=[agent(on_settled=told)]) as system:
        until(lambda: not marked(story.journal, "thread/t"))
        [failure] = system.failures

    assert (failure.stream, failure.what, str(failure.error)) == (
        "thread/t",
        "on_settled of agent agent raised",
        "boom",
    )
    assert notices(story) == 1


def test_a_listener_that_is_gone_is_not_missed() -> None:
    story = Story(*APPROVED)
    with ActorSystem(story.journal, agents=[agent()]) as system:
        until(lambda: not marked(story.journal, "thread/t"))
        assert list(system.failures) == []
    assert notices(story) == 1


def test_an_agent_that_is_not_there_is_reported_and_told_at_the_next_opening() -> None:
    story, told = Story(*APPROVED), Told()
    other = Agent("test", name="other")
    with ActorSystem(story.journal, agents=[other]) as system:
        until(lambda: system.failures)
        assert [type(failure.error) for failure in system.failures] == [UnknownKind]
    assert marked(story.journal, "thread/t")

    with ActorSystem(story.journal, agents=[agent(on_settled=told)]):
        until(lambda: not marked(story.journal, "thread/t"))
    assert told.settled.get(timeout=WAIT_S).outcome == "approved"


class Lost:
    """A seal whose key is gone."""

    def close(self, arguments: Mapping[str, Any], place: str) -> msgspec.Raw:
        raise AssertionError("nothing is closed here")

    def open(self, stored: msgspec.Raw, place: str) -> object:
        raise Unreadable("the key is gone")


def test_arguments_that_cannot_be_read_are_none() -> None:
    story, told = Story(*APPROVED), Told()
    with ActorSystem(story.journal, agents=[agent(on_settled=told, seal=Lost())]):
        until(lambda: not marked(story.journal, "thread/t"))

    assert told.settled.get(timeout=WAIT_S) == settlement(outcome="approved", arguments=None, result={"paid": 5})
