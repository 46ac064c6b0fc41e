"""The analyst answers a question about real books with one script, and publishes what people let it."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.actors.agent import replay
from clew.actors.testing import agent_harness, final_turn, tool_call_turn
from clew.examples.analyst import build_analyst, open_books, rules
from clew.journal.facts import StepCompleted
from tests.actors.payments import waiting
from tests.actors.support import WAIT_S
from tests.actors.ticking import facts


@pytest.mark.requirement("L-CODE-1", "L-CODE-2", "L-CODE-5")
def test_one_script_answers_a_question_and_waits_with_its_report_for_somebody(tmp_path: Path) -> None:
    books = open_books(tmp_path / "books.sqlite")
    script_turn = rules().function
    assert script_turn is not None
    with agent_harness(build_analyst(books), [script_turn, script_turn]) as harness:  # type: ignore[list-item]  # both are turns
        thread = harness.conversation(owner="ann")
        thread.run("What did our customers in Graz buy?", run_id="r").started(timeout_s=WAIT_S)
        [asked] = waiting(thread)
        before = books.reports()
        thread.approve(asked.id).get(timeout=WAIT_S)
        answer = thread.attach("r").result(timeout_s=WAIT_S)
        steps = [fact.step for fact in facts(harness.journal, "thread/test", StepCompleted)]
        replayed = replay(thread, harness.definition)

    assert (asked.tool, asked.arguments) == ("publish", {"title": "Sold to Graz", "cents": 9460})
    assert before == []
    assert books.reports() == [{"title": "Sold to Graz", "cents": 9460}]
    assert "Sold to Graz: 94.60" in answer.output
    assert sum(step.startswith("llm:") for step in steps) == 2
    assert sum("/tool:" in step for step in steps) == 5
    assert replayed.digests_equal


def test_the_books_are_opened_again_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "books.sqlite"
    open_books(path).publish("k", "a", 1)

    again = open_books(path)
    again.publish("k", "a", 1)

    assert [customer["name"] for customer in again.customers("Graz")] == ["Ida", "Mira"]
    assert again.reports() == [{"title": "a", "cents": 1}]


def test_another_question_is_another_script(tmp_path: Path) -> None:
    steps = [
        {"id": "who", "tool": "customers_in", "input": {"city": "Linz"}},
        {"id": "all", "tool": "orders_of", "input": {"customer_id": {"$from": "who", "$path": "0.id"}}},
    ]
    turns = [tool_call_turn("c1", "run_script", {"steps": steps}), final_turn("two orders")]
    with agent_harness(build_analyst(open_books(tmp_path / "b.sqlite")), turns) as harness:
        harness.run("And Linz?")
        asked = str(harness.script.requests[1][-1].parts[0])

    assert "'cents': [40, 2560]" in asked
