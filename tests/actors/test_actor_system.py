"""Actors are named, woken by what is sent to them, and handle it in order, within bounds."""

from __future__ import annotations

import asyncio
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from clew.actors import (
    ActorRef,
    ActorSystem,
    CommandRejected,
    Decider,
    EventSourcedActor,
    MailboxFull,
    SystemClosed,
    UnknownKind,
)
from clew.journal import InvalidName, JournalClosed, MemoryJournal
from tests.actors.support import (
    ACCOUNT,
    DESK_DECIDER,
    WAIT_S,
    AccountCommand,
    Call,
    Deposit,
    JobOpened,
    Look,
    Pause,
    Withdraw,
    account_kind,
    desk_kind,
    until,
)


def test_a_command_is_answered_and_recorded() -> None:
    with ActorSystem("memory:", actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "1042")

        assert ref.ask(Deposit(5)).get(timeout=WAIT_S) == 5
        assert [r.stream for r in system.journal.read_all()] == ["account/1042"]
        assert repr(ref) == "ActorRef('account/1042')"


def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    with ActorSystem(tmp_path / "journal", actors=[ACCOUNT]) as system:
        for cents in (5, 7):
            system.ref(ACCOUNT, "a").ask(Deposit(cents)).get(timeout=WAIT_S)

    with ActorSystem(str(tmp_path / "journal"), actors=[ACCOUNT]) as system:
        assert system.live == 0
        assert system.ref(ACCOUNT, "a").ask(Look()).get(timeout=WAIT_S) == 12


async def test_actors_serve_sync_and_async_askers_alike() -> None:
    async with ActorSystem("memory:", actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "a")

        assert await ref.ask(Deposit(5)) == 5
        assert await asyncio.to_thread(lambda: ref.ask(Deposit(5)).get(timeout=WAIT_S)) == 10
        assert sorted(await asyncio.gather(*(_ask(ref) for _ in range(50)))) == list(range(11, 61))


async def _ask(ref: ActorRef[AccountCommand, int]) -> int:
    return await ref.ask(Deposit())


def test_a_ref_is_cheap_and_wakes_nobody() -> None:
    with ActorSystem("memory:", actors=[ACCOUNT]) as system:
        for number in range(100):
            system.ref(ACCOUNT, f"a{number}")

        assert system.live == 0


def test_what_one_sender_sends_is_handled_in_its_order() -> None:
    senders, each = 4, 200
    with ActorSystem("memory:", actors=[ACCOUNT], threads=4, idle_s=0.001) as system:
        ref = system.ref(ACCOUNT, "a")

        def send(sender: int) -> None:
            for number in range(each):
                ref.tell(Deposit(1), command_id=f"{sender}:{number}")

        with ThreadPoolExecutor(senders) as pool:
            list(pool.map(send, range(senders)))
        ref.ask(Look()).get(timeout=WAIT_S)
        causes = [recorded.cause.split(":") for recorded in system.journal.read("account/a")]

    for sender in range(senders):
        assert [int(n) for s, n in causes if int(s) == sender] == list(range(each))
    assert len(causes) == senders * each


def test_a_full_mailbox_is_an_error_at_the_call_and_is_open_again_later() -> None:
    kind, pause = account_kind(mailbox_size=2), Pause()
    with ActorSystem("memory:", actors=[kind]) as system:
        ref = system.ref(kind, "a")
        held = ref.ask(Call(pause))
        pause.entered()
        waiting = [ref.ask(Deposit(1)), ref.ask(Deposit(1))]

        with pytest.raises(MailboxFull, match="2 messages are waiting"):
            ref.ask(Deposit(1))
        with pytest.raises(MailboxFull):
            ref.tell(Deposit(1))

        other = system.ref(kind, "other").ask(Deposit(1))
        assert other.get(timeout=WAIT_S) == 1
        pause.over()
        assert [reply.get(timeout=WAIT_S) for reply in (held, *waiting)] == [0, 1, 2]
        assert ref.ask(Deposit(1)).get(timeout=WAIT_S) == 3


def test_a_refusal_is_told_to_the_asker_and_where_nobody_asks_to_the_system() -> None:
    with ActorSystem("memory:", actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "a")
        with pytest.raises(CommandRejected, match="99 cents"):
            ref.ask(Withdraw(99)).get(timeout=WAIT_S)
        assert list(system.failures) == []

        ref.tell(Withdraw(98))

        until(lambda: system.failures)
        assert [(f.stream, str(f.error)[:8]) for f in system.failures] == [("account/a", "98 cents")]


