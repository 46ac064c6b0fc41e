"""A script comes to a call that needs approval, waits there for days, and goes on without doing anything twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import RunContext, Tool
from pydantic_ai.exceptions import ApprovalRequired

from clew.actors import ActorSystem, InvalidArguments
from clew.actors.agent import PendingApproval, code_tool, define_agent, replay, tool_options
from clew.actors.testing import final_turn, following_model
from clew.adapters.encryption import AesGcmSeal
from clew.journal import MemoryJournal
from clew.journal.facts import ApprovalRequested
from tests.actors.payments import waiting
from tests.actors.scripts import Shop, T, ref, script, step, told
from tests.actors.sealed import ACCOUNT, OLD, stored
from tests.actors.support import WAIT_S
from tests.actors.ticking import facts

STEPS = (
    step("u", "find", name="bob"),
    step("p", "pay", cents=ref("u", "orders.1.cents"), to=ref("u", "name")),
    step("n", "note", text=ref("p")),
)

GATED = {"needs_approval": True}

ID = "r/tool:run_script:c1/approval:p"


def begun(shop: Shop, system: ActorSystem) -> PendingApproval:
    """Run the script until it waits for people."""
    thread = shop.thread(system)
    thread.run("go", run_id="r").started(timeout_s=WAIT_S)
    [asked] = waiting(thread)
    return asked


@pytest.mark.requirement("L-CODE-5")
def test_a_script_waits_at_a_gated_call_for_days_and_goes_on_in_another_process(tmp_path: Path) -> None:
    shop, path = Shop(*STEPS, pay=GATED), str(tmp_path / "data")
    with shop.open(path) as system:
        asked = begun(shop, system)
        before = shop.calls
    shop.clock.advance(2 * 24 * 3600)
    with shop.open(path) as system:
        thread = shop.thread(system)
        thread.approve(asked.id).get(timeout=WAIT_S)
        thread.attach("r").result(timeout_s=WAIT_S)
        replayed, answer = replay(thread, shop.agent), told(thread)
        asked_for = facts(system.journal, T, ApprovalRequested)

    assert (asked.id, asked.tool, asked.arguments) == (ID, "pay", {"cents": 70, "to": "bob"})
    assert before == [["find", "bob"]]
    assert [name for name, _ in shop.calls] == ["find", "pay", "note"]
    assert answer["final"] == {"paid": 70, "to": "bob", "at": "till 7"}
    assert len(asked_for) == 1
    assert replayed.digests_equal


@pytest.mark.requirement("L-CODE-5")
def test_a_predicate_decides_by_the_resolved_input() -> None:
    seen: list[dict[str, Any]] = []

    def is_large(arguments: dict[str, Any]) -> bool:
        seen.append(arguments)
        return arguments["cents"] > 60

    small = step("s", "pay", cents=ref("u", "orders.0.cents"), to="eve")
    shop = Shop(STEPS[0], small, *STEPS[1:], pay={"needs_approval": is_large})
    with shop.open() as system:
        asked = begun(shop, system)
        paid = shop.calls[-1]

    assert asked.arguments == {"cents": 70, "to": "bob"}
    assert paid == ["pay", [50, "eve"]]
    assert {"cents": 50, "to": "eve"} in seen


@pytest.mark.requirement("L-CODE-5")
@pytest.mark.parametrize("how", ["rejected", "expired"])
def test_a_refused_call_ends_the_script_and_what_depends_on_it_does_not_run(how: str) -> None:
    shop = Shop(*STEPS, pay=GATED)
    with shop.open() as system:
        asked, thread = begun(shop, system), shop.thread(system)
        if how == "rejected":
            thread.reject(asked.id, "too much").get(timeout=WAIT_S)
        else:
            shop.clock.advance(4 * 24 * 3600)
        thread.attach("r").result(timeout_s=WAIT_S)
        replayed, answer = replay(thread, shop.agent), told(thread)

    assert shop.calls == [["find", "bob"]]
    assert answer["status"] == "stopped"
    assert answer["steps"][1]["error"]["code"] == how
    assert ("too much" if how == "rejected" else "timed out") in answer["steps"][1]["error"]["message"]
    assert answer["not_run"] == ["n"]
    assert replayed.digests_equal


def test_the_same_call_that_was_refused_is_not_asked_about_again_in_a_later_script() -> None:
    turns = [script(*STEPS), script(*STEPS, call="c2"), final_turn("ok")]
    shop = Shop(turns=turns, pay=GATED)
    with shop.open() as system:
        asked, thread = begun(shop, system), shop.thread(system)
        thread.reject(asked.id, "no").get(timeout=WAIT_S)
        thread.attach("r").result(timeout_s=WAIT_S)
        again, asked_for = told(thread, "c2"), facts(system.journal, T, ApprovalRequested)

    assert again["steps"][1]["error"]["code"] == "rejected"
    assert "nobody was asked" in again["steps"][1]["error"]["message"]
    assert len(asked_for) == 1
    assert shop.calls == [["find", "bob"]] * 2


def test_edited_arguments_are_what_the_call_is_made_with_and_must_be_what_its_tool_takes() -> None:
    shop = Shop(*STEPS, pay=GATED)
    with shop.open() as system:
        asked, thread = begun(shop, system), shop.thread(system)
        with pytest.raises(InvalidArguments, match=r"\$\.cents"):
            thread.approve(asked.id, arguments={"cents": "many", "to": "bob"})
        thread.approve(asked.id, arguments={"cents": 5, "to": "eve"}).get(timeout=WAIT_S)
        thread.attach("r").result(timeout_s=WAIT_S)
        replayed, answer = replay(thread, shop.agent), told(thread)

    assert shop.calls[1:] == [["pay", [5, "eve"]], ["note", {"paid": 5, "to": "eve", "at": "till 7"}]]
    assert answer["final"]["paid"] == 5
    assert replayed.digests_equal


def test_two_gated_calls_are_asked_about_one_after_the_other() -> None:
    second = step("q", "pay", cents=ref("p", "paid"), to="eve")
    shop = Shop(*STEPS[:2], second, pay=GATED)
    with shop.open() as system:
        asked, thread = begun(shop, system), shop.thread(system)
        thread.approve(asked.id, arguments={"cents": 9, "to": "bob"}).get(timeout=WAIT_S)
        [other] = waiting(thread)
        thread.approve(other.id).get(timeout=WAIT_S)
        thread.attach("r").result(timeout_s=WAIT_S)

    assert (other.id, other.arguments) == ("r/tool:run_script:c1/approval:q", {"cents": 9, "to": "eve"})
    assert shop.calls[1:] == [["pay", [9, "bob"]], ["pay", [9, "eve"]]]


def test_a_tool_of_pydantic_ai_that_requires_approval_or_says_so_itself_is_asked_about() -> None:
    made: list[str] = []

    def strict(n: int) -> int:
        made.append(f"strict {n}")
        return n

    def says(ctx: RunContext[Any], n: int) -> int:
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        made.append(f"says {n} in {ctx.run_id} {ctx.tool_call_id}")
        return n

    tools = [Tool(strict, requires_approval=True), says]
    steps = (step("a", "strict", n=1), step("b", "says", n=ref("a")))
    agent = define_agent("a", model=following_model([script(*steps), final_turn("ok")]), tools=[code_tool(tools)])
    with ActorSystem("memory:", agents=[agent]) as system:
        thread = system.thread(agent, "t", owner="ann")
        thread.run("go", run_id="r").started(timeout_s=WAIT_S)
        ids: list[str] = []
        for made_before in ([], ["strict 1"]):
            [asked] = waiting(thread)
            assert made == made_before
            ids.append(asked.id)
            thread.approve(asked.id).get(timeout=WAIT_S)
        thread.attach("r").result(timeout_s=WAIT_S)
        replayed = replay(thread, agent)

    assert ids == [f"r/tool:run_script:c1/approval:{id_}" for id_ in "ab"]
    assert made == ["strict 1", "says 1 in r c1/b"]
    assert replayed.digests_equal


def test_a_script_with_a_gated_tool_is_sealed_like_the_call_itself() -> None:
    steps = (step("u", "find", name="bob"), step("p", "pay", cents=5, to=ACCOUNT))
    shop, journal = Shop(*steps, pay=GATED, seal=AesGcmSeal({"k": OLD}, current="k")), MemoryJournal()
    with shop.open(journal) as system:
        asked, thread = begun(shop, system), shop.thread(system)
        thread.approve(asked.id).get(timeout=WAIT_S)
        thread.attach("r").result(timeout_s=WAIT_S)
        replayed = replay(thread, shop.agent)
    plain, readable = Shop(*steps, pay=GATED), MemoryJournal()
    with plain.open(readable) as system:
        begun(plain, system)

    call = "tool:run_script:c1/tool:pay:p"
    assert asked.arguments == {"cents": 5, "to": ACCOUNT}
    assert shop.calls[1] == ["pay", [5, ACCOUNT]]
    assert ACCOUNT.encode() not in stored(journal, before=call)
    assert ACCOUNT.encode() in stored(readable, before=call)
    assert replayed.digests_equal


def test_why_an_input_does_not_fit_is_not_repeated_where_arguments_are_sealed() -> None:
    async def send(**given: Any) -> str:
        return str(given)

    schema = {"type": "object", "properties": {"to": {"type": "string", "maxLength": 3}}}
    for seal in (None, AesGcmSeal({"k": OLD}, current="k")):
        tool = Tool.from_schema(send, "send", "Send.", schema)
        tool.metadata = tool_options(needs_approval=True)
        model = following_model([script(step("a", "send", to=ACCOUNT)), final_turn("ok")])
        agent = define_agent("a", model=model, tools=[code_tool([tool])], seal=seal)
        with ActorSystem(journal := MemoryJournal(), agents=[agent]) as system:
            thread = system.thread(agent, "t", owner="ann")
            thread.run("go").result(timeout_s=WAIT_S)
            message = told(thread)["steps"][0]["error"]["message"]
        assert "at $.to" in message
        assert (ACCOUNT in message) == (seal is None)
        assert (ACCOUNT.encode() in stored(journal)) == (seal is None)
