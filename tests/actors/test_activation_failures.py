"""An actor whose functions raise, or whose stream cannot be read, fails where it must and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pytest

from clew.actors import Activation, ActivationFailed, Decider, Effect, EventSourcedActor
from clew.journal import CorruptRecord, MemoryJournal, NewEvent, RecordedEvent, event
from tests.actors.support import ACCOUNT, Deposit


@event("brittle.broke", version=1)
class Broke(msgspec.Struct, frozen=True):
    how: str


def brittle(*, fixed: bool = False) -> EventSourcedActor[str, str, Broke, str]:
    """An actor whose functions raise when a command, an event or a state says so."""

    def decide(state: str, command: str) -> Sequence[Broke]:
        if command == "decide":
            raise LookupError("decide broke")
        if command == "none":
            return None  # pyright: ignore[reportReturnType]
        return [Broke(how) for how in command.split("+")]

    def evolve(state: str, event: Broke) -> str:
        if event.how == "evolve" and not fixed:
            raise LookupError("evolve broke")
        return event.how

    def answer(state: str, events: Sequence[Broke]) -> str:
        if state == "answer" and not fixed:
            raise LookupError("answer broke")
        return state

    def effects(state: str) -> Sequence[Effect]:
        if state == "effects" and not fixed:
            raise LookupError("effects broke")
        return ()

    decider = Decider(initial="", decide=decide, evolve=evolve, answer=answer, effects=effects)
    return EventSourcedActor(category="brittle", decider=decider, events=(Broke,))


@pytest.mark.parametrize("where", ["decide", "none", "evolve", "fine+evolve", "answer", "effects"])
def test_whatever_function_of_an_actor_raises_nothing_is_written_and_the_next_command_is_handled(where: str) -> None:
    journal = MemoryJournal()
    actor = Activation(brittle(), "x", journal)

    failed = actor.handle(where, "c1")
    fine = actor.handle("fine", "c2")

    assert isinstance(failed.error, LookupError | TypeError)
    assert (fine.answer, fine.error) == ("fine", None)
    assert [recorded.cause for recorded in journal.read_all()] == ["c2"]


@pytest.mark.parametrize("where", ["evolve", "effects"])
def test_a_stream_that_cannot_be_folded_names_the_sequence_where_it_broke(where: str) -> None:
    journal = MemoryJournal()
    writer = Activation(brittle(fixed=True), "x", journal)
    for command in ("fine", where):
        writer.handle(command, command)

    with pytest.raises(ActivationFailed, match=f"{where}.* broke|{where}.*LookupError") as failed:
        Activation(brittle(), "x", journal)

    assert (failed.value.stream, failed.value.sequence) == ("brittle/x", 2)


def test_an_unknown_event_in_a_stream_names_its_sequence() -> None:
    journal = MemoryJournal()
    Activation(ACCOUNT, "a", journal).handle(Deposit(1), "c1")
    journal.append("account/a", [NewEvent(b'{"event":"account.frozen","version":1,"data":{}}')], expected=1)

    with pytest.raises(ActivationFailed, match=r"account\.frozen") as failed:
        Activation(ACCOUNT, "a", journal)

    assert failed.value.sequence == 2


class Damaged(MemoryJournal):
    """A journal whose third event cannot be read."""

    def read(self, stream: str, *, after: int = 0) -> Iterator[RecordedEvent]:
        for recorded in super().read(stream, after=after):
            if recorded.sequence == 3:
                raise CorruptRecord(where=f"{stream}, sequence 3", reason="a flipped bit")
            yield recorded


def test_a_stream_that_cannot_be_read_names_the_sequence_where_it_is_damaged() -> None:
    journal = Damaged()
    writer = Activation(ACCOUNT, "a", journal)
    for number in range(4):
        writer.handle(Deposit(1), f"{number}")

    with pytest.raises(ActivationFailed, match="a flipped bit") as failed:
        Activation(ACCOUNT, "a", journal)

    assert (failed.value.stream, failed.value.sequence) == ("account/a", 3)


def test_a_first_answer_that_can_no_longer_be_made_is_an_error_of_its_asker_alone() -> None:
    journal = MemoryJournal()
    Activation(brittle(fixed=True), "x", journal).handle("answer", "c1")
    actor = Activation(brittle(), "x", journal)

    again = actor.handle("answer", "c1")

    assert isinstance(again.error, LookupError)
    assert actor.handle("fine", "c2").answer == "fine"
