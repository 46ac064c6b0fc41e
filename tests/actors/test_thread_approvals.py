"""Questions for people: asked once, decided once, spent once."""

from __future__ import annotations

from typing import Any

import pytest

from clew.actors import CommandRejected, Effect
from clew.actors.errors import AlreadyDecided, InvalidDecision, UnknownApproval
from clew.actors.thread import NotifySettled, ResolveApproval, RunStatus, ThreadCommand, ThreadState, approval_key
from clew.actors.thread.changes import APPROVALS_KEPT
from clew.actors.thread.state import due, effects
from clew.journal.facts import (
    NOTHING,
    ApprovalNotified,
    ApprovalRequested,
    ApprovalResolved,
    ApprovalSettled,
    RunCancelled,
    RunFinished,
    StepCompleted,
    StepFailed,
    StepStarted,
)
from tests.actors.asks import (
    ASKED,
    PAY,
    alarm,
    approve,
    approve_edited,
    ask_approval,
    begin,
    begin_step,
    complete_call,
    note_notified,
    reject,
    suspend,
)
from tests.actors.story import BOOM, cancel, decide, evolved, fail, fail_step, finish, given, halt, raw, start


def waiting(*more: ThreadCommand, notify: bool = False) -> ThreadState:
    """Return a conversation that waits for somebody to decide, and what happened then."""
    return given(start(), ask_approval(notify=notify), suspend(ASKED), *more)


def resolved(decision: str, *, by: str | None = "ann", reason: str = "", at: int = 5) -> ApprovalResolved:
    return ApprovalResolved("r1", ASKED, decision, by, reason, NOTHING, "f1", at)


def settled(outcome: str, *, at: int = 5) -> ApprovalSettled:
    return ApprovalSettled("r1", ASKED, outcome, at)


def test_a_question_is_asked_once() -> None:
    events = decide(given(start()), ask_approval())

    assert events == (
        ApprovalRequested("r1", ASKED, "pay", PAY, raw({"amount": 1}), "f1", "agent:agent/r1", "1", False, 100, 3),
    )
    assert decide(given(start(), ask_approval()), ask_approval(expires_at=999)) == ()


def test_while_somebody_is_asked_nothing_of_the_run_is_driven() -> None:
    thread = waiting()

    assert thread.runs["r1"].status is RunStatus.SUSPENDED
    assert effects(thread) == ()
    assert due(thread) == 100


@pytest.mark.parametrize("decision", [approve(), reject()])
def test_a_decision_wakes_the_run(decision: ThreadCommand) -> None:
    thread = waiting(decision)

    assert thread.runs["r1"].status is RunStatus.RUNNING
    assert [effect.key for effect in effects(thread)] == ["run:r1"]
    assert due(thread) is None


def test_a_decision_that_comes_before_the_run_is_suspended_keeps_it_from_that() -> None:
    assert decide(given(start(), ask_approval(), approve()), suspend(ASKED)) == ()


def test_a_grant_is_recorded_and_not_settled_before_its_call_has_a_result() -> None:
    assert decide(waiting(), approve()) == (resolved("approved"),)


def test_a_rejection_is_settled_at_once_with_its_reason() -> None:
    assert decide(waiting(), reject()) == (resolved("rejected", reason="too much"), settled("rejected"))


@pytest.mark.parametrize("first", [approve(), reject()])
@pytest.mark.parametrize("second", [approve(at=9, by="bob"), reject(at=9)])
def test_a_decision_is_final(first: ResolveApproval, second: ResolveApproval) -> None:
    thread = waiting(first)

    if first.decision == second.decision:
        assert decide(thread, second) == ()
        return
    with pytest.raises(AlreadyDecided, match="a decision is final") as refused:
        decide(thread, second)
    assert (refused.value.decision, refused.value.by) == (first.decision, "ann")


@pytest.mark.parametrize("step", ["", "nope", ASKED.upper(), f"{ASKED} ", PAY])
def test_a_decision_about_what_nobody_asked_is_refused(step: str) -> None:
    with pytest.raises(UnknownApproval, match="there is no approval"):
        decide(waiting(), approve(step))


