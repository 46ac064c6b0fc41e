"""The memory of an owner as an actor: taught once, learned once, bounded, and never in the way of an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from clew.actors import ActorSystem, CommandRejected
from clew.actors.memory import (
    Learner,
    Lesson,
    MemoryLimits,
    MemoryState,
    ObserveRun,
    PruneMemory,
    Remember,
    TellEpisode,
    TellFacts,
    Told,
    UndoSources,
    memory_kind,
)
from clew.actors.memory.kind import MemoryKind
from clew.journal import Catalog, Journal, MemoryJournal
from clew.journal.facts.memory import (
    MEMORY_EVENTS,
    EntitySeen,
    EpisodesMerged,
    EpisodeTold,
    FactNamed,
    FactsLearned,
    LessonFailed,
    MemoryEvent,
    MemoryPruned,
    RelationSeen,
    RunObserved,
)
from clew.projections import Follow
from tests.projections.remembering import episodes_of

CATALOG = Catalog(*MEMORY_EVENTS)
LIKES = RelationSeen("ann", "likes", "tea")


class Scholar(Learner):
    """Learns by rule, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fails: Callable[[str], Exception | None] = lambda _: None
        self.gate: asyncio.Event | None = None

    async def extract(self, owner: str, observed: RunObserved) -> Lesson:
        await self._asked(f"extract:{observed.source}")
        return Lesson([EntitySeen(owner, "person")], [RelationSeen(owner, "asked", observed.asked)])

    async def episode(self, owner: str, observed: RunObserved) -> Told:
        await self._asked(f"episode:{observed.source}")
        return Told(f"{owner} asked {observed.asked}.")

    async def merge(self, owner: str, agent: str, texts: Sequence[str]) -> Told:
        await self._asked(f"merge:{len(texts)}")
        return Told(f"{len(texts)} things, from {texts[0]!r}"[:1000])

    async def _asked(self, what: str) -> None:
        self.asked.append(what)
        if self.gate is not None:
            await self.gate.wait()
        if (error := self.fails(what)) is not None:
            raise error


def run(
    source: str = "thread/t/r1", *, asked: str = "a question", wants: tuple[str, ...] = ("graph", "episodic")
) -> ObserveRun:
    return ObserveRun(source, "t", "r1", "bot", None, asked, "an answer", list(wants), 1)


def happened(journal: Journal, owner: str = "ann") -> list[MemoryEvent]:
    return [CATALOG.decode(event) for event in journal.read(f"memory/{owner}")]  # pyright: ignore[reportReturnType]


def names(journal: Journal) -> list[str]:
    return [event.type.name.removeprefix("memory.") for event in journal.read("memory/ann")]


def wait_for(system: ActorSystem, *wanted: str) -> list[str]:
    """Wait until events of these names were recorded."""
    left = list(wanted)
    with Follow(system.journal, "memory/ann") as events:
        for event in events:
            name = event.type.name.removeprefix("memory.")
            if name in left:
                left.remove(name)
            if not left:
                break
    return names(system.journal)


def kind_of(learner: Learner, **limits: int) -> MemoryKind:
    return memory_kind(learner, lambda: 7, limits=MemoryLimits(**limits))


def test_a_run_teaches_once_however_often_it_is_told_of(tmp_path: Path) -> None:
    scholar = Scholar()
    kind = kind_of(scholar)

    for _ in range(2):
        with ActorSystem(tmp_path, actors=[kind]) as system:
            memory = system.ref(kind, "ann")
            for _ in range(2):
                memory.ask(run(), command_id="thread/t#r1/observe").get()
            wait_for(system, "facts_learned", "episode_told")

    assert sorted(scholar.asked) == ["episode:thread/t/r1", "extract:thread/t/r1"]
    with ActorSystem(tmp_path, actors=[kind]) as system:
        assert sorted(names(system.journal)) == ["episode_told", "facts_learned", "run_observed"]


def test_what_cannot_be_learned_is_said_once_and_harms_nothing_else() -> None:
    scholar = Scholar()
    scholar.fails = lambda what: OSError("no model") if what.startswith("extract") else None
    kind = kind_of(scholar)

    with ActorSystem(MemoryJournal(), actors=[kind]) as system:
        system.ref(kind, "ann").ask(run()).get()
        wait_for(system, "lesson_failed", "episode_told")
        (failed,) = [event for event in happened(system.journal) if isinstance(event, LessonFailed)]
        assert (failed.lesson, failed.error.type, failed.error.message) == ("graph", "OSError", "no model")
        assert list(system.failures) == []
    assert scholar.asked.count("extract:thread/t/r1") == 1


