"""What bounds a script: its steps, its time, and what it carries and shows."""

from __future__ import annotations

from typing import Any

import pytest

from clew.actors.agent import code_tool
from tests.actors.scripts import Shop, ref, step


@pytest.mark.requirement("L-CODE-6")
def test_a_script_that_is_too_long_is_rejected_with_its_code_and_nothing_of_it_runs() -> None:
    exactly = Shop(*(step(f"s{at}", "note", text=at) for at in range(16)))
    longer = Shop(*(step(f"s{at}", "note", text=at) for at in range(17)))
    limited = Shop(*(step(f"s{at}", "note", text=at) for at in range(3)), limits={"max_steps": 2})

    assert exactly.told()["final"] == 15
    for shop in (longer, limited):
        refused = shop.told()
        assert (refused["status"], refused["error"]["code"]) == ("refused", "code_tool_too_many_steps")
        assert shop.calls == []


def test_a_large_output_is_not_shown_but_later_steps_have_it() -> None:
    shop = Shop(
        step("a", "big", chars=900),
        step("b", "big", chars=500),
        step("c", "note", text=ref("a")),
        step("d", "big", chars=300),
        limits={"output_bytes_max": 950, "result_bytes_max": 1200},
    )
    too_large = Shop(step("a", "big", chars=1000), limits={"output_bytes_max": 950})
    last = Shop(
        *(step(f"s{at}", "big", chars=chars) for at, chars in enumerate((300, 200, 400))),
        limits={"output_bytes_max": 950, "result_bytes_max": 1050},
    )

    answer, other, kept = shop.told(), too_large.told(), last.told()

    # That of the last step is shown, twice, and of the others what still fits.
    assert [("left_out" in one, len(one.get("output", ""))) for one in answer["steps"]] == [
        (True, 0),
        (False, 500),
        (True, 0),
        (False, 300),
    ]
    assert shop.calls[2] == ["note", "x" * 900]
    assert ["left_out" in one for one in kept["steps"]] == [True, False, False]
    assert len(kept["final"]) == 400
    assert (other["status"], "final" in other) == ("done", False)
    assert "1002 bytes" in other["steps"][0]["left_out"]


def test_the_input_of_a_step_cannot_be_blown_up_by_references() -> None:
    doubled = [step("s0", "note", text="x" * 100)]
    doubled += [step(f"s{at}", "note", text=[ref(f"s{at - 1}")] * 8) for at in range(1, 12)]
    shop = Shop(*doubled)
    nested = [step("s0", "note", text="x")]
    for at in range(1, 4):
        text: Any = ref(f"s{at - 1}")
        for _ in range(30):
            text = [text]
        nested.append(step(f"s{at}", "note", text=text))
    deep = Shop(*nested)

    answer, other = shop.told(), deep.told()

    assert "is larger than 1048576 bytes" in answer["steps"][-1]["error"]["message"]
    assert len(answer["steps"]) == len(shop.done) + 1 < 12
    assert "nested more than 64 levels" in other["steps"][-1]["error"]["message"]
    assert len(deep.done) == 3


def test_no_further_step_begins_when_the_time_is_over() -> None:
    shop = Shop(step("a", "note", text=1), step("b", "note", text=2), step("c", "note", text=3), limits={"wall_s": 60})
    shop.before = lambda _: shop.clock.advance(40)

    answer = shop.told()

    assert shop.calls == [["note", 1], ["note", 2]]
    assert answer["steps"][2]["error"]["code"] == "timed_out"
    assert "was not begun" in answer["steps"][2]["error"]["message"]


def test_a_code_tool_is_checked_where_it_is_declared() -> None:
    def look() -> int:
        return 1

    for tools, options, text in (
        ([], {}, "it has no tools"),
        ([look, look], {}, "two tools are named 'look'"),
        ({"a/b": look}, {}, "may not hold"),
        ([code_tool([look])], {}, "runs scripts itself"),
        ([look], {"max_steps": 0}, "max_steps is more than 0 and at most 100"),
        ([look], {"max_steps": 101}, "max_steps"),
        ([look], {"wall_s": 0}, "wall_s"),
        ([look], {"result_bytes_max": 10}, "output_bytes_max"),
    ):
        with pytest.raises(ValueError, match=text):
            code_tool(tools, **options)  # type: ignore[arg-type]  # wrong on purpose
