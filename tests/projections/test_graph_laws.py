"""What holds for every graph, whatever was said in it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from clew.journal.facts.memory import FactsLearned, RelationSeen
from clew.projections import DurableProjection, LiveRows
from clew.projections.graph import Graph, graph
from tests.projections.remembering import graph_of, held, journal_of, says, undo

NAMES = st.sampled_from(["a", "A", "b", " b", "c"])
TIMES = st.none() | st.integers(0, 20)

RELATIONS = st.builds(
    RelationSeen,
    subject=NAMES,
    predicate=st.sampled_from(["is", "IS", "has"]),
    object=NAMES,
    weight=st.sampled_from([0.0, 0.25, 1.0]),
    valid_from=TIMES,
    replaces=st.booleans(),
    ended=st.booleans(),
)


@st.composite
def lives(draw: st.DrawFn) -> list[FactsLearned]:
    """What sources of different names said, each once, as time went by."""
    count = draw(st.integers(1, 8))
    return [
        says(f"s{n}", *draw(st.lists(RELATIONS, max_size=3)), at=n, scope=draw(st.sampled_from([None, "x"])))
        for n in range(count)
    ]


@given(lives(), st.data())
@settings(max_examples=60, deadline=None)
def test_to_undo_a_source_is_never_to_have_heard_it(life: list[FactsLearned], data: st.DataObject) -> None:
    gone = data.draw(st.sampled_from(life))
    # An event that says nothing keeps the sequences of the others.
    without = [says(f"nothing {n}") if event is gone else event for n, event in enumerate(life)]

    undone = graph_of(journal_of(*life, undo(gone.source)), scope="x")
    never = graph_of(
        journal_of(*without, undo(*(event.source for event in without if event.source.startswith("n")))), scope="x"
    )

    assert undone.facts() == never.facts()
    assert undone.entities() == never.entities()
    assert undone.counts() == never.counts()


@given(lives())
@settings(max_examples=60, deadline=None)
def test_to_hear_everything_again_changes_nothing_that_holds(life: list[FactsLearned]) -> None:
    last = life[-1]

    once, twice = graph_of(journal_of(*life)), graph_of(journal_of(*life, last, last))

    assert held(once) == held(twice)
    assert once.counts() == twice.counts()


@given(lives(), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_wherever_a_fold_is_cut_it_ends_in_the_same_rows(life: list[FactsLearned], size: int) -> None:
    journal = journal_of(*life, undo(life[0].source))
    DurableProjection(journal, graph, batch_events_max=size).catch_up()

    assert Graph(LiveRows(journal, graph), "ann").digest() == graph_of(journal).digest()


@given(lives())
@settings(max_examples=40, deadline=None)
def test_what_is_believed_now_is_what_is_believed_at_the_last_moment(life: list[FactsLearned]) -> None:
    journal = journal_of(*life)

    assert held(graph_of(journal)) == held(graph_of(journal, at=len(life) + 1))


@given(lives())
@settings(max_examples=40, deadline=None)
def test_there_are_as_many_facts_as_are_counted(life: list[FactsLearned]) -> None:
    found = graph_of(journal_of(*life), scope="x")

    counts, facts = found.counts(), found.facts()

    assert counts.current == sum(fact.holds for fact in facts)
    assert counts.past == sum(not fact.holds for fact in facts)
    assert counts.sources == len(life)
