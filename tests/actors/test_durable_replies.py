"""A reply is a promise: it comes when what it rests on is durable, or it says that it is not."""

from __future__ import annotations

import pykka
import pytest

from clew.actors import ActorSystem, CommandRejected, Reply
from clew.journal import NewEvent, PayloadTooLarge
from tests.actors.support import (
    ACCOUNT,
    WAIT_S,
    Call,
    Deposit,
    DiskFailed,
    Look,
    Open,
    Pause,
    SlowDisk,
    Withdraw,
    Workers,
    desk_kind,
    events_of,
    until,
)


def test_a_reply_comes_when_its_events_are_durable_and_not_before() -> None:
    journal = SlowDisk()
    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        reply = system.ref(ACCOUNT, "a").ask(Deposit(5))
        journal.appended()
        with pytest.raises(pykka.Timeout):
            reply.get(timeout=0)

        journal.flush()

        assert reply.get(timeout=WAIT_S) == 5
        assert events_of(journal, "account/a") == ["deposited"]


def test_an_actor_does_not_wait_for_the_disk_to_decide_the_next_command() -> None:
    journal = SlowDisk()
    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "a")
        replies = [ref.ask(command) for command in (Deposit(5), Withdraw(2), Withdraw(3))]
        for _ in replies:
            journal.appended()

        journal.flush()

        assert [reply.get(timeout=WAIT_S) for reply in replies] == [5, 3, 0]


def test_a_refusal_and_a_look_wait_for_the_state_they_rest_on() -> None:
    journal = SlowDisk()
    with ActorSystem(journal, actors=[ACCOUNT], threads=1) as system:
        ref, other = system.ref(ACCOUNT, "a"), system.ref(ACCOUNT, "b")
        ref.tell(Deposit(5))
        refused, looked = ref.ask(Withdraw(6)), ref.ask(Look())
        journal.appended()
        other.ask(Look()).get(timeout=WAIT_S)  # The only thread has been through the turn of the first actor.

        assert not refused.done
        assert not looked.done
        journal.flush()

        assert looked.get(timeout=WAIT_S) == 5
        with pytest.raises(CommandRejected):
            refused.get(timeout=WAIT_S)


def test_after_a_failed_commit_all_that_waited_fails_and_the_actor_goes_on_from_the_journal() -> None:
    journal = SlowDisk()
    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "a")
        kept = ref.ask(Deposit(1))
        journal.appended()
        journal.flush()
        kept.get(timeout=WAIT_S)
        held = [ref.ask(command) for command in (Deposit(5), Deposit(5), Withdraw(3), Look(), Withdraw(99))]
        for _ in range(3):
            journal.appended()

        journal.fail(DiskFailed())

        for reply in held:
            with pytest.raises(DiskFailed):
                reply.get(timeout=WAIT_S)
        assert ref.ask(Look()).get(timeout=WAIT_S) == 1
        again = ref.ask(Withdraw(1))
        journal.appended()
        journal.flush()
        assert again.get(timeout=WAIT_S) == 0
        assert events_of(journal, "account/a") == ["deposited", "withdrawn"]


def test_a_command_whose_commit_failed_is_decided_anew_under_the_same_id() -> None:
    journal = SlowDisk()
    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "a")
        lost = ref.ask(Deposit(5), command_id="k")
        journal.appended()
        journal.fail(DiskFailed())
        with pytest.raises(DiskFailed):
            lost.get(timeout=WAIT_S)

        again = ref.ask(Deposit(5), command_id="k")
        journal.appended()
        journal.flush()

        assert again.get(timeout=WAIT_S) == 5


def test_a_commit_that_fails_while_a_turn_is_taken_takes_all_that_was_decided_on_it_along() -> None:
    journal, pause = SlowDisk(), Pause()
    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "a")
        ref.tell(Call(pause))
        pause.entered()
        first = ref.ask(Deposit(5), command_id="k")
        ref.tell(Call(lambda: journal.fail(DiskFailed())))
        again, looked, refused = ref.ask(Deposit(5), command_id="k"), ref.ask(Look()), ref.ask(Withdraw(99))

        pause.over()

        for reply in (first, again, looked, refused):
            with pytest.raises(DiskFailed):
                reply.get(timeout=WAIT_S)
        assert ref.ask(Look()).get(timeout=WAIT_S) == 0


def test_an_append_after_a_commit_that_failed_in_the_same_turn_is_decided_on_the_journal() -> None:
    journal, pause = SlowDisk(), Pause()
    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "a")
        ref.tell(Call(pause))
        pause.entered()
        lost = ref.ask(Deposit(5))
        ref.tell(Call(lambda: journal.fail(DiskFailed())))
        later = ref.ask(Deposit(2))

        pause.over()
        journal.appended()
        journal.flush()
        journal.appended()
        journal.flush()

        with pytest.raises(DiskFailed):
            lost.get(timeout=WAIT_S)
        assert later.get(timeout=WAIT_S) == 2


