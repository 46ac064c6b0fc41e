"""A script of tool calls as a model writes it: read and checked as a whole, and the way of data between its steps.

Nothing of it is evaluated. An object with the key `$from` stands for the output of an earlier step, or for the part of
it that `$path` leads to; an object that really has that key is written with `$$from`. Everything else is itself.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import msgspec

__all__ = ["DEPTH_MAX", "INPUT_BYTES_MAX", "InputRefused", "ScriptRefused", "ScriptStep", "deeper_than", "read_script"]

DEPTH_MAX = 64
"""How deep the input of a step may be nested, with what it refers to."""

INPUT_BYTES_MAX = 1024 * 1024
"""How large all that the input of a step refers to may be, as JSON: an output may be referred to many times."""

PROBLEMS_MAX = 5
"""Problems of a script that a model is told of at once."""

KEYS_MAX = 20
WORD_MAX = 64
"""What a model is told of an object that has no such key: so many of its keys, each cut at so many characters."""

_FROM = "$from"
_PATH = "$path"
_REFERENCE = {_FROM, _PATH}
_ESCAPED = re.compile(r"\$\$+from")
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")


class ScriptRefused(Exception):
    """A script that was not run, for the reason `code`; the message is for the model."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class InputRefused(Exception):
    """A step's input that cannot be made from what the steps before it returned; the message is for the model."""


