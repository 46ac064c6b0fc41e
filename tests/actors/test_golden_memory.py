"""What memories of earlier versions hold is read for ever, and folds into the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.actors.memory import MemoryState
from clew.actors.memory.decide import memory_decider
from clew.actors.memory.state import MemoryLimits
from clew.journal import MemoryJournal, event_type, import_history, read_history
from clew.journal.facts.memory import MEMORY_EVENTS
from tests.projections.remembering import CATALOG, episodes_of, graph_of, held

HISTORY = Path(__file__).parents[1] / "histories" / "memory-1.jsonl"


@pytest.fixture
def journal() -> MemoryJournal:
    journal = MemoryJournal()
    with HISTORY.open("rb") as stream:
        import_history(journal, stream)
    return journal


def test_every_event_of_a_memory_is_in_the_history() -> None:
    assert {event.type for event in read_history(HISTORY)} == {event_type(kind) for kind in MEMORY_EVENTS}


def test_a_memory_folds_into_what_it_was(journal: MemoryJournal) -> None:
    state, decider = MemoryState(stream="memory/ann"), memory_decider(MemoryLimits())
    for recorded in journal.read("memory/ann"):
        state = decider.evolve(state, CATALOG.decode(recorded))  # pyright: ignore[reportArgumentType]

    assert [kept.source for kept in state.episodes] == ["m1", "thread/t/r3"]
    assert (state.lessons, state.observed, state.agent) == ((), {}, "bot")
    assert held(graph_of(journal)) == ["Ann lives in Oslo", "Ann works at Globex"]
    assert [triple.object for triple in graph_of(journal, at=25).traverse("ann").triples] == ["Oslo", "Acme"]
    assert [(one.text, one.seen) for one in episodes_of(journal).all()] == [("Ann moved.", 3), ("Ann said hello.", 1)]


def test_the_rows_of_version_one_are_what_they_were(journal: MemoryJournal) -> None:
    # A change of the folds is a new version of the projections, and then of these.
    assert (graph_of(journal).digest(), episodes_of(journal).digest()) == (
        "562ab9c6de1c19d3072c7d44bc599831",
        "ae40e61039ab6fbf20de06370b31c1dc",
    )
