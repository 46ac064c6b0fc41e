"""Whatever script a model writes, it does what the plainest reading of it says."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.actors.agent import code_tool, define_agent, replay
from clew.actors.agent.code_script import InputRefused, ScriptRefused, read_script
from clew.actors.testing import agent_harness, final_turn, tool_call_turn
from tests.actors.scripts import told

TOOLS = ("pack", "join", "length", "boom")

Object = dict[str, Any]

IDS = st.sampled_from(["a", "b", "c", "d", "e", "f"])
KEYS = st.sampled_from(["x", "y", "0", "$from", "$$from", "$$$from", "$path", "$ref", "__class__", "a.b", ""])
LEAVES = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
PATHS = st.lists(st.sampled_from(["v", "x", "y", "0", "1", "-1", "01", "left", "right", "$from"]), max_size=3)
LISTED = st.lists(st.sampled_from(["v", 0, "0", 1, -1]), max_size=2)
REFERENCES = st.fixed_dictionaries({"$from": IDS}, optional={"$path": PATHS.map(".".join) | LISTED})
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES | st.text(max_size=5) | REFERENCES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3) | REFERENCES,
    max_leaves=8,
)
JSON: st.SearchStrategy[Any] = st.recursive(
    LEAVES | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | KEYS, inner, max_size=3),
    max_leaves=10,
)


def _step(tool: str) -> st.SearchStrategy[Object]:
    inputs: dict[str, dict[str, st.SearchStrategy[Any]]] = {
        "pack": {"value": VALUES},
        "join": {"left": VALUES, "right": VALUES},
        "length": {"of": VALUES},
        "boom": {},
    }
    return st.fixed_dictionaries({"id": IDS, "tool": st.just(tool), "input": st.fixed_dictionaries(inputs[tool])})


CALLS = st.sampled_from(["pack", "pack", "join", "join", "length", "boom"])
SCRIPTS = st.lists(CALLS.flatmap(_step), min_size=1, max_size=6)


def unique(steps: list[Object]) -> list[Object]:
    """The steps with ids in order, so that more of the scripts are right ones."""
    return [{**step, "id": id_} for id_, step in zip("abcdef", steps, strict=False)]


class Wrong(Exception):
    """The plain reading cannot make sense of it."""


def call(tool: str, given_: Object) -> Any:
    """What a tool returns."""
    match tool:
        case "pack":
            return {"v": given_["value"]}
        case "join":
            return [given_["left"], given_["right"]]
        case "length":
            if not isinstance(given_["of"], str | list | dict):
                raise Wrong
            return len(cast("str", given_["of"]))
        case _:
            raise Wrong


def is_right(value: Any, before: list[str]) -> bool:
    """Whether all references in an input are to steps before."""
    if isinstance(value, list):
        return all(is_right(held, before) for held in cast("list[Any]", value))
    if not isinstance(value, dict):
        return True
    known = cast("Object", value)
    if "$from" in known:
        return known["$from"] in before and set(known) <= {"$from", "$path"} and is_path(known.get("$path", ""))
    return all(is_right(held, before) for held in known.values())


def is_path(path: Any) -> bool:
    """Whether it may lead somewhere."""
    listed = cast("list[Any]", path) if isinstance(path, list) else [None]
    return isinstance(path, str) or all(type(segment) in (str, int) for segment in listed)


def plain(value: Any, outputs: Object) -> Any:
    """An input as it is meant."""
    if isinstance(value, list):
        return [plain(held, outputs) for held in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    known = cast("Object", value)
    if "$from" not in known:
        return {re.sub(r"^\$(\$+from)$", r"\1", key): plain(held, outputs) for key, held in known.items()}
    path = known.get("$path", "")
    found: Any = outputs[known["$from"]]
    for segment in path.split(".") if isinstance(path, str) and path else list(path):
        found = inside(found, str(segment))
    return found


def inside(found: Any, segment: str) -> Any:
    """What is at a key or an index."""
    try:
        if isinstance(found, dict):
            return cast("Object", found)[segment]
        if isinstance(found, list) and re.fullmatch("0|[1-9][0-9]*", segment):
            return cast("list[Any]", found)[int(segment)]
    except (KeyError, IndexError) as error:
        raise Wrong from error
    raise Wrong


def meant(steps: list[Object]) -> tuple[str, list[Any]]:
    """How a script ends, and the outputs of its steps, by its plainest reading."""
    ids = [step["id"] for step in steps]
    if len(set(ids)) < len(ids) or not all(is_right(step["input"], ids[:at]) for at, step in enumerate(steps)):
        return "refused", []
    outputs: Object = {}
    for step in steps:
        try:
            outputs[step["id"]] = call(step["tool"], plain(step["input"], outputs))
        except Wrong:
            return "stopped", list(outputs.values())
    return "done", list(outputs.values())


def pack(value: Any) -> Any:
    """Put a value into an object."""
    return {"v": value}


async def join(left: Any, right: Any) -> Any:
    """Make a list of two."""
    return [left, right]


def length(of: str | list[Any] | dict[str, Any]) -> int:
    """Count."""
    return len(of)


def boom() -> None:
    """Fail."""
    raise OSError("boom")


@settings(max_examples=60, deadline=None)
@given(SCRIPTS.map(unique) | SCRIPTS)
@pytest.mark.requirement("L-CODE-1", "L-CODE-2", "L-CODE-3", "L-CODE-4")
def test_a_script_does_what_its_plainest_reading_says_and_replays(steps: list[Object]) -> None:
    agent = define_agent("a", model="test", tools=[code_tool([pack, join, length, boom])])
    with agent_harness(agent, [tool_call_turn("c1", "run_script", {"steps": steps}), final_turn("ok")]) as harness:
        harness.run("go")
        answer = told(harness.conversation())
        assert replay(harness.conversation(), harness.definition).digests_equal

    status, outputs = meant(steps)
    assert answer["status"] == status
    if status == "refused":
        assert answer["error"]["code"] == "code_tool_invalid_script"
        return
    assert [one["output"] for one in answer["steps"] if "output" in one] == outputs
    if status == "done":
        assert answer["final"] == outputs[-1]
    else:
        assert answer["steps"][-1]["error"]["code"] in ("invalid_input", "failed")
        assert answer["not_run"] == [step["id"] for step in steps[len(outputs) + 1 :]]


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(max_size=6) | st.just("steps"), JSON) | JSON.map(lambda one: {"steps": [one]}))
@pytest.mark.requirement("L-CODE-4")
def test_whatever_is_no_script_is_refused_in_words(given_: Object) -> None:
    # No generated value names one of the tools.
    with pytest.raises(ScriptRefused, match="othing was run") as refused:
        read_script(given_, TOOLS, 16)

    assert refused.value.code in ("code_tool_invalid_script", "code_tool_too_many_steps")
    assert len(str(refused.value)) < 5000


def escaped(part: Any) -> Any:
    """A value as it is written in a script."""
    if isinstance(part, list):
        return [escaped(held) for held in cast("list[Any]", part)]
    if not isinstance(part, dict):
        return part
    known = cast("Object", part)
    return {(f"${key}" if re.fullmatch(r"\$+from", key) else key): escaped(held) for key, held in known.items()}


@settings(max_examples=200, deadline=None)
@given(JSON)
def test_any_value_can_be_written_and_comes_back_as_it_is(value: Any) -> None:
    [step] = read_script({"steps": [{"id": "a", "tool": "pack", "input": {"value": escaped(value)}}]}, TOOLS, 16)

    assert step.resolve({}) == {"value": value}


@settings(max_examples=200, deadline=None)
@given(VALUES, JSON)
@pytest.mark.requirement("L-CODE-2")
def test_an_input_is_resolved_as_it_is_meant_or_refused(value: Any, output: Any) -> None:
    steps = [
        {"id": id_, "tool": "pack", "input": input_} for id_, input_ in (("a", {"value": 1}), ("z", {"value": value}))
    ]
    if not is_right(value, ["a"]):
        with pytest.raises(ScriptRefused):
            read_script({"steps": steps}, TOOLS, 16)
        return
    _, step = read_script({"steps": steps}, TOOLS, 16)
    try:
        meant_ = plain(value, {"a": output})
    except Wrong:
        with pytest.raises(InputRefused):
            step.resolve({"a": output})
    else:
        assert step.resolve({"a": output}) == {"value": meant_}