def test_a_decision_about_the_same_call_of_another_run_is_refused() -> None:
    with pytest.raises(UnknownApproval, match="there is no approval"):
        decide(waiting(), approve(run="r2"))


@pytest.mark.parametrize("by", ["agent:", "agent:agent/r1", "agent:other"])
def test_no_agent_decides(by: str) -> None:
    for decision in (approve(by=by), reject(by=by)):
        with pytest.raises(CommandRejected, match="is an agent, and agents decide no approvals"):
            decide(waiting(), decision)


@pytest.mark.parametrize(
    "decision",
    [None, "", 0, 1, True, "yes", "false", "Approved", "approved ", {}, [], object(), "expired", "cancelled"],
)
def test_what_is_no_decision_decides_nothing(decision: Any) -> None:
    thread = waiting()

    with pytest.raises(InvalidDecision, match="is no decision"):
        decide(thread, ResolveApproval("r1", ASKED, decision, "ann", "", 5))

    assert thread.approvals[approval_key("r1", ASKED)].decision is None
    assert [type(event) for event in decide(thread, approve())] == [ApprovalResolved]


def test_a_question_expires_at_its_time_and_not_before() -> None:
    thread = waiting()

    assert decide(thread, alarm(99)) == ()
    events = decide(thread, alarm(100))

    assert events == (resolved("expired", by=None, reason="approval timed out", at=100), settled("expired", at=100))
    after = evolved(thread, events)
    assert (after.runs["r1"].status, due(after), decide(after, alarm(100))) == (RunStatus.RUNNING, None, ())


@pytest.mark.parametrize("decision", [approve(at=100), reject(at=101)])
def test_a_decision_after_the_time_finds_the_question_expired_though_the_alarm_is_late(
    decision: ResolveApproval,
) -> None:
    thread = waiting()

    events = decide(thread, decision)

    at = decision.at
    assert events == (resolved("expired", by=None, reason="approval timed out", at=at), settled("expired", at=at))
    with pytest.raises(AlreadyDecided, match="is expired"):
        decide(evolved(thread, events), decision)


@pytest.mark.parametrize("run_is", [[halt()], []])
def test_a_question_expires_also_while_its_run_is_halted_or_not_yet_suspended(run_is: list[ThreadCommand]) -> None:
    thread = given(start(), ask_approval(), *run_is)

    assert due(thread) == 100
    assert [type(event) for event in decide(thread, alarm(100))] == [ApprovalResolved, ApprovalSettled]


def test_several_questions_are_decided_in_any_order() -> None:
    asked = [ask_approval(f"approval:c{n}", call=f"tool:pay:c{n}") for n in range(3)]
    thread = given(start(), *asked, suspend("approval:c0", "approval:c1", "approval:c2"))

    for step, decision in (("approval:c2", approve), ("approval:c0", reject), ("approval:c1", approve)):
        thread = evolved(thread, decide(thread, decision(step)))

    decisions = [asked.decision for asked in thread.approvals.values()]
    assert decisions == ["rejected", "approved", "approved"]
    for number, refused in ((0, True), (1, False), (2, False)):
        spend = begin_step(f"tool:pay:c{number}", approval=f"approval:c{number}")
        if refused:
            with pytest.raises(CommandRejected, match="is not approved; it did not run"):
                decide(thread, spend)
        else:
            assert [type(event) for event in decide(thread, spend)] == [StepStarted]


def test_a_run_with_one_of_several_decided_is_suspended_again_for_the_others() -> None:
    thread = given(start(), ask_approval("a1"), ask_approval("a2"), suspend("a1", "a2"), approve("a1"))

    assert decide(thread, suspend("a1", "a2")) == ()
    assert evolved(thread, decide(thread, suspend("a2"))).runs["r1"].status is RunStatus.SUSPENDED


