"""Another writer may be first: nothing is overwritten, nothing is lost, and the command is decided again."""

from __future__ import annotations

import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from clew.actors import ActorSystem, CommandRejected
from clew.journal import (
    Commit,
    Journal,
    MemoryJournal,
    NewEvent,
    WrongExpectedSequence,
    import_history,
    write_history,
)
from clew.journal.lmdb import LmdbJournal
from tests.actors.support import ACCOUNT, WAIT_S, Call, Deposit, Look, Withdraw

SEVEN = NewEvent(b'{"event":"account.deposited","version":1,"data":{"cents":7}}')


@pytest.fixture(params=["memory", "lmdb"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    opened = MemoryJournal() if request.param == "memory" else LmdbJournal(tmp_path)
    yield opened
    opened.close()


def test_a_command_is_decided_again_on_what_another_writer_recorded(journal: Journal) -> None:
    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "a")
        ref.ask(Deposit(1)).get(timeout=WAIT_S)

        journal.append("account/a", [SEVEN], expected=1).wait()

        assert ref.ask(Withdraw(1)).get(timeout=WAIT_S) == 7
        assert ref.ask(Withdraw(7)).get(timeout=WAIT_S) == 0
        with pytest.raises(CommandRejected):
            ref.ask(Withdraw(1)).get(timeout=WAIT_S)


def test_what_is_recorded_for_an_id_by_another_writer_answers_it(journal: Journal) -> None:
    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "a")
        ref.ask(Look()).get(timeout=WAIT_S)
        journal.append("account/a", [NewEvent(SEVEN.canonical, "k")], expected=0).wait()

        assert ref.ask(Deposit(7), command_id="k").get(timeout=WAIT_S) == 7
    assert len(list(journal.read("account/a"))) == 1


@pytest.mark.scenario("CON-01")
def test_two_systems_over_one_journal_lose_nothing_that_either_acknowledged(journal: Journal) -> None:
    senders, each = 6, 40
    with ActorSystem(journal, actors=[ACCOUNT]) as one, ActorSystem(journal, actors=[ACCOUNT]) as other:
        refs = [one.ref(ACCOUNT, "a"), other.ref(ACCOUNT, "a")]

        def send(sender: int) -> list[int]:
            replies = [refs[sender % 2].ask(Deposit(1), command_id=f"{sender}:{number}") for number in range(each)]
            return [reply.get(timeout=WAIT_S) for reply in replies]

        with ThreadPoolExecutor(senders) as pool:
            balances = [balance for answers in pool.map(send, range(senders)) for balance in answers]

    events = list(journal.read("account/a"))
    assert sorted(balances) == list(range(1, senders * each + 1))
    assert [event.sequence for event in events] == list(range(1, senders * each + 1))
    assert {event.cause for event in events} == {f"{s}:{n}" for s in range(senders) for n in range(each)}


@pytest.mark.scenario("CON-01")
def test_one_id_sent_to_two_systems_counts_once(journal: Journal) -> None:
    with ActorSystem(journal, actors=[ACCOUNT]) as one, ActorSystem(journal, actors=[ACCOUNT]) as other:
        for number in range(20):
            replies = [system.ref(ACCOUNT, "a").ask(Deposit(1), command_id=f"{number}") for system in (one, other)]
            assert [reply.get(timeout=WAIT_S) for reply in replies] == [number + 1] * 2

    assert len(list(journal.read("account/a"))) == 20


def test_an_import_into_a_stream_whose_actor_is_awake_is_taken_in(journal: Journal) -> None:
    source, history = MemoryJournal(), io.BytesIO()
    with ActorSystem(source, actors=[ACCOUNT]) as system:
        for cents in (1, 2):
            system.ref(ACCOUNT, "a").ask(Deposit(cents), command_id=f"{cents}").get(timeout=WAIT_S)
    write_history(source.read_all(), history)
    history.seek(0)

    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "a")
        assert ref.ask(Look()).get(timeout=WAIT_S) == 0
        import_history(journal, history)

        assert ref.ask(Deposit(5)).get(timeout=WAIT_S) == 8
        assert ref.ask(Deposit(1), command_id="1").get(timeout=WAIT_S) == 1


def test_a_command_that_always_comes_second_is_told_so_after_a_while() -> None:
    journal = MemoryJournal()
    expected = iter(range(1_000))

    def be_first() -> Commit:
        return journal.append("account/a", [SEVEN], expected=next(expected))

    with ActorSystem(journal, actors=[ACCOUNT]) as system:
        ref = system.ref(ACCOUNT, "a")

        with pytest.raises(WrongExpectedSequence):
            ref.ask(Call(be_first, cents=1)).get(timeout=WAIT_S)

        tries = len(list(journal.read("account/a")))
        assert 1 < tries < 100
        assert ref.ask(Deposit(1)).get(timeout=WAIT_S) == 7 * tries + 1
