"""Arguments that were edited by whoever approves a call: they must be what the tool takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from pydantic import ValidationError
from pydantic_ai import Agent
from pydantic_ai.tools import Tool
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset

__all__ = ["wrong_arguments"]


def wrong_arguments(agent: Agent[Any, Any], tool: str, arguments: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return where and why a tool would not take these arguments; None where nothing is known against them.

    A tool that is not declared with the agent (one of a server, or under another name) looks at them when it is called.
    """
    found = _tool(agent, tool)
    if found is None:
        return None
    try:
        found.function_schema.validator.validate_python(dict(arguments))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        return _path(first["loc"]), first["msg"]
    if found.function_schema.validator.title == "any":
        return _against_schema(found.function_schema.json_schema, arguments)
    return None


def _tool(agent: Agent[Any, Any], name: str) -> Tool[Any] | None:
    found: list[Tool[Any]] = []

    def look(toolset: AbstractToolset[Any]) -> None:
        if isinstance(toolset, FunctionToolset) and name in toolset.tools:
            found.append(toolset.tools[name])

    for toolset in agent.toolsets:
        toolset.apply(look)
    return found[0] if found else None


def _against_schema(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> tuple[str, str] | None:
    from jsonschema import Draft202012Validator  # noqa: PLC0415  (slow to import, and rare)

    validator = cast("Any", Draft202012Validator(schema))
    error = next(iter(validator.iter_errors(dict(arguments))), None)
    return None if error is None else (error.json_path, error.message)


def _path(place: Iterable[int | str]) -> str:
    return "$" + "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in place)
