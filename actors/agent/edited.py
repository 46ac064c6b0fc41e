"""Arguments that were edited by whoever approves a call: they must be what the tool takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from pydantic import ValidationError
from pydantic_ai import Agent
from pydantic_ai.tools import Tool

from .composed import composed_of, declared_tools

__all__ = ["against_schema", "path_of", "wrong_arguments"]


def wrong_arguments(
    agent: Agent[Any, Any], tool: str, arguments: Mapping[str, Any], *, call: str = ""
) -> tuple[str, str] | None:
    """Return where and why a tool would not take these arguments; None where nothing is known against them.

    `call` is the name of its step, which says through which other tool it is called.

    A tool that is not declared with the agent (one of a server, or under another name) looks at them when it is called.
    """
    found = _tool(agent, tool, call)
    if found is None:
        return None
    try:
        found.function_schema.validator.validate_python(dict(arguments))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        return path_of(first["loc"]), first["msg"]
    return against_schema(found, arguments)


def _tool(agent: Agent[Any, Any], name: str, call: str) -> Tool[Any] | None:
    around = call.partition("/")[0].split(":")[1] if "/" in call else ""
    for tool in declared_tools(agent):
        if around:
            if tool.name == around and (within := composed_of(tool.metadata)):
                return within.get(name)
        elif tool.name == name:
            return tool
    return None


def against_schema(tool: Tool[Any], arguments: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return where and why arguments do not fit the JSON schema of a tool that has nothing else to be checked by."""
    if tool.function_schema.validator.title != "any":
        return None
    schema = tool.function_schema.json_schema
    from jsonschema import Draft202012Validator  # noqa: PLC0415  (slow to import, and rare)

    validator = cast("Any", Draft202012Validator(schema))
    error = next(iter(validator.iter_errors(dict(arguments))), None)
    return None if error is None else (error.json_path, error.message)


def path_of(place: Iterable[int | str]) -> str:
    """Return the place of a validator's error as a path."""
    return "$" + "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in place)