def test_a_lesson_that_cannot_be_remembered_is_a_lesson_that_failed() -> None:
    class Rambler(Scholar):
        async def episode(self, owner: str, observed: RunObserved) -> Told:
            return Told("word " * 1000)

        async def extract(self, owner: str, observed: RunObserved) -> Lesson:
            return Lesson([], [RelationSeen("ann", "  ", "tea")])

    kind = kind_of(Rambler())
    with ActorSystem(MemoryJournal(), actors=[kind]) as system:
        system.ref(kind, "ann").ask(run()).get()
        wait_for(system, "lesson_failed", "lesson_failed")
        failed = [event for event in happened(system.journal) if isinstance(event, LessonFailed)]
        assert {(one.lesson, one.error.type) for one in failed} == {
            ("graph", "CommandRejected"),
            ("episodic", "CommandRejected"),
        }


def test_a_lesson_that_a_crash_interrupted_is_learned_at_the_next_opening(tmp_path: Path) -> None:
    slow, quick = Scholar(), Scholar()
    slow.gate = asyncio.Event()
    kind = kind_of(slow)
    with ActorSystem(tmp_path, actors=[kind]) as system:
        system.ref(kind, "ann").ask(run()).get()

    with ActorSystem(tmp_path, actors=[kind_of(quick)]) as system:
        assert wait_for(system, "facts_learned", "episode_told").count("facts_learned") == 1
    assert sorted(quick.asked) == ["episode:thread/t/r1", "extract:thread/t/r1"]


@pytest.mark.scenario("MEM-07")
def test_the_same_again_is_counted_and_not_kept_twice() -> None:
    kind = kind_of(Scholar())
    with ActorSystem(MemoryJournal(), actors=[kind]) as system:
        memory = system.ref(kind, "ann")
        for n in range(50):
            memory.ask(Remember(f"n{n}", "  THE  same" if n % 2 else "the same", "t", "r", n)).get()

        (kept,) = episodes_of(system.journal).all()
        assert (kept.text, kept.seen) == ("the same", 50)
        assert len(memory.ask(PruneMemory([], [], "look", 1)).get().episodes) == 1


@pytest.mark.requirement("L-EPI-7")
@pytest.mark.scenario("MEM-07", "MEM-08")
def test_too_many_episodes_are_merged_in_windows_and_a_rebuild_asks_nobody() -> None:
    scholar = Scholar()
    kind = kind_of(scholar, episodes_max=100, merge_window=20)
    with ActorSystem(MemoryJournal(), actors=[kind]) as system:
        memory = system.ref(kind, "ann")
        for n in range(300):
            state: MemoryState = memory.ask(TellEpisode(f"e{n}", f"event {n}", None, n)).get()
            while len(state.episodes) > 100:
                state = memory.ask(TellEpisode("look", "event 0 again", None, n)).get()
        merges = [event for event in happened(system.journal) if isinstance(event, EpisodesMerged)]
        assert 9 <= len(merges) <= 300 / 20 + 1
        calls = len(scholar.asked)
        assert len(merges) == calls
        recalled = episodes_of(system.journal)
        assert len(recalled.all()) <= 101
        assert len({one.text for one in recalled.recall(20)}) == 20
        assert len(scholar.asked) == calls


def test_episodes_that_cannot_be_merged_make_room_all_the_same() -> None:
    scholar = Scholar()
    scholar.fails = lambda what: OSError("no model") if what.startswith("merge") else None
    kind = kind_of(scholar, episodes_max=5, merge_window=3)
    with ActorSystem(MemoryJournal(), actors=[kind]) as system:
        memory = system.ref(kind, "ann")
        for n in range(6):
            memory.ask(TellEpisode(f"e{n}", f"event {n}", None, n)).get()
        wait_for(system, "pruned")
        assert [one.text for one in episodes_of(system.journal).all()] == ["event 3", "event 4", "event 5"]


def test_episodes_of_one_agent_are_not_merged_with_those_of_all() -> None:
    kind = kind_of(Scholar(), episodes_max=3, merge_window=10)
    with ActorSystem(MemoryJournal(), actors=[kind]) as system:
        memory = system.ref(kind, "ann")
        for n, scope in enumerate((None, "doctor", None, "doctor")):
            memory.ask(TellEpisode(f"e{n}", f"event {n}", scope, n)).get()
        wait_for(system, "episodes_merged")
        (event,) = [event for event in happened(system.journal) if isinstance(event, EpisodesMerged)]
        assert (event.merged, event.scope) == (["e0", "e2"], None)


