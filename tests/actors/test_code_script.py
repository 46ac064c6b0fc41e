"""What can be known to be wrong with a script is said before anything of it runs, in words a model can act on."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest

from clew.actors.agent.code_script import ScriptRefused, read_script
from tests.actors.scripts import ref, step

DEEP = reduce(lambda inner, _: [inner], range(70), list[Any]())

A = step("a", "note", text=1)


@pytest.mark.requirement("L-CODE-4")
@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([A, step("a", "note", text=2)], "step 'a': another step has this id"),
        ([step("b", "note", text=ref("b"))], "step 'b': input.text: $from is 'b', which is no step before this one"),
        ([step("b", "note", text=[{"x": ref("a")}]), A], "step 'b': input.text.0.x: $from is 'a', which is no step"),
        ([A, step("b", "nothing")], "step 'b': there is no tool 'nothing' here; the tools are find, pay"),
        ([{"id": "a", "tool": ["note"]}], "there is no tool ['note'] here"),
        ([{**A, "id": "a b"}], "step 1 needs an `id` of letters, digits, _ and -"),
        ([{**A, "id": "a/b"}], "step 1 needs an `id`"),
        ([{**A, "id": "x" * 65}], "step 1 needs an `id`"),
        ([{**A, "id": 1}], "step 1 needs an `id`"),
        ([{**A, "if": "x"}], "step 'a': it has 'if'; a step has id, tool and input"),
        ([{**A, "input": None}], "step 'a': its input is null, not an object"),
        ([{**A, "input": [1]}], "step 'a': its input is a list, not an object"),
        ([A, "b"], "step 2 is a text, not an object"),
        ([A, step("b", "note", text={"$from": "a", "$path": "x", "y": 1})], "$from and $path, not 'y'; for an object"),
        ([A, step("b", "note", text={"$from": "a", "$path": 1})], "$path is a text like a.b.0.c, or a list"),
        ([A, step("b", "note", text={"$from": "a", "$path": [True]})], "$path is a text like"),
        ([A, step("b", "note", text={"$from": ["a"]})], "$from is ['a'], which is no step"),
        ([step("a", "note", text=DEEP)], "nested more than 64 levels deep"),
        ([], "give `steps` and nothing else"),
        ({"0": A}, "give `steps` and nothing else"),
    ],
)
def test_a_wrong_script_is_refused_before_anything_runs(steps: Any, says: str) -> None:
    with pytest.raises(ScriptRefused) as refused:
        read_script({"steps": steps}, ["find", "pay", "note"], 16)

    assert says in str(refused.value)
    assert "nothing was run" in str(refused.value)
    assert refused.value.code == "code_tool_invalid_script"


def test_several_mistakes_are_told_at_once_and_not_endlessly() -> None:
    steps = [step(f"s{at}", "nothing", value=ref("x" * 1000)) for at in range(16)]
    with pytest.raises(ScriptRefused, match="and 27 more") as refused:
        read_script({"steps": steps}, ["note"], 16)

    assert len(str(refused.value)) < 1000


def test_a_step_behind_a_wrong_one_may_refer_to_it() -> None:
    steps = [step("a", "nothing"), step("b", "note", text=ref("a"))]
    with pytest.raises(ScriptRefused) as refused:
        read_script({"steps": steps}, ["note"], 16)

    assert "step 'b'" not in str(refused.value)