class ScriptStep(NamedTuple):
    """One call of a tool in a script; `input` may refer to outputs of the steps before it."""

    id: str
    tool: str
    input: dict[str, Any]

    def resolve(self, outputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the input with what it refers to, out of the outputs by step.

        Raises:
            InputRefused: an output has nothing there, or the input gets too large or too deep.
        """
        resolved = _Resolving(self.id, outputs).fill(self.input, "input", 0)
        if not isinstance(resolved, dict):
            raise InputRefused(f"step {self.id!r}: its input is {_kind(resolved)}; a tool takes an object")
        return cast("dict[str, Any]", resolved)


def read_script(given: Mapping[str, Any], tools: Collection[str], max_steps: int) -> tuple[ScriptStep, ...]:
    """Return the steps of a script, once all that can be known before it runs is known to be right.

    Raises:
        ScriptRefused: it is not; names what to correct.
    """
    steps = given.get("steps")
    if not isinstance(steps, list) or not steps or set(given) != {"steps"}:
        raise _invalid(["give `steps` and nothing else: a list of objects {id, tool, input}, with at least one"])
    listed = cast("list[object]", steps)
    if len(listed) > max_steps:
        raise ScriptRefused(
            "code_tool_too_many_steps",
            f"The script has {len(listed)} steps, and at most {max_steps} are allowed. Nothing was run. Send the first "
            f"{max_steps} as one script, and the rest as another one.",
        )
    read, problems = list[ScriptStep](), list[str]()
    for number, step in enumerate(listed, 1):
        found = list(_problems(step, number, tools, [before.id for before in read]))
        problems += found
        known = cast("dict[str, Any]", step) if isinstance(step, dict) else {}
        # One with mistakes is still an earlier one, so that those which refer to it are not called wrong.
        if isinstance(id_ := known.get("id"), str):
            read.append(ScriptStep(id_, str(known.get("tool")), known.get("input", {})))
    if problems:
        raise _invalid(problems)
    return tuple(read)


def deeper_than(value: object, levels: int) -> bool:
    """Whether a JSON value is nested deeper than so many levels."""
    if not isinstance(value, dict | list):
        return False
    held = cast("dict[str, object]", value).values() if isinstance(value, dict) else cast("list[object]", value)
    return levels == 0 or any(deeper_than(one, levels - 1) for one in held)


def _invalid(problems: list[str]) -> ScriptRefused:
    more = [f"and {len(problems) - PROBLEMS_MAX} more"] if problems[PROBLEMS_MAX:] else []
    text = "; ".join([*problems[:PROBLEMS_MAX], *more])
    return ScriptRefused("code_tool_invalid_script", f"The script was refused, and nothing was run: {text}.")


def _problems(step: object, number: int, tools: Collection[str], before: Collection[str]) -> Iterator[str]:
    """Yield what is wrong with one step of a script."""
    if not isinstance(step, dict):
        yield f"step {number} is {_kind(step)}, not an object {{id, tool, input}}"
        return
    known = cast("dict[str, object]", step)
    id_, tool, input_ = known.get("id"), known.get("tool"), known.get("input", {})
    named = isinstance(id_, str) and _ID.fullmatch(id_) is not None
    where = f"step {id_!r}" if named else f"step {number}"
    if not named:
        yield f"step {number} needs an `id` of letters, digits, _ and - (at most {WORD_MAX})"
    elif id_ in before:
        yield f"{where}: another step has this id"
    if not isinstance(tool, str) or tool not in tools:
        yield f"{where}: there is no tool {_short(tool)} here; the tools are {', '.join(tools)}"
    if unknown := known.keys() - {"id", "tool", "input"}:
        yield f"{where}: it has {_words(unknown)}; a step has id, tool and input"
    if isinstance(input_, dict):
        yield from (f"{where}: {problem}" for problem in _wrong(cast("object", input_), "input", before, 0))
    else:
        yield f"{where}: its input is {_kind(input_)}, not an object"


def _wrong(value: object, place: str, before: Collection[str], depth: int) -> Iterator[str]:
    """Yield what is wrong with the references in an input."""
    if depth > DEPTH_MAX:
        yield f"{place[:WORD_MAX]}...: it is nested more than {DEPTH_MAX} levels deep"
    elif isinstance(value, dict):
        known = cast("dict[str, object]", value)
        if _FROM in known:
            yield from _wrong_reference(known, place, before)
            return
        for key, held in known.items():
            yield from _wrong(held, f"{place}.{key}", before, depth + 1)
    elif isinstance(value, list):
        for number, held in enumerate(cast("list[object]", value)):
            yield from _wrong(held, f"{place}.{number}", before, depth + 1)


def _wrong_reference(reference: Mapping[str, object], place: str, before: Collection[str]) -> Iterator[str]:
    if unknown := reference.keys() - _REFERENCE:
        yield (
            f"{place}: a reference has $from and $path, not {_words(unknown)}; for an object that has a key $from, "
            "write $$from"
        )
    if (step := reference[_FROM]) not in before:
        yield f"{place}: $from is {_short(step)}, which is no step before this one"
    if _segments(reference.get(_PATH, "")) is None:
        yield f"{place}: $path is a text like a.b.0.c, or a list of keys and indexes"


def _segments(path: object) -> list[str] | None:
    """Return the keys and indexes of a path; None if it is none."""
    if isinstance(path, str):
        return path.split(".") if path else []
    if not isinstance(path, list):
        return None
    known = cast("list[object]", path)
    return [str(at) for at in known] if all(isinstance(at, str) or type(at) is int for at in known) else None


@dataclass
class _Resolving:
    """The input of one step being made; what is referred to is counted, so that it cannot grow without bound."""

    step: str
    outputs: Mapping[str, Any]
    bytes_left: int = INPUT_BYTES_MAX

    def fill(self, value: object, place: str, depth: int) -> object:
        if isinstance(value, dict):
            known = cast("dict[str, object]", value)
            if _FROM in known:
                return self._refer(known, place, depth)
            return {
                (key[1:] if _ESCAPED.fullmatch(key) else key): self.fill(held, f"{place}.{key}", depth + 1)
                for key, held in known.items()
            }
        if isinstance(value, list):
            return [self.fill(held, f"{place}.{at}", depth + 1) for at, held in enumerate(cast("list[object]", value))]
        return value

    def _refer(self, reference: Mapping[str, object], place: str, depth: int) -> object:
        step, way = str(reference[_FROM]), _segments(reference.get(_PATH, "")) or []
        found: object = self.outputs[step]
        for number, segment in enumerate(way):
            inside = _inside(found, segment)
            if inside is None:
                at = ".".join(way[: number + 1])
                raise InputRefused(
                    f"step {self.step!r}: {place}: the output of {step!r} has nothing at {_short(at)}; "
                    f"there is {_shape(found)}"
                )
            found = inside[0]
        if deeper_than(found, DEPTH_MAX - depth):
            raise InputRefused(f"step {self.step!r}: {place}: it gets nested more than {DEPTH_MAX} levels deep")
        self.bytes_left -= len(msgspec.json.encode(found))
        if self.bytes_left < 0:
            raise InputRefused(
                f"step {self.step!r}: what its input refers to is larger than {INPUT_BYTES_MAX} bytes; refer to less"
            )
        return found


def _inside(value: object, segment: str) -> tuple[object] | None:
    """Return what an object or a list has at a key or index, which may be None; None if there is nothing."""
    if isinstance(value, dict):
        known = cast("dict[str, object]", value)
        return (known[segment],) if segment in known else None
    if isinstance(value, list) and _INDEX.fullmatch(segment):
        listed, at = cast("list[object]", value), int(segment)
        return (listed[at],) if at < len(listed) else None
    return None


def _shape(value: object) -> str:
    """Return what there is in place of what was looked for."""
    if isinstance(value, dict) and value:
        return f"an object with {_words(cast('dict[str, object]', value))}"
    if isinstance(value, list):
        return f"a list of {len(cast('list[object]', value))}"
    return _kind(cast("object", value))


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case {}:
            return "an object" if value else "an empty object"
        case _:
            return f"a {type(value).__name__}"


def _words(words: Collection[str]) -> str:
    """Return keys as a list that cannot get long."""
    shown = [_short(word) for word in list(words)[:KEYS_MAX]]
    return ", ".join([*shown, *(["..."] if len(words) > KEYS_MAX else [])])


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= WORD_MAX + 2 else f"{text[:WORD_MAX]}..."