@pytest.mark.requirement("L-GRAPH-13")
def test_too_many_facts_are_pruned_by_whoever_looks_after_them() -> None:
    looked: list[tuple[str, int]] = []

    def least(owner: str, count: int) -> list[FactNamed]:
        looked.append((owner, count))
        return [FactNamed("ann", "likes", "tea 0")]

    kind = memory_kind(Scholar(), lambda: 7, least_facts=least, limits=MemoryLimits(facts_max=5, garden_every=10))
    with ActorSystem(MemoryJournal(), actors=[kind]) as system:
        memory = system.ref(kind, "ann")
        for n in range(5):
            facts = [RelationSeen("ann", "likes", f"tea {n}"), RelationSeen("ann", "owns", f"cup {n}")]
            memory.ask(TellFacts(f"s{n}", [], facts, None, n)).get()
        wait_for(system, "pruned")
        (pruned,) = [event for event in happened(system.journal) if isinstance(event, MemoryPruned)]
        assert (pruned.facts, looked) == ([FactNamed("ann", "likes", "tea 0")], [("ann", 5)])


def test_what_was_undone_is_not_learned_any_more_even_if_a_model_is_just_asked() -> None:
    scholar = Scholar()
    scholar.gate = asyncio.Event()
    kind = kind_of(scholar)
    with ActorSystem(MemoryJournal(), actors=[kind]) as system:
        memory = system.ref(kind, "ann")
        memory.ask(run()).get()
        undone = memory.ask(UndoSources(["thread/t/r1"], "ann", "private", 2)).get()
        assert (undone.lessons, undone.observed) == ((), {})
        scholar.gate = None
    assert names(system.journal) == [] or not {"facts_learned", "episode_told"} & set(names(system.journal))


def test_no_more_lessons_wait_than_may() -> None:
    scholar = Scholar()
    scholar.gate = asyncio.Event()
    kind = kind_of(scholar, waiting_max=4)
    with ActorSystem(MemoryJournal(), actors=[kind]) as system:
        memory = system.ref(kind, "ann")
        states = [memory.ask(run(f"thread/t/r{n}")).get() for n in range(3)]
        assert [len(state.lessons) for state in states] == [2, 4, 4]
        failed = [event for event in happened(system.journal) if isinstance(event, LessonFailed)]
        assert [(one.source, one.error.type) for one in failed] == [("thread/t/r2", "TooManyLessons")] * 2


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (TellFacts("", [], [LIKES], None, 1), "is not a source"),
        (TellFacts("s", [], [RelationSeen("ann", "", "tea")], None, 1), "one is empty"),
        (TellFacts("s", [], [RelationSeen("ann", "likes", "t" * 201)], None, 1), "at most 200 characters"),
        (TellFacts("s", [], [RelationSeen("ann", "likes", "te\x1ba")], None, 1), "control characters"),
        (TellFacts("s", [EntitySeen("a\u202enn")], [], None, 1), "control characters"),
        (TellFacts("s", [], [RelationSeen("ann", "likes", "tea", weight=1.5)], None, 1), "0 to 1"),
        (TellFacts("s", [], [RelationSeen("ann", "likes", "tea", weight=float("nan"))], None, 1), "0 to 1"),
        (TellFacts("s", [], [RelationSeen("a", "b", "c", valid_from=5, valid_to=4)], None, 1), "ends after it begins"),
        (TellFacts("s", [], [LIKES] * 201, None, 1), "at most 200 entities and 200 relations"),
        (TellEpisode("s", " \n", None, 1), "1 to 2000 characters"),
        (Remember("s", "x" * 2001, "t", "r", 1), "1 to 2000 characters"),
        (Remember("s", "bell \x07", "t", "r", 1), "control characters"),
        (run(wants=("graph", "smell")), "smell"),
    ],
)
def test_what_cannot_be_remembered_is_refused_by_name(
    command: TellFacts | TellEpisode | Remember | ObserveRun, says: str
) -> None:
    kind = kind_of(Scholar())
    with ActorSystem(MemoryJournal(), actors=[kind]) as system:
        with pytest.raises(CommandRejected, match=says):
            system.ref(kind, "ann").ask(command).get()
        assert names(system.journal) == []


def test_a_memory_wakes_from_a_snapshot_as_it_was(tmp_path: Path) -> None:
    scholar = Scholar()
    scholar.gate = asyncio.Event()
    kind = kind_of(scholar)
    with ActorSystem(tmp_path, actors=[kind]) as system:
        memory = system.ref(kind, "ann")
        memory.ask(run()).get()
        for n in range(150):
            memory.ask(TellEpisode(f"e{n}", f"event {n}", "doctor" if n % 2 else None, n)).get()
        before = memory.ask(UndoSources([], None, "look", 1)).get()

    with ActorSystem(tmp_path, actors=[kind], recover=False) as system:
        after = system.ref(kind, "ann").ask(UndoSources([], None, "look", 1)).get()
        assert after == before
        assert isinstance(happened(system.journal)[0], RunObserved)
        assert not any(
            isinstance(event, FactsLearned | EpisodeTold) and event.source == "thread/t/r1"
            for event in happened(system.journal)
        )
