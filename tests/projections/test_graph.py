"""The graph of an owner: names, contradiction, time, forgetting, and looking around in it, however large it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clew.journal import MemoryJournal
from clew.journal.facts.memory import FactNamed, MemoryPruned, RelationSeen
from clew.projections import DurableProjection, LiveRows, fold_rows, rebuild
from clew.projections.graph import Counts, Graph, graph
from tests.projections.remembering import graph_of, held, journal_of, names, says, tell, triples, undo

LIKES = ("ann", "likes", "tea")


@pytest.mark.requirement("L-GRAPH-11", "L-GRAPH-12")
@pytest.mark.scenario("MEM-01", "MEM-02")
def test_spellings_that_differ_in_case_width_and_white_space_are_one_name_shown_as_it_was_first() -> None:
    spellings = ["Ann Lee", "ann lee", " Ann  Lee ", "ANN\tLEE", "Ann\u00a0Lee", "\uff21nn Lee"]

    found = graph_of(journal_of(*(says(f"s{n}", (name, "likes", "Tea")) for n, name in enumerate(spellings))))

    assert {entity.name for entity in found.entities()} == {"Ann Lee", "Tea"}
    (ann,) = [entity for entity in found.entities() if entity.name == "Ann Lee"]
    assert (ann.mentions, ann.aliases) == (6, ("ann lee", "ANN LEE", "\uff21nn Lee"))
    (fact,) = found.facts("ANN LEE")
    assert (fact.subject, fact.object, [said.source for said in fact.sayings]) == (
        "Ann Lee",
        "Tea",
        [f"s{n}" for n in range(6)],
    )


def test_what_kind_of_thing_it_is_is_what_was_said_first_and_a_name_without_one_gets_one_later() -> None:
    found = graph_of(journal_of(says("a", LIKES), names("b", ("Ann", " a  person ")), names("c", ("ANN", "robot"))))

    ann = found.find("ann")
    assert ann is not None
    assert ann.type == "a person"


@pytest.mark.requirement("L-GRAPH-11")
def test_a_fact_said_again_with_less_weight_weighs_what_it_did() -> None:
    said = [RelationSeen(*LIKES, weight=weight) for weight in (0.5, 0.9, 0.2)]

    (fact,) = graph_of(journal_of(*(says(f"s{n}", one) for n, one in enumerate(said)))).facts()

    assert (fact.weight, len(fact.spans), len(fact.sayings)) == (0.9, 1, 3)


@pytest.mark.requirement("L-GRAPH-13")
def test_what_contradicts_ends_what_was_said_and_keeps_it() -> None:
    journal = journal_of(
        says("r1", ("ann", "works at", "Acme"), ("ann", "likes", "tea"), at=10),
        says("r2", RelationSeen("Ann", "Works at", "Globex", valid_from=15, replaces=True), at=20),
    )

    now = graph_of(journal)

    assert held(now) == ["ann Works at Globex", "ann likes tea"]
    (past,) = [fact for fact in now.facts("acme") if not fact.holds]
    (span,) = past.spans
    assert (span.learned_at, span.valid_to, span.ended_at, span.ended_by) == (10, 15, 20, "r2")
    assert triples(graph_of(journal, at=19), "Ann") == ["ann likes tea", "ann works at Acme"]
    assert triples(now, "Ann") == ["ann likes tea", "ann Works at Globex"]


def test_what_is_said_to_be_over_is_over_and_may_begin_again() -> None:
    journal = journal_of(
        says("r1", LIKES, at=10),
        says("r2", RelationSeen(*LIKES, ended=True, valid_to=17), at=20),
        says("r3", LIKES, at=30),
    )

    (fact,) = graph_of(journal).facts()

    assert [(span.learned_at, span.valid_to, span.ended_at) for span in fact.spans] == [(10, 17, 20), (30, None, None)]
    assert [bool(graph_of(journal, at=at).traverse("ann").triples) for at in (5, 10, 20, 29, 30)] == [
        False,
        True,
        False,
        False,
        True,
    ]


def test_what_is_over_before_it_was_said_changes_nothing_but_is_known() -> None:
    journal = journal_of(says("r1", RelationSeen(*LIKES, ended=True)))

    assert graph_of(journal).facts() == []
    assert graph_of(journal).counts().current == 0


def test_undoing_a_source_takes_out_what_it_said_and_brings_back_what_it_had_ended() -> None:
    first = says("r1", ("ann", "works at", "Acme"), at=10)
    second = says("r2", RelationSeen("ann", "works at", "Globex", replaces=True), ("Globex", "is in", "Rome"), at=20)
    journal = journal_of(first, second, undo("r2"))

    assert held(graph_of(journal)) == ["ann works at Acme"]
    assert {entity.name for entity in graph_of(journal).entities()} == {"ann", "Acme"}
    tell(journal, undo("r1"))
    assert graph_of(journal).facts() == []
    assert graph_of(journal).counts() == Counts()


def test_a_source_that_speaks_again_says_just_what_it_says_now() -> None:
    journal = journal_of(says("r1", LIKES, ("ann", "owns", "a cat")), says("r1", LIKES), says("r1", LIKES))

    assert held(graph_of(journal)) == ["ann likes tea"]
    assert graph_of(journal).counts().sources == 1


@pytest.mark.requirement("L-GRAPH-13")
def test_pruned_facts_are_gone_with_the_names_of_which_nothing_else_is_said() -> None:
    journal = journal_of(
        says("r1", RelationSeen(*LIKES, weight=0.1), RelationSeen("ann", "owns", "a cat")),
        MemoryPruned([FactNamed("ANN", "likes", "Tea")], [], "least", 2),
    )

    assert held(graph_of(journal)) == ["ann owns a cat"]
    assert graph_of(journal).find("tea") is None
    tell(journal, undo("r1"))
    assert graph_of(journal).entities() == []


def test_what_is_over_and_weighs_least_is_forgotten_first() -> None:
    journal = journal_of(
        says("r1", RelationSeen("a", "is", "x", weight=0.9), RelationSeen("b", "is", "x", weight=0.1), at=1),
        says("r2", RelationSeen("c", "is", "x", weight=0.1), RelationSeen("d", "is", "x"), at=2),
        says("r3", RelationSeen("d", "is", "x", ended=True), at=3),
    )

    assert [fact.subject for fact in graph_of(journal).least(3)] == ["d", "b", "c"]


def test_names_in_a_text_are_found_by_their_words_the_longest_first() -> None:
    journal = journal_of(
        says("r1", ("New York City", "is in", "America"), ("York", "is in", "England"), ("C++", "is", "old"))
    )

    assert triples(graph_of(journal), "Is (New York City)'s weather good?", depth=1, seeds_max=1) == [
        "New York City is in America"
    ]
    assert triples(graph_of(journal), "york, please", depth=1) == ["York is in England"]
    assert triples(graph_of(journal), "Do you know C++?", depth=1) == ["C++ is old"]
    assert triples(graph_of(journal), "nothing of that") == []


@pytest.mark.requirement("L-GRAPH-9")
def test_looking_around_stops_at_its_limits_and_says_so() -> None:
    star = [RelationSeen("hub", "has", f"leaf {n:02d}", weight=n / 100) for n in range(50)]
    chain = [RelationSeen(f"n{n}", "to", f"n{n + 1}") for n in range(10)]
    found = graph_of(journal_of(says("r1", *star), says("r2", *chain)))

    around = found.traverse("hub")
    assert [one.object for one in around.triples] == [f"leaf {n:02d}" for n in range(49, 41, -1)]
    assert around.truncated
    assert triples(found, "n0") == ["n0 to n1", "n1 to n2"]
    assert len(found.traverse("n0", depth=9, nodes_max=4).nodes) == 4
    assert found.traverse("n0 n1 n2 n3 n4", depth=0).nodes == ("n0", "n1", "n2", "n3")
    assert not found.traverse("n10", depth=1).truncated


@pytest.mark.scenario("MEM-04")
def test_circles_and_names_that_point_to_themselves_are_walked_once() -> None:
    circle = says("r1", ("a", "r", "b"), ("b", "r", "a"), ("a", "r", "a"))
    chain = [says(f"c{n}", *((f"n{m}", "to", f"n{m + 1}") for m in range(n, n + 200))) for n in range(0, 10_000, 200)]
    clique = [says(f"q{n}", *((f"k{n}", "knows", f"k{m}") for m in range(60) if m != n)) for n in range(60)]
    found = graph_of(journal_of(circle, *chain, *clique))

    assert set(found.traverse("a", depth=10**6).nodes) == {"a", "b"}
    assert len(triples(found, "a", depth=10**6)) == 3
    walked = found.traverse("n0", depth=10**6, nodes_max=1000)
    assert (len(walked.nodes), walked.truncated) == (1000, True)
    assert len(found.traverse("k0", depth=10**6, fan_out=100, nodes_max=60).nodes) == 60


@pytest.mark.requirement("L-GRAPH-3")
def test_what_one_agent_keeps_for_itself_is_seen_by_that_agent_alone() -> None:
    journal = journal_of(
        says("r1", LIKES), says("r2", ("ann", "fears", "spiders"), ("Bob", "is", "odd"), scope="doctor")
    )

    assert triples(graph_of(journal), "ann") == ["ann likes tea"]
    assert triples(graph_of(journal, scope="doctor"), "ann") == ["ann fears spiders", "ann likes tea"]
    assert triples(graph_of(journal, scope="cook"), "ann") == ["ann likes tea"]
    assert graph_of(journal).find("bob") is None
    assert {entity.name for entity in graph_of(journal).entities()} == {"ann", "tea"}


def test_owners_whose_names_look_alike_have_nothing_in_common() -> None:
    journal = MemoryJournal()
    for owner in ("ann", "ann/2", "Ann", "an"):
        tell(journal, says("r1", ("secret", "of", owner)), owner=owner)

    for owner in ("ann", "ann/2", "Ann", "an"):
        assert held(graph_of(journal, owner)) == [f"secret of {owner}"]
    assert graph_of(journal, "a").facts() == []


def test_a_rebuild_from_nothing_is_what_was_kept_while_it_happened() -> None:
    journal = MemoryJournal()
    live = DurableProjection(journal, graph, batch_events_max=2)
    for event in (
        says("r1", LIKES, ("ann", "works at", "Acme"), at=1),
        says("r2", RelationSeen("ann", "works at", "Globex", replaces=True), at=2),
        undo("r1"),
        says("r3", ("Globex", "is in", "Rome"), at=3),
        MemoryPruned([FactNamed("globex", "is in", "rome")], [], "least", 4),
    ):
        tell(journal, event)
        live.catch_up()
    kept = Graph(LiveRows(journal, graph), "ann")
    before = kept.digest()

    assert before == graph_of(journal).digest()
    assert rebuild(live).outcome == "switched"
    assert Graph(LiveRows(journal, graph), "ann").digest() == before
    assert held(kept) == ["ann works at Globex"]


def test_rows_that_another_version_made_are_made_anew_beside_them() -> None:
    journal = journal_of(says("r1", LIKES))
    DurableProjection(journal, graph).catch_up()
    later = replace(graph, version=2)

    DurableProjection(journal, later).catch_up()

    assert held(Graph(LiveRows(journal, later), "ann")) == ["ann likes tea"]
    assert Graph(LiveRows(journal, later), "ann").digest() == Graph(fold_rows(journal, graph), "ann").digest()
