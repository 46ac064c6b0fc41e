"""The inbox: what waits for a decision in all threads, in every journal, wherever the fold was cut."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from clew.actors.thread import AlarmFired, ThreadCommand
from clew.journal import Journal, MemoryJournal, NewEvent
from clew.projections import (
    DurableProjection,
    LiveRows,
    PendingApproval,
    approvals_inbox,
    fold_rows,
    pending_approvals,
    rebuild,
    view_of,
)
from tests.actors.story import Story, cancel, fail, raw, start
from tests.projections.asking import (
    EVERYTHING,
    EXPIRES,
    ask,
    begin_run,
    called,
    decide,
    edit,
    queue,
    wait_for,
)
from tests.projections.conversations import whole_run

WAITING: list[ThreadCommand] = [begin_run(), called("a", "b"), ask("b"), ask("a"), wait_for("approval:a", "approval:b")]

STORIES: dict[str, list[ThreadCommand]] = {
    "waits": WAITING,
    "one": [*WAITING, decide("b")],
    "plain": whole_run(),
    "all": EVERYTHING,
    "half": EVERYTHING[:14],
    "next": [begin_run(), ask("z"), queue("r2"), cancel(owner="ann"), ask("y", run="r2")],
}


def tell(journal: Journal, *names: str) -> None:
    """Let the stories happen in one journal, an event of each in turn."""
    told = {name: Story(*STORIES[name]).events for name in names}
    for place in range(max(len(events) for events in told.values())):
        for name, events in told.items():
            for event in events[place : place + 1]:
                journal.append(f"thread/{name}", [NewEvent(event.canonical)], expected=event.sequence - 1).wait()


def inbox(journal: Journal) -> list[PendingApproval]:
    return list(pending_approvals(LiveRows(journal, approvals_inbox)))


def as_views_say(journal: Journal) -> list[tuple[str, str, str | None, object, int]]:
    return sorted(
        (head.stream, asked.id, view.owner, asked.arguments, asked.expires_at)
        for head in journal.streams("thread")
        for view in [view_of(journal.read(head.stream))]
        for asked in view.pending
    )


@pytest.mark.parametrize("batch", [1, 2, 7, 500])
def test_the_inbox_holds_what_the_views_of_the_threads_say_is_pending(batch: int, journal: Journal) -> None:
    durable = DurableProjection(journal, approvals_inbox, batch_events_max=batch)
    tell(journal, "waits", "plain", "all")
    durable.catch_up()
    tell(journal, "one", "half", "next")

    durable.catch_up()

    rows = inbox(journal)
    assert [(r.thread, r.id, r.owner, r.arguments, r.expires_at) for r in rows] == as_views_say(journal)
    assert [(r.thread, r.step) for r in rows] == [
        ("thread/half", "approval:a"),
        ("thread/next", "approval:y"),
        ("thread/one", "approval:a"),
        ("thread/waits", "approval:a"),
        ("thread/waits", "approval:b"),
    ]


def test_a_row_has_what_somebody_needs_who_decides() -> None:
    journal = MemoryJournal()
    tell(journal, "waits")

    row = next(pending_approvals(fold_rows(journal, approvals_inbox)))

    assert row == PendingApproval(
        thread="thread/waits",
        owner="ann",
        run="r1",
        step="approval:a",
        agent="agent",
        tool="add",
        call="tool:add:a",
        arguments=raw({"n": 1}),
        fingerprint="print-a",
        principal="agent:desk",
        asked_at=3,
        expires_at=EXPIRES,
    )


@pytest.mark.parametrize(
    "settled",
    [decide("a"), edit("a"), decide("a", "rejected"), AlarmFired(EXPIRES), cancel(owner="ann")],
)
def test_a_row_goes_when_its_approval_is_resolved(settled: ThreadCommand) -> None:
    story = Story(begin_run(), called("a"), ask(), wait_for("approval:a"))
    durable = DurableProjection(story.journal, approvals_inbox)
    durable.catch_up()
    before = len(inbox(story.journal))

    story.tell(settled)
    durable.catch_up()

    assert (before, inbox(story.journal)) == (1, [])


def test_a_run_that_fails_takes_its_rows_with_it() -> None:
    story = Story(begin_run(), called("a"), ask(), fail())

    assert list(pending_approvals(fold_rows(story.journal, approvals_inbox))) == []


def test_a_row_names_the_agent_of_its_own_run() -> None:
    other = Story(start("r1", owner="ann"), cancel(owner="ann"))

    other.tell(replace(start("r2", owner="ann"), agent="other"), ask(run="r2"))

    [row] = pending_approvals(fold_rows(other.journal, approvals_inbox))

    assert (row.agent, row.owner) == ("other", "ann")


def test_names_that_look_like_parts_of_each_other_have_rows_of_their_own() -> None:
    journal = MemoryJournal()
    deep = Story(begin_run("b"), replace(ask("x", run="b"), step="c/approval:x")).events
    flat = Story(begin_run("c"), ask("x", run="c")).events
    for stream, events in {"thread/a": deep, "thread/a/b": flat}.items():
        journal.append(stream, [NewEvent(event.canonical) for event in events], expected=0).wait()

    rows = fold_rows(journal, approvals_inbox)

    assert [(r.thread, r.id) for r in pending_approvals(rows)] == [
        ("thread/a", "b/c/approval:x"),
        ("thread/a/b", "c/approval:x"),
    ]
    assert [r.thread for r in pending_approvals(rows, thread="thread/a")] == ["thread/a"]
    assert [r.thread for r in pending_approvals(rows, thread="thread/a/b")] == ["thread/a/b"]


def test_a_rebuild_makes_the_rows_that_live_has(journal: Journal) -> None:
    durable = DurableProjection(journal, approvals_inbox, batch_events_max=3)
    tell(journal, *STORIES)
    durable.catch_up()
    live = dict(LiveRows(journal, approvals_inbox).scan())

    report = rebuild(durable)

    assert (report.outcome, report.digest) == ("switched", report.live_digest)
    assert dict(LiveRows(journal, approvals_inbox).scan()) == live
    assert len(inbox(journal)) == 5
