"""An actor that fails takes nobody along: who waits is told, others go on, and it does not start over by itself."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest

from clew.actors import ActivationFailed, ActorSystem, Decider, Effect, EventSourcedActor
from clew.journal import Catalog, Journal, MemoryJournal, NewEvent, event, open_mark
from clew.journal.journal import CellWrite
from tests.actors.support import ACCOUNT, WAIT_S, Call, Deposit, Look, Open, Pause, Workers, desk_kind, until


@event("fragile.touched", version=1)
class Touched(msgspec.Struct, frozen=True):
    how: str


class Fragile:
    """A kind whose functions raise where `breaks` says so, and that counts its activations."""

    def __init__(self, breaks: str = "") -> None:
        self.breaks = breaks
        self.error: BaseException = LookupError("broken")
        self.activations: Counter[str] = Counter()
        decider = Decider(
            initial="", decide=self.decide, evolve=self.evolve, answer=lambda state, _: state, effects=self.effects
        )
        self.kind = EventSourcedActor[str, str, Touched, str](
            category="fragile", decider=decider, events=(Touched,), initial_for=self.initial
        )

    def initial(self, stream: str) -> str:
        self.activations[stream] += 1
        return "new"

    def decide(self, state: str, command: str) -> Sequence[Touched]:
        if self.breaks == "decide":
            raise self.error
        return [Touched(command)]

    def evolve(self, state: str, event: Touched) -> str:
        if self.breaks == "evolve":
            raise self.error
        return event.how

    def effects(self, state: str) -> Sequence[Effect]:
        if self.breaks == "effects" and state != "new":
            raise self.error
        return ()


def touched(journal: Journal, *streams: str) -> None:
    """Record an event in each stream, marked as open work."""
    for stream in streams:
        new, _ = Catalog(Touched).encode(Touched("before"))
        journal.append(stream, [new], expected=0, cells=[CellWrite(open_mark(stream), stream.encode())]).wait()


@pytest.mark.parametrize("where", ["decide", "evolve", "effects"])
def test_an_actor_whose_functions_raise_answers_with_that_and_goes_on_once_they_are_mended(where: str) -> None:
    fragile = Fragile(where)
    with ActorSystem("memory:", actors=[fragile.kind]) as system:
        ref = system.ref(fragile.kind, "x")
        replies = [ref.ask("one"), ref.ask("two")]

        for reply in replies:
            with pytest.raises(LookupError, match="broken"):
                reply.get(timeout=WAIT_S)

        fragile.breaks = ""
        assert ref.ask("three").get(timeout=WAIT_S) == "three"
        assert len(list(system.journal.read("fragile/x"))) == 1
        assert fragile.activations == {"fragile/x": 1}


@pytest.mark.scenario("RPL-11")
@pytest.mark.parametrize("where", ["evolve", "effects"])
def test_an_actor_that_cannot_wake_up_tells_each_asker_and_tries_no_more_by_itself(where: str) -> None:
    fragile, journal = Fragile(where), MemoryJournal()
    touched(journal, "fragile/x")
    with ActorSystem(journal, actors=[fragile.kind, ACCOUNT]) as system:
        ref = system.ref(fragile.kind, "x")
        until(lambda: system.failures and not system.live)
        assert fragile.activations == {"fragile/x": 1}

        for attempt in range(2, 5):
            with pytest.raises(ActivationFailed, match="LookupError: broken") as failed:
                ref.ask("hello").get(timeout=WAIT_S)
            assert (failed.value.stream, failed.value.sequence) == ("fragile/x", 1)
            assert fragile.activations == {"fragile/x": attempt}

        assert system.ref(ACCOUNT, "a").ask(Deposit(5)).get(timeout=WAIT_S) == 5
        assert system.live == 1
        fragile.breaks = ""
        assert ref.ask("hello").get(timeout=WAIT_S) == "hello"


def test_one_actor_that_cannot_wake_up_does_not_hold_up_the_recovery_of_others() -> None:
    fragile, journal = Fragile(), MemoryJournal()
    touched(journal, *(f"fragile/x{n}" for n in range(5)))
    journal.append("fragile/x2", [NewEvent(b'{"event":"no.such","version":1,"data":{}}')], expected=1)

    with ActorSystem(journal, actors=[fragile.kind]) as system:
        until(lambda: len(fragile.activations) == 5 and system.failures)

        assert [(f.stream, type(f.error)) for f in system.failures] == [("fragile/x2", ActivationFailed)]
        assert system.ref(fragile.kind, "x3").ask("hello").get(timeout=WAIT_S) == "hello"


def test_all_who_wait_for_an_actor_that_cannot_wake_up_are_told() -> None:
    fragile, journal = Fragile("evolve"), MemoryJournal()
    touched(journal, "fragile/x")
    with ActorSystem(journal, actors=[fragile.kind], recover=False) as system:
        ref = system.ref(fragile.kind, "x")

        replies = [ref.ask(f"{number}") for number in range(200)]

        for reply in replies:
            with pytest.raises(ActivationFailed):
                reply.get(timeout=WAIT_S)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()])
def test_an_actor_that_raises_what_would_end_a_thread_is_dropped_and_the_threads_stay(error: BaseException) -> None:
    def leave() -> None:
        raise error

    with ActorSystem("memory:", actors=[ACCOUNT], threads=1) as system:
        ref = system.ref(ACCOUNT, "a")
        ref.ask(Deposit(5)).get(timeout=WAIT_S)

        with pytest.raises(ActivationFailed, match=type(error).__name__):
            ref.ask(Call(leave)).get(timeout=WAIT_S)

        assert [failure.error for failure in system.failures] == [error]
        assert ref.ask(Look()).get(timeout=WAIT_S) == 5
        assert system.ref(ACCOUNT, "b").ask(Deposit(1)).get(timeout=WAIT_S) == 1


def test_an_actor_that_is_dropped_leaves_its_open_work_to_the_one_that_follows(workers: Workers) -> None:
    def leave() -> None:
        raise SystemExit(3)

    desk, pause = desk_kind(workers), Pause()
    with ActorSystem("memory:", actors=[desk]) as system:
        ref = system.ref(desk, "d")
        ref.tell(Open("a"))
        assert workers.note() == "a started"
        ref.tell(Call(pause))
        pause.entered()
        opened, failed = ref.ask(Open("b")), ref.ask(Call(leave))

        pause.over()

        assert opened.get(timeout=WAIT_S) == ["a", "b"]
        with pytest.raises(ActivationFailed):
            failed.get(timeout=WAIT_S)
        assert workers.note() == "a cancelled"
        assert ref.ask(Look()).get(timeout=WAIT_S) == ["a", "b"]
        assert {workers.note(), workers.note()} == {"a started", "b started"}
    assert workers.starts == {"a": 2, "b": 1}
