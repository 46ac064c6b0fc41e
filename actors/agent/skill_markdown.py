"""A skill from a SKILL.md: front matter in YAML that says what it is, and instructions in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from pydantic_ai import Tool

from .knowledge import Knowledge, Source
from .skills import Skill, define_skill

__all__ = ["skill_from_markdown"]

BYTES_MAX = 256 * 1024
"""How large a SKILL.md may be."""

DESCRIPTION_CHARS_MAX = 1024

_FENCE = "---"


def skill_from_markdown(
    source: Path | str,
    *,
    tools: Iterable[Tool[Any] | Callable[..., Any]] = (),
    knowledge: Knowledge | Source | None = None,
) -> Skill:
    """Return the skill that a SKILL.md describes: a file, the folder it is in, or its text.

    Its front matter is YAML between two lines `---`, with the `name` and, if it likes, the `description` of the skill;
    whatever else it says counts for nothing here. What follows are the instructions, as they are: links in them are
    not followed, and no other file is read. Tools and knowledge are code, and given here. Text is what has more than
    one line. Needs PyYAML: the extra `skills`.

    Raises:
        ValueError: the file, or its front matter, is not as described; names the file and the line.
        OSError: the file cannot be read.
        ImportError: PyYAML is not installed.
    """
    where, text = _read(source)
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        raise _wrong(where, 1, f"a skill begins with front matter between two lines {_FENCE}")
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise _wrong(where, len(lines), f"the front matter does not end; close it with a line {_FENCE}")
    said = _front_matter(where, "\n".join(lines[1:end]))
    body = "\n".join(lines[end + 1 :]).strip()
    if not body:
        raise _wrong(where, len(lines), "there are no instructions behind the front matter")
    name, line = said.get("name", (None, 1))
    if not isinstance(name, str):
        raise _wrong(where, line, "the front matter needs the name of the skill, as text")
    description, at = said.get("description", (None, 1))
    if not isinstance(description, str | None) or len(description or "") > DESCRIPTION_CHARS_MAX:
        raise _wrong(where, at, f"the description is text of at most {DESCRIPTION_CHARS_MAX} characters")
    try:
        return define_skill(name, instructions=body, tools=tools, knowledge=knowledge, description=description)
    except ValueError as error:
        raise _wrong(where, line, f"{error}") from error


def _read(source: Path | str) -> tuple[str, str]:
    """Return what to call a source, and its text."""
    if isinstance(source, str) and "\n" in source:
        where, held = "the text of a skill", source.encode()
    else:
        path = Path(source)
        path = path / "SKILL.md" if path.is_dir() else path
        where = str(path)
        with path.open("rb") as file:
            # A byte more than may be, so that nothing is read of what is too large.
            held = file.read(BYTES_MAX + 1)
    if len(held) > BYTES_MAX:
        raise _wrong(where, 1, f"a skill has at most {BYTES_MAX} bytes")
    try:
        return where, held.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = held[: error.start].count(b"\n") + 1
        raise _wrong(where, line, "it is not UTF-8") from error


def _front_matter(where: str, text: str) -> dict[str, tuple[object, int]]:
    """Return the keys of the front matter, each with its value and its line in the file."""
    try:
        import yaml  # noqa: PLC0415  (an extra that only this needs)
    except ImportError as error:
        raise ImportError("a skill from Markdown needs PyYAML: pip install 'clew[skills]'") from error
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise _wrong(where, 2, "the front matter is a mapping, `name: ...`")
        said: dict[str, tuple[object, int]] = {}
        for key, value in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            line = key.start_mark.line + 2
            if not isinstance(key, yaml.ScalarNode) or key.value in said:
                raise _wrong(where, line, "the keys of the front matter are text, each there once")
            said[key.value] = (cast("Any", loader).construct_object(value, deep=True), line)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ValueError(
            f"{where}, line {mark.line + 2 if mark else 2}: {error.problem or 'this is no YAML'}"
        ) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise _wrong(where, 2, f"the front matter is no YAML: {error}") from error
    return said


def _wrong(where: str, line: int, what: str) -> ValueError:
    return ValueError(f"{where}, line {line}: {what}")