@pytest.mark.parametrize("end", [finish(), fail(), cancel()])
def test_the_questions_of_a_run_that_ends_are_closed_with_it(end: ThreadCommand) -> None:
    thread = given(start(), ask_approval(), begin("r2")) if end != cancel() else waiting(begin("r2"))

    events = decide(thread, end)

    closed = resolved("cancelled", by=None, reason="the run ended before anybody decided", at=9)
    assert events[:2] == (closed, settled("cancelled", at=9))
    after = evolved(thread, events)
    assert after.open_run == "r2"
    with pytest.raises(AlreadyDecided, match="is cancelled"):
        decide(after, approve())


def test_a_grant_that_nobody_spent_is_settled_as_unknown_when_its_run_ends() -> None:
    events = decide(waiting(approve()), finish())

    assert [type(event) for event in events] == [ApprovalSettled, RunFinished]
    assert events[0] == settled("unknown", at=9)


def test_a_grant_whose_call_was_under_way_is_settled_as_cancelled_when_its_run_is() -> None:
    events = decide(waiting(approve(), begin_step(approval=ASKED)), cancel())

    assert [type(event) for event in events] == [ApprovalSettled, RunCancelled]
    assert events[0] == settled("cancelled", at=9)


def test_a_grant_is_spent_only_by_its_own_call() -> None:
    thread = waiting(approve())

    with pytest.raises(CommandRejected, match="tool:pay:c2 of run r1 is not approved; it did not run"):
        decide(thread, begin_step("tool:pay:c2", approval=ASKED))

    assert decide(thread, begin_step(approval=ASKED)) == (StepStarted("r1", PAY, 1, False, ASKED, None, 6),)


@pytest.mark.parametrize("before", [[], [reject()], [alarm(100)]])
def test_a_call_that_is_not_approved_does_not_begin(before: list[ThreadCommand]) -> None:
    thread = given(start(), ask_approval(), *before)

    with pytest.raises(CommandRejected, match="is not approved; it did not run"):
        decide(thread, begin_step(approval=ASKED))


def test_a_call_with_an_approval_that_was_never_asked_for_does_not_begin() -> None:
    with pytest.raises(CommandRejected, match="is not approved; it did not run"):
        decide(given(start()), begin_step(approval=ASKED))


def test_a_grant_is_settled_with_the_result_of_its_call() -> None:
    thread = waiting(approve(), begin_step(approval=ASKED))

    events = decide(thread, complete_call())

    assert [type(event) for event in events] == [StepCompleted, ApprovalSettled]
    assert events[1] == settled("approved", at=7)
    with pytest.raises(CommandRejected, match="was begun before"):
        decide(evolved(thread, events), begin_step(approval=ASKED))


def test_a_grant_whose_call_failed_for_good_is_settled() -> None:
    failed = fail_step(PAY, final=True)
    command = type(failed)(failed.run, PAY, {}, 1, True, BOOM, 7, NOTHING, None, ASKED)

    events = decide(waiting(approve(), begin_step(approval=ASKED)), command)

    assert [type(event) for event in events] == [StepFailed, ApprovalSettled]


@pytest.mark.parametrize("outcome", ["unknown", "unreadable"])
@pytest.mark.parametrize("decided", [True, False])
def test_a_call_that_cannot_be_made_settles_its_approval_as_that(outcome: str, decided: bool) -> None:
    thread = given(start(), ask_approval(), *([approve()] if decided else []))

    events = decide(thread, complete_call(outcome=outcome))

    assert events[-1] == settled(outcome, at=7)
    after = evolved(thread, events).approvals[approval_key("r1", ASKED)]
    assert (after.decision, after.outcome) == ("approved" if decided else "cancelled", outcome)


def test_a_result_before_any_decision_is_no_grant() -> None:
    thread = given(start(), ask_approval())

    events = decide(thread, complete_call())

    assert [type(event) for event in events] == [StepCompleted, ApprovalResolved, ApprovalSettled]
    assert events[-1] == settled("cancelled", at=7)
    with pytest.raises(AlreadyDecided, match="is cancelled"):
        decide(evolved(thread, events), approve())


