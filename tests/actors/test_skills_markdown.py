"""Skills that are read from a SKILL.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.actors.agent import define_agent, skill_from_markdown
from clew.actors.agent.skill_markdown import BYTES_MAX
from clew.actors.testing import agent_harness, final_turn, tool_call_turn
from tests.actors.harnesses import returned
from tests.actors.test_skills import lookup, told

SKILL = """---
name: billing
description: >-
  About
  invoices.
license: none
metadata: {a: [1, 2]}
---

# Billing

Cite the invoice; see [limits](../../etc/passwd).

---
Not the end.
"""


@pytest.mark.requirement("L-SKILL-7")
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_file_a_folder_and_a_text_are_the_same_skill(end: str, mark: str, tmp_path: Path) -> None:
    file = tmp_path / "SKILL.md"
    file.write_bytes((mark + SKILL.replace("\n", end)).encode())

    for source in (file, tmp_path, str(file), SKILL):
        skill = skill_from_markdown(source, tools=[lookup])
        assert (skill.name, skill.description) == ("billing", "About invoices.")
        assert isinstance(skill.instructions, str)
        assert skill.instructions.startswith("# Billing\n\nCite")
        assert skill.instructions.endswith("Not the end.")
        assert [tool.name for tool in skill.tools] == ["lookup"]


@pytest.mark.requirement("L-SKILL-7")
def test_an_agent_works_with_it() -> None:
    clerk = define_agent("clerk", model="test", skills=[skill_from_markdown(SKILL, tools=[lookup])])

    with agent_harness(clerk, [tool_call_turn("c1", "lookup", {"id": 7}), final_turn("seven")]) as harness:
        harness.run("Which one?")

    assert returned(harness) == ["invoice 7"]
    assert (told(harness) or "").startswith("# Billing")


@pytest.mark.requirement("L-SKILL-7")
@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("# Billing\n", 1, "begins with front matter"),
        ("", 1, "begins with front matter"),
        ("---\nname: billing\n", 3, "does not end"),
        ("---\nname: billing\n---\n \n", 5, "no instructions"),
        ("---\ndescription: x\n---\nDo.", 1, "needs the name"),
        ("---\ndescription: x\nname: 3\n---\nDo.", 3, "needs the name"),
        ("---\nname: a b\n---\nDo.", 2, "needs a name of letters"),
        ("---\nname: b\ndescription: [1]\n---\nDo.", 3, "description is text"),
        (f"---\nname: b\n\ndescription: {'x' * 1025}\n---\nDo.", 4, "description is text"),
        ("---\nname: b\nname: c\n---\nDo.", 3, "each there once"),
        ("---\n[a]: b\n---\nDo.", 2, "are text"),
        ("---\n- a\n---\nDo.", 2, "is a mapping"),
        ("---\n---\nDo.", 2, "is a mapping"),
        ("---\nname: b\nx: [1\n---\nDo.", 3, "expected"),
        ("---\nname: b\nx: !!python/object/apply:os.getcwd []\n---\nDo.", 3, "could not determine a constructor"),
        ("---\nname: b\nx: \x07\n---\nDo.", 2, "no YAML"),
        ("---\nname: b\nx: " + "[" * 5000 + "\n---\nDo.", 2, ""),
        ("---\nname: b\nx: y\n---\n" + "x" * BYTES_MAX, 1, "at most"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, line: int, why: str, tmp_path: Path) -> None:
    file = tmp_path / "SKILL.md"
    file.write_text(text)

    with pytest.raises(ValueError, match=rf"SKILL\.md, line {line}: .*{why}"):
        skill_from_markdown(file)


def test_what_is_no_text_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "SKILL.md"
    file.write_bytes(b"---\nname: b\n---\n\xff")

    with pytest.raises(ValueError, match="line 4: it is not UTF-8"):
        skill_from_markdown(file)
    with pytest.raises(FileNotFoundError):
        skill_from_markdown(tmp_path / "none.md")
