"""What a conversation asked others for, at a glance: decisions of people, and runs of other threads."""

from __future__ import annotations

import msgspec
import pytest

from clew.actors.outbox import Acknowledge
from clew.actors.thread import AlarmFired, ThreadCommand
from clew.journal.facts import NOTHING, ErrorFact
from clew.projections import view_of
from tests.actors.story import Story, cancel, raw
from tests.projections.asking import ASKED, DELEGATED, EXPIRES, ask, begin_run, called, decide, edit, end_child, seen


def test_an_approval_is_seen_as_it_was_asked() -> None:
    [asked] = seen(ask(args={"sum": 30})).approvals

    assert (asked.id, asked.run, asked.step) == ("r1/approval:a", "r1", "approval:a")
    assert (asked.tool, asked.call, asked.arguments) == ("add", "tool:add:a", raw({"sum": 30}))
    assert (asked.fingerprint, asked.principal) == ("print-a", "agent:desk")
    assert (asked.asked_at, asked.expires_at) == (3, EXPIRES)
    assert (asked.decision, asked.outcome, asked.edited) == (None, None, NOTHING)


@pytest.mark.parametrize(
    ("then", "decision", "by", "reason", "outcome"),
    [
        (decide(), "approved", "bob", "", None),
        (decide(decision="rejected", reason="too much"), "rejected", "bob", "too much", "rejected"),
        (AlarmFired(EXPIRES), "expired", None, "approval timed out", "expired"),
        (cancel(owner="ann"), "cancelled", None, "the run ended before anybody decided", "cancelled"),
    ],
)
def test_an_approval_says_how_it_was_decided(
    then: ThreadCommand, decision: str, by: str | None, reason: str, outcome: str | None
) -> None:
    view = seen(*ASKED, then)

    [asked] = view.approvals
    assert (asked.decision, asked.by, asked.reason, asked.outcome) == (decision, by, reason, outcome)
    assert asked.decided_at is not None
    assert view.pending == []


def test_an_edited_approval_keeps_what_was_asked_and_what_was_approved() -> None:
    [asked] = seen(*ASKED, edit()).approvals

    assert (asked.arguments, asked.edited, asked.fingerprint) == (raw({"n": 1}), raw({"n": 2}), "edited")


@pytest.mark.parametrize(
    ("then", "status", "error"),
    [
        ([], "running", None),
        ([end_child()], "done", None),
        ([end_child(status="failed")], "failed", "Boom: it broke"),
        ([AlarmFired(80)], "timed_out", "ChildTimedOut: run r1-k of thread/child took longer than it may"),
        ([cancel(owner="ann")], "abandoned", None),
    ],
)
def test_a_child_is_listed_with_what_became_of_it(then: list[ThreadCommand], status: str, error: str | None) -> None:
    [child] = seen(*DELEGATED, *then).children

    assert (child.thread, child.child_run, child.agent) == ("thread/child", "r1-k", "helper")
    assert (child.run, child.step, child.status, child.error) == ("r1", "tool:ask:k", status, error)


def test_a_child_whose_start_was_refused_has_ended() -> None:
    story = Story(begin_run(), called("a"), *DELEGATED)
    id_ = next(msgspec.json.decode(bytes(e.data))["id"] for e in story.events if e.type.name == "message.sent")

    view = view_of(story.tell(Acknowledge(id_, ErrorFact("UnknownAgent", "no such agent"), 9)).events)

    assert (view.status, view.children[0].status) == ("running", "refused")
