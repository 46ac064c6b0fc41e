"""Conversations of earlier versions, with everything that can happen in one, are read and replayed for ever."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from clew.actors.agent import replay
from clew.actors.thread import ThreadState, thread_decider
from clew.journal import Catalog, MemoryJournal, RecordedEvent, event_type, import_history, read_history, write_history
from clew.journal.facts import THREAD_EVENTS
from clew.projections import messages, view_of
from tests.actors.bureau import Day, archivist, bureau, expert, fragile

HISTORIES = sorted((Path(__file__).parents[1] / "histories").glob("threads-*.jsonl"))

CATALOG = Catalog(*THREAD_EVENTS)


@pytest.fixture(params=HISTORIES, ids=lambda path: path.stem)
def history(request: pytest.FixtureRequest) -> list[RecordedEvent]:
    return read_history(request.param)


@pytest.mark.requirement("L-REPLAY-2")
@pytest.mark.scenario("SER-13")
def test_every_conversation_replays_to_the_same_digest(history: list[RecordedEvent]) -> None:
    replayed = replay(history, bureau, expert, fragile, archivist)

    assert replayed.digests_equal
    assert {run.ended for run in replayed.runs} == {"done", "failed", "cancelled"}


@pytest.mark.scenario("SER-13")
def test_every_conversation_folds_and_goes_on(history: list[RecordedEvent]) -> None:
    day = Day()
    day.clock.jump_to(history[-1].recorded_at)
    append_all(day.journal, history)
    streams = {event.stream for event in history if event.stream.startswith("thread/")}

    for stream in streams:
        state = ThreadState(stream=stream)
        for recorded in day.journal.read(stream):
            state = thread_decider.evolve(state, CATALOG.decode(recorded))  # pyright: ignore[reportArgumentType]
        assert state.open_run is None
        assert view_of(day.journal.read(stream)).status in ("done", "failed", "cancelled")
        assert messages(day.journal.read(stream))
    with day.open() as system:
        assert day.thread(system).run("hello", run_id="now").result(timeout_s=10).output == "just hello"
        assert list(system.failures) == []


def append_all(journal: MemoryJournal, history: list[RecordedEvent]) -> None:
    written = io.BytesIO()
    write_history(history, written)
    written.seek(0)
    import_history(journal, written)


def test_the_newest_history_has_every_event_of_a_thread() -> None:
    names = {event.type.name for event in read_history(HISTORIES[-1])}

    assert {event_type(kind).name for kind in THREAD_EVENTS} - names == {"run.halted"}