def test_a_later_failure_of_what_was_lost_before_does_not_touch_the_rebuilt_actor() -> None:
    journal, workers = SlowDisk(), Workers()
    desk = desk_kind(workers)
    with ActorSystem(journal, actors=[desk], threads=1) as system:
        ref, other = system.ref(desk, "d"), system.ref(desk, "other")
        lost = [ref.ask(Open("a")), ref.ask(Open("b"))]
        first, _ = journal.appended(), journal.appended()
        other.ask(Look()).get(timeout=WAIT_S)  # The only thread has been through the turn of the first actor.
        meanwhile: list[Reply[list[str]]] = []

        def between(_: object) -> None:
            meanwhile.append(ref.ask(Open("c")))
            journal.appended()

        first.add_done_callback(between)
        journal.fail(DiskFailed())
        other.ask(Look()).get(timeout=WAIT_S)
        journal.flush()

        assert meanwhile[0].get(timeout=WAIT_S) == ["c"]
        assert workers.note() == "c started"
        for reply in lost:
            with pytest.raises(DiskFailed):
                reply.get(timeout=WAIT_S)
        more = ref.ask(Open("d"))
        journal.appended()
        journal.flush()
        assert more.get(timeout=WAIT_S) == ["c", "d"]


def test_what_the_journal_refuses_is_told_to_the_asker_and_harms_nobody() -> None:
    journal = SlowDisk()
    with ActorSystem(journal, actors=[desk := desk_kind(Workers())]) as system:
        ref = system.ref(desk, "d")

        too_large = ref.ask(Open("a", "x" * 17_000_000))
        too_long = ref.ask(Open("b"), command_id="k" * 3000)

        with pytest.raises(PayloadTooLarge):
            too_large.get(timeout=WAIT_S)
        with pytest.raises(Exception, match="a cause has at most"):
            too_long.get(timeout=WAIT_S)
        assert ref.ask(Look()).get(timeout=WAIT_S) == []


def test_replies_come_in_the_order_of_the_commands() -> None:
    journal, order = SlowDisk(), list[int]()
    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "a")
        replies = [ref.ask(Deposit(1) if n % 3 else Look()) for n in range(30)]
        for number, reply in enumerate(replies):
            reply.when_done(lambda number=number: order.append(number))
        for _ in range(20):
            journal.appended()

        journal.flush()

        replies[-1].get(timeout=WAIT_S)
        # Whoever waits for the last reply may go on before the callback beside it has run.
        until(lambda: len(order) == len(replies))
        assert order == list(range(30))


def test_a_closed_journal_is_told_to_the_asker() -> None:
    journal = SlowDisk()
    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        system.ref(ACCOUNT, "a").ask(Look()).get(timeout=WAIT_S)
        journal.close()

        with pytest.raises(Exception, match="closed"):
            system.ref(ACCOUNT, "a").ask(Deposit(1)).get(timeout=WAIT_S)
        with pytest.raises(Exception, match="closed"):
            system.ref(ACCOUNT, "b").ask(Deposit(1)).get(timeout=WAIT_S)


def test_a_foreign_append_that_is_not_yet_durable_is_waited_for() -> None:
    journal = SlowDisk()
    foreign = NewEvent(b'{"event":"account.deposited","version":1,"data":{"cents":7}}')
    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "a")
        own = ref.ask(Deposit(1))
        journal.appended()
        journal.append("account/a", [foreign], expected=1)
        journal.appended()

        after, looked = ref.ask(Deposit(5)), ref.ask(Look())
        other = system.ref(ACCOUNT, "b").ask(Look())
        other.get(timeout=WAIT_S)
        journal.flush()
        journal.appended()
        journal.flush()

        assert own.get(timeout=WAIT_S) == 1
        assert after.get(timeout=WAIT_S) == 13
        assert looked.get(timeout=WAIT_S) == 13


def test_a_foreign_append_that_fails_leaves_no_trace() -> None:
    journal = SlowDisk()
    foreign = NewEvent(b'{"event":"account.deposited","version":1,"data":{"cents":7}}')
    with ActorSystem(journal, actors=[ACCOUNT], threads=1) as system:
        ref = system.ref(ACCOUNT, "a")
        ref.ask(Look()).get(timeout=WAIT_S)
        journal.append("account/a", [foreign], expected=0)
        journal.appended()
        after = ref.ask(Deposit(5))
        system.ref(ACCOUNT, "b").ask(Look()).get(timeout=WAIT_S)

        journal.fail(DiskFailed())
        journal.appended()
        journal.flush()

        assert after.get(timeout=WAIT_S) == 5