def test_only_the_last_failures_are_kept() -> None:
    with ActorSystem("memory:", actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "a")
        for cents in range(1, 151):
            ref.tell(Withdraw(cents))
        ref.ask(Look()).get(timeout=WAIT_S)

        assert [str(failure.error).split()[0] for failure in system.failures] == [str(n) for n in range(51, 151)]


def test_an_empty_command_id_is_refused_at_the_call() -> None:
    with ActorSystem("memory:", actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "a")

        with pytest.raises(ValueError, match="a command id is text"):
            ref.ask(Deposit(1), command_id="")
        with pytest.raises(ValueError, match="a command id is text"):
            ref.tell(Deposit(1), command_id="")


@pytest.mark.parametrize("bad", ["", "\n", "x" * 3000, "\ud800"])
def test_a_bad_id_is_refused_at_the_call(bad: str) -> None:
    with ActorSystem("memory:", actors=[ACCOUNT]) as system, pytest.raises(InvalidName):
        system.ref(ACCOUNT, bad)


@pytest.mark.scenario("SEC-01")
@pytest.mark.parametrize("odd", ["../../x", "/etc/x", "..", "C:\\x", "a/../../b", "%2e%2e%2fx", "CON", "é" * 200])
def test_an_id_that_looks_like_a_path_is_a_key_and_nothing_else(odd: str, tmp_path: Path) -> None:
    with ActorSystem(tmp_path / "in" / "journal", actors=[ACCOUNT]) as system:
        assert system.ref(ACCOUNT, odd).ask(Deposit(5)).get(timeout=WAIT_S) == 5
        assert system.ref(ACCOUNT, odd + "2").ask(Look()).get(timeout=WAIT_S) == 0

    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["journal"]


def test_a_kind_that_the_system_was_not_given_is_refused_at_the_call() -> None:
    with ActorSystem("memory:", actors=[ACCOUNT]) as system:
        for ask in (lambda: system.ref(desk_kind(), "a"), lambda: system.ref(account_kind(), "a")):
            with pytest.raises(UnknownKind, match="registered: account"):
                ask()


def test_a_wrong_declaration_is_refused_where_it_is_made() -> None:
    with pytest.raises(ValueError, match="two actors share a category: account"):
        ActorSystem("memory:", actors=[ACCOUNT, account_kind()])
    with pytest.raises(ValueError, match="mailbox_size is at least 1"):
        account_kind(mailbox_size=0)
    with pytest.raises(InvalidName):
        EventSourcedActor(category="No Category", decider=DESK_DECIDER, events=(JobOpened,))
    with pytest.raises(TypeError, match="is not an event"):
        EventSourcedActor(category="desk", decider=DESK_DECIDER, events=(Deposit,))


@pytest.mark.parametrize(("threads", "idle_s"), [(0, 1.0), (-1, 1.0), (2, 0.0), (2, -1.0), (2, math.nan)])
def test_an_option_out_of_range_is_refused_where_it_is_given(threads: int, idle_s: float) -> None:
    with pytest.raises(ValueError, match="threads is at least 1 and idle_s more than 0"):
        ActorSystem("memory:", actors=[ACCOUNT], threads=threads, idle_s=idle_s)


def test_an_actor_may_stay_awake_for_ever() -> None:
    with ActorSystem("memory:", actors=[ACCOUNT], idle_s=math.inf) as system:
        assert system.ref(ACCOUNT, "a").ask(Deposit(5)).get(timeout=WAIT_S) == 5


def test_a_system_that_cannot_open_leaves_no_thread_behind() -> None:
    journal = MemoryJournal()
    journal.close()
    before = set(threading.enumerate())

    with pytest.raises(JournalClosed):
        ActorSystem(journal, actors=[ACCOUNT])

    assert set(threading.enumerate()) == before


def test_after_closing_every_call_is_refused() -> None:
    with ActorSystem("memory:", actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "a")
        ref.ask(Deposit(5)).get(timeout=WAIT_S)

    for call in (lambda: ref.ask(Deposit(5)), lambda: ref.tell(Deposit(5))):
        with pytest.raises(SystemClosed, match="Open it again"):
            call()


def test_twenty_thousand_actors_may_be_awake_at_once_on_a_few_threads() -> None:
    many = 20_000
    with ActorSystem("memory:", actors=[ACCOUNT]) as system:
        threads = threading.active_count()

        replies = [system.ref(ACCOUNT, f"a{number}").ask(Deposit(1)) for number in range(many)]

        assert {reply.get(timeout=60) for reply in replies} == {1}
        assert system.live == many
        assert threading.active_count() == threads


def test_a_decider_needs_no_effects() -> None:
    decider = Decider[int, AccountCommand, JobOpened, int](
        initial=0, decide=lambda _, __: (), evolve=lambda state, _: state, answer=lambda state, _: state
    )

    assert decider.effects(0) == ()