def test_what_a_call_asks_in_the_middle_of_it_is_settled_with_its_result() -> None:
    asked = [ask_approval(f"{PAY}/approval"), ask_approval(f"{PAY}/approval#2")]
    thread = given(start(), *asked, suspend(f"{PAY}/approval"), approve(f"{PAY}/approval"))

    events = decide(thread, complete_call(approval=None))

    assert [type(event) for event in events] == [StepCompleted, ApprovalSettled, ApprovalResolved, ApprovalSettled]
    assert [event.outcome for event in events if isinstance(event, ApprovalSettled)] == ["approved", "cancelled"]
    ended = [event for event in decide(thread, finish()) if isinstance(event, ApprovalSettled)]
    assert [event.outcome for event in ended] == ["cancelled", "cancelled"]


def test_edited_arguments_are_recorded_with_their_fingerprint() -> None:
    thread = waiting()

    events = decide(thread, approve_edited({"amount": 2}, "f2"))

    assert events == (ApprovalResolved("r1", ASKED, "approved", "ann", "", raw({"amount": 2}), "f2", 5),)
    asked = evolved(thread, events).approvals[approval_key("r1", ASKED)]
    assert (asked.edited, asked.arguments, asked.fingerprint) == (True, raw({"amount": 2}), "f2")


def test_an_approval_of_other_arguments_than_those_approved_is_another_decision() -> None:
    edited = waiting(approve_edited({"amount": 2}, "f2"))

    assert decide(edited, approve_edited({"amount": 2}, "f2", at=9)) == ()
    for other in (approve(), approve_edited({"amount": 3}, "f3")):
        with pytest.raises(AlreadyDecided):
            decide(edited, other)
    with pytest.raises(AlreadyDecided):
        decide(waiting(approve()), approve_edited({"amount": 2}, "f2"))


@pytest.mark.parametrize(
    "command",
    [
        approve_edited({"amount": 2}, None),
        ResolveApproval("r1", ASKED, "rejected", "ann", "", 5, raw({"amount": 2}), "f2"),
        ResolveApproval("r1", ASKED, "approved", "ann", "", 5, NOTHING, "f2"),
    ],
)
def test_edits_that_do_not_fit_together_are_refused_and_the_question_waits(command: ResolveApproval) -> None:
    thread = waiting()

    with pytest.raises(CommandRejected, match="fingerprint"):
        decide(thread, command)

    assert decide(thread, approve()) == (resolved("approved"),)


def test_whoever_is_to_be_told_of_a_settlement_is_told_once() -> None:
    thread = waiting(reject(), notify=True)
    tell = Effect(f"notify:r1/{ASKED}", NotifySettled("r1", ASKED, "agent"))
    assert tell in effects(thread)

    events = decide(thread, note_notified())

    assert events == (ApprovalNotified("r1", ASKED, 8),)
    after = evolved(thread, events)
    assert tell not in effects(after)
    assert decide(after, note_notified()) == ()


@pytest.mark.parametrize("thread", [waiting(notify=True), waiting(approve(), notify=True), waiting(reject()), given()])
def test_nobody_is_told_of_what_is_not_settled_or_is_for_no_one(thread: ThreadState) -> None:
    assert decide(thread, note_notified()) == ()
    assert [effect for effect in effects(thread) if effect.key.startswith("notify:")] == []


def test_somebody_is_still_to_be_told_after_the_run_has_ended() -> None:
    assert [effect.key for effect in effects(waiting(cancel(), notify=True))] == [f"notify:r1/{ASKED}"]


def test_the_approvals_of_ended_runs_are_remembered_up_to_a_number_but_none_that_is_to_be_told() -> None:
    thread = given(start("told"), ask_approval(run="told", notify=True), cancel("told"))
    for number in range(APPROVALS_KEPT + 5):
        run = f"n{number}"
        thread = evolved(thread, decide(thread, start(run)))
        thread = evolved(thread, decide(thread, ask_approval(run=run)))
        thread = evolved(thread, decide(thread, cancel(run)))

    assert len(thread.approvals) == APPROVALS_KEPT
    assert list(thread.approvals)[:2] == [f"told/{ASKED}", f"n6/{ASKED}"]
