"""One call of the code tool makes several: each a step of its own, with data led from one to the next."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai import RunContext, Tool
from pydantic_ai.messages import ToolReturn
from pydantic_ai.tools import ToolDefinition

from clew.actors import ActorSystem
from clew.actors.agent import code_tool, define_agent, replay
from clew.actors.agent.composed import declared_tools
from clew.actors.testing import agent_harness, final_turn, following_model
from clew.journal import MemoryJournal
from clew.journal.facts import StepCompleted, StepFailed
from tests.actors.scripts import Shop, T, ref, script, step, told
from tests.actors.support import WAIT_S
from tests.actors.ticking import facts

FIND_AND_PAY = (
    step("u", "find", name="bob"),
    step("p", "pay", cents=ref("u", "orders.1.cents"), to=ref("u", "name")),
    step("n", "note", text={"who": ref("u", ["name"]), "all": [ref("p"), {"no": ref("u", ["orders", 0, "no"])}]}),
)


@pytest.mark.requirement("L-CODE-1", "L-CODE-2", "L-CODE-3")
def test_a_script_leads_the_output_of_a_call_into_later_ones_and_returns_them_all_and_the_final_one() -> None:
    shop = Shop(*FIND_AND_PAY)

    answer = shop.told()

    noted = {"who": "bob", "all": [{"paid": 70, "to": "bob", "at": "till 7"}, {"no": 1}]}
    assert shop.calls == [["find", "bob"], ["pay", [70, "bob"]], ["note", noted]]
    assert answer["status"] == "done"
    assert [(one["id"], one["tool"]) for one in answer["steps"]] == [("u", "find"), ("p", "pay"), ("n", "note")]
    assert answer["steps"][0]["output"]["orders"][1] == {"no": 2, "cents": 70}
    assert answer["steps"][1]["output"] == {"paid": 70, "to": "bob", "at": "till 7"}
    assert answer["final"] == answer["steps"][2]["output"] == noted


def test_each_call_is_a_step_with_a_key_of_its_own_and_what_it_sets_counts_with_it_once() -> None:
    shop = Shop(*FIND_AND_PAY, step("m", "note", text="more"))
    with shop.open() as system:
        thread = shop.thread(system)
        thread.run("go", run_id="r").result(timeout_s=WAIT_S)
        steps = [fact.step for fact in facts(system.journal, T, StepCompleted)]
        state = thread.state()

    within = [f"tool:run_script:c1/{name}" for name in ("tool:find:u", "tool:pay:p", "tool:note:n", "tool:note:m")]
    assert steps == ["llm:turn:1", *within, "tool:run_script:c1", "llm:turn:2"]
    assert [key for key, _ in shop.done] == [f"thread/t/r/{name}" for name in within]
    assert [note if isinstance(note, str) else note["who"] for note in state["notes"]] == ["bob", "more"]


@pytest.mark.parametrize(
    ("how", "error", "calls"),
    [
        ("retry", {"code": "retry", "message": "say it otherwise"}, 1),
        ("failed", {"code": "failed", "message": "it is broken"}, 1),
        ("never", {"code": "failed", "message": "OSError: never: never"}, 2),
    ],
)
def test_a_call_that_fails_ends_the_script_and_the_model_is_told_what_ran_and_what_did_not(
    how: str, error: dict[str, str], calls: int
) -> None:
    shop = Shop(
        step("u", "find", name="bob"), step("f", "fail", how=how), step("n", "note", text=1), step("m", "note", text=2)
    )

    answer = shop.told()

    assert answer["status"] == "stopped"
    assert [one["id"] for one in answer["steps"]] == ["u", "f"]
    assert answer["steps"][0]["output"]["name"] == "bob"
    assert answer["steps"][1] == {"id": "f", "tool": "fail", "error": error}
    assert answer["not_run"] == ["n", "m"]
    assert "final" not in answer
    assert shop.calls == [["find", "bob"], *[["fail", how]] * calls]


def test_a_call_is_tried_again_as_its_own_tool_says() -> None:
    shop = Shop(step("f", "fail", how="once"))
    with shop.open() as system:
        thread = shop.thread(system)
        thread.run("go", run_id="r").result(timeout_s=WAIT_S)
        failed = facts(system.journal, T, StepFailed)
        answer = told(thread)

    assert [(fact.step, fact.final) for fact in failed] == [("tool:run_script:c1/tool:fail:f", False)]
    assert answer["final"] == "well"
    assert len({key for key, _ in shop.done}) == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (step("x", "pay", cents="many", to="bob"), "at $.cents: Input should be a valid integer"),
        (step("x", "pay", cents=1), "at $.to: Field required"),
        (step("x", "pay", cents=ref("u", "name"), to="bob"), "at $.cents: Input should be a valid integer"),
        (step("x", "note", text=ref("u", "orders.2")), "'u' has nothing at 'orders.2'; there is a list of 2"),
        (step("x", "note", text=ref("u", "orders.-1")), "has nothing at 'orders.-1'"),
        (step("x", "note", text=ref("u", "orders.0.x")), "at 'orders.0.x'; there is an object with 'no', 'cents'"),
        (step("x", "note", text=ref("u", "none.x")), "has nothing at 'none.x'; there is null"),
        (step("x", "note", text=ref("u", "__class__")), "has nothing at '__class__'"),
        ({"id": "x", "tool": "note", "input": ref("u", "id")}, "its input is a number; a tool takes an object"),
    ],
)
@pytest.mark.requirement("L-CODE-4")
def test_an_input_that_turns_out_wrong_ends_the_script_before_its_call(wrong: dict[str, Any], message: str) -> None:
    shop = Shop(step("u", "find", name="bob"), wrong, step("n", "note", text=1))

    answer = shop.told()

    error = answer["steps"][1]["error"]
    assert error["code"] == "invalid_input"
    assert message in error["message"]
    assert error["message"].partition("it was not called")[1]
    assert answer["not_run"] == ["n"]
    assert shop.calls == [["find", "bob"]]


@pytest.mark.requirement("L-CODE-4")
def test_only_the_listed_tools_can_be_called() -> None:
    reached: list[str] = []

    def secret() -> str:
        reached.append("secret")
        return "secret"

    def listed() -> str:
        reached.append("listed")
        return "listed"

    agent = define_agent(
        "a",
        model=following_model([script(step("a", "listed"), step("b", "secret")), final_turn("ok")]),
        tools=[secret, code_tool([listed])],
    )
    with ActorSystem("memory:", agents=[agent]) as system:
        thread = system.thread(agent, "t")
        thread.run("go").result(timeout_s=WAIT_S)
        answer = told(thread)

    assert answer["status"] == "refused"
    assert "there is no tool 'secret' here; the tools are listed" in answer["error"]["message"]
    assert reached == []


@pytest.mark.requirement("L-CODE-7")
@pytest.mark.parametrize("value", [{1, 2}, b"bytes", float("nan"), object()])
def test_an_output_that_is_no_json_ends_the_script_with_its_path(value: object) -> None:
    def odd() -> Any:
        return {"deep": [value]}

    agent = define_agent("a", model="test", tools=[code_tool([odd])])
    with agent_harness(agent, [script(step("a", "odd"), step("b", "odd")), final_turn("ok")]) as harness:
        harness.run("go")
        answer = told(harness.conversation())
        assert replay(harness.conversation(), harness.definition).digests_equal

    assert (answer["steps"][0]["error"]["code"], answer["not_run"]) == ("failed", ["b"])
    assert "NotRepresentable" in answer["steps"][0]["error"]["message"]
    assert "$.deep[0]" in answer["steps"][0]["error"]["message"]


def test_what_a_tool_returns_is_its_json_and_of_a_wrapped_return_its_value() -> None:
    def model_like() -> Any:
        return ToolReturn({"kind": "tool-return", "n": (1, 2)}, content="for the model", metadata={"a": 1})

    def same(value: Any) -> Any:
        return value

    agent = define_agent("a", model="test", tools=[code_tool([model_like, same])])
    steps = (step("a", "model_like"), step("b", "same", value=ref("a", "n.1")), step("c", "same", value=ref("a")))
    with agent_harness(agent, [script(*steps), final_turn("ok")]) as harness:
        harness.run("go")
        answer = told(harness.conversation())

    assert [one["output"] for one in answer["steps"]] == [
        {"kind": "tool-return", "n": [1, 2]},
        2,
        {"kind": "tool-return", "n": [1, 2]},
    ]


def test_a_validator_of_a_tool_looks_at_the_resolved_input_once_as_a_step() -> None:
    shop = Shop(step("a", "note", text=30), step("b", "book", day=ref("a")), step("c", "book", day=40))
    with shop.open() as system:
        thread = shop.thread(system)
        thread.run("go", run_id="r").result(timeout_s=WAIT_S)
        steps = [fact.step for fact in facts(system.journal, T, StepCompleted)]
        assert replay(thread, shop.agent).digests_equal
        answer = told(thread)

    assert shop.checked == [30, 40]
    assert "tool:run_script:c1/validate:book:b" in steps
    assert answer["steps"][2]["error"] == {"code": "retry", "message": "no month has that many days"}
    assert shop.calls == [["note", 30], ["book", 30]]


def test_a_tool_of_a_schema_is_given_what_fits_it_and_nothing_else() -> None:
    taken: list[Any] = []

    async def take(**given: Any) -> str:
        taken.append(given)
        return "taken"

    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 5}}, "required": ["n"]}
    plain = Tool.from_schema(take, "take", "Take it.", schema)
    agent = define_agent("a", model="test", tools=[code_tool({"grab": plain})])
    steps = (step("a", "grab", n=5), step("b", "grab", n=6))
    with agent_harness(agent, [script(*steps), final_turn("ok")]) as harness:
        harness.run("go")
        answer = told(harness.conversation())

    assert taken == [{"n": 5}]
    assert "at $.n: 6 is greater than the maximum of 5" in answer["steps"][1]["error"]["message"]
    assert plain.name == "take"


def test_a_tool_that_is_prepared_away_is_not_called() -> None:
    async def never(ctx: RunContext[Any], tool: ToolDefinition) -> ToolDefinition | None:
        return tool if ctx.deps == "boss" else None

    def fire(who: str) -> str:
        return f"fired {who}"

    def answer_for(deps: str) -> Any:
        agent = define_agent(
            "a", model="test", tools=[code_tool([Tool(fire, prepare=never)])], deps=deps, deps_type=str
        )
        with agent_harness(agent, [script(step("a", "fire", who="bob")), final_turn("ok")]) as harness:
            harness.run("go")
            assert replay(harness.conversation(), harness.definition).digests_equal
            return told(harness.conversation())["steps"][0]

    assert answer_for("boss")["output"] == "fired bob"
    assert answer_for("clerk")["error"]["code"] == "not_available"


def test_the_model_is_told_of_the_tools_their_inputs_and_the_references() -> None:
    tool = next(declared_tools(Shop().agent.agent))
    described = tool.description or ""

    assert tool.name == "run_script"
    assert "- find: Find somebody." in described
    assert '"name": {"type": "string"}' in described
    assert '"$from"' in described
    schema = tool.function_schema.json_schema["properties"]["steps"]
    assert schema["maxItems"] == 16
    assert schema["items"]["properties"]["tool"]["enum"] == ["find", "pay", "note", "fail", "big", "later", "book"]


def test_the_journal_of_a_script_is_a_history_like_any_other() -> None:
    shop, journal = Shop(*FIND_AND_PAY), MemoryJournal()
    with shop.open(journal) as system:
        shop.thread(system).run("go", run_id="r").result(timeout_s=WAIT_S)

    assert replay(list(journal.read_all()), shop.agent).digests_equal
