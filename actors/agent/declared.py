"""What a declaration of an agent is checked for, so that a mistake shows where it was made and not in a run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from pydantic_ai import Agent, Tool
from pydantic_ai.exceptions import UserError
from pydantic_ai.toolsets import (
    AbstractToolset,
    ApprovalRequiredToolset,
    CombinedToolset,
    DeferredLoadingToolset,
    DynamicToolset,
    FunctionToolset,
    IncludeReturnSchemasToolset,
    PrefixedToolset,
    RenamedToolset,
    SetMetadataToolset,
    WrapperToolset,
)

__all__ = [
    "check_distinct",
    "check_function",
    "check_kinds",
    "check_methods",
    "check_recorded",
    "check_times",
    "is_async",
    "tools_of",
]

_SAME_NAMES = (ApprovalRequiredToolset, DeferredLoadingToolset, IncludeReturnSchemasToolset, SetMetadataToolset)
"""Wrappers whose tools are those of what they wrap."""


def is_async(function: object) -> bool:
    """Whether calling this gives something to be awaited; a plain function that returns such a thing is not seen."""
    called = getattr(function, "__call__", None)  # noqa: B004  (it is looked at, for objects that are called)
    return any(inspect.iscoroutinefunction(found) or inspect.isasyncgenfunction(found) for found in (function, called))


def check_function(what: str, value: object, *, may_be_async: bool = False) -> None:
    """Refuse what is no function, and one that is async where nobody awaits it.

    Raises:
        TypeError: names it.
    """
    if not callable(value):
        raise TypeError(f"{what} is a function, not {type(value).__name__}")
    if is_async(value) and not may_be_async:
        raise TypeError(f"{what} is not awaited, so it is no async function: what it returned would count unseen")


def check_kinds(what: str, kinds: Mapping[str, tuple[object, type[Any]]]) -> None:
    """Refuse options that are of another type than they should be; one that is not given is None.

    Raises:
        TypeError: names the option and both types.
    """
    for option, (value, kind) in kinds.items():
        fits = isinstance(value, int | float if kind is float else kind) and not isinstance(value, bool)
        if value is not None and not fits:
            raise TypeError(f"{what}: {option} is of type {kind.__name__}, not {type(value).__name__}: {value!r}")


def check_methods(what: str, value: object, *methods: str) -> None:
    """Refuse what lacks a method, or has an async one: nobody awaits it.

    Raises:
        TypeError: names the method.
    """
    for method in methods:
        if not callable(getattr(value, method, None)):
            raise TypeError(f"{what} has a method {method!r}, and {type(value).__name__} has none")
        check_function(f"{what}.{method}", getattr(value, method))


def check_times(what: str, *, run_s: float | None, turn_s: float | None) -> None:
    """Refuse a time for a turn that a whole run does not have.

    Raises:
        ValueError: names both.
    """
    if run_s is not None and turn_s is not None and turn_s > run_s:
        raise ValueError(f"{what}: turn_timeout_s is {turn_s}, but the run as a whole has only run_timeout_s = {run_s}")


def tools_of(what: str, tools: Iterable[Tool[Any] | Callable[..., Any]]) -> list[Any]:
    """Return tools as they were listed, refusing what is none, and two of one name.

    Raises:
        TypeError: it is no list of functions and tools; names what is neither.
        ValueError: names the tool.
    """
    if isinstance(tools, str) or not isinstance(cast("object", tools), Iterable):
        raise TypeError(f"{what}: tools is a list of functions and tools, not {tools!r}")
    listed, seen = list[Any](tools), set[str]()
    for tool in listed:
        name = _name_of(what, tool)
        if name in seen:
            raise ValueError(f"{what}: two tools are named {name!r}")
        seen.add(name)
    return listed


def _name_of(what: str, tool: object) -> str:
    if isinstance(tool, Tool):
        return tool.name
    if isinstance(getattr(tool, "agent", tool), Agent):
        raise TypeError(f"{what}: an agent is no tool by itself; write agent_as_tool(...) around it")
    if not callable(tool):
        raise TypeError(f"{what}: a tool is a function or a pydantic_ai.Tool, not {type(tool).__name__}")
    return getattr(tool, "__name__", repr(tool))


def check_recorded(toolset: AbstractToolset[Any]) -> None:
    """Refuse a set of tools of a kind whose calls cannot be recorded: a replay would make them again.

    Raises:
        UserError: names it.
    """
    # By its name, for MCP is an extra.
    over_mcp = any(kind.__name__ == "MCPToolset" for kind in type(toolset).__mro__)
    theirs = type(toolset).__module__.partition(".")[0] == "pydantic_ai"
    if not (over_mcp or theirs or isinstance(toolset, FunctionToolset | DynamicToolset)):
        raise UserError(
            f"calls of {toolset.label} would not be recorded, and a replay would make them again; "
            "make it a FunctionToolset, or give a function that returns it (DynamicToolset)"
        )


def check_distinct(what: str, agent: Agent[Any, Any]) -> None:
    """Refuse tools of one name, as far as names are known before a run.

    Raises:
        ValueError: names the tool, and where both come from.
    """
    seen: dict[str, str] = {}
    for toolset in agent.toolsets:
        for name in (*_output_names(toolset), *_names(toolset)):
            if name in seen:
                raise ValueError(
                    f"{what}: two tools are named {name!r}, of {seen[name]} and of {toolset.label}: "
                    "rename one, or give its toolset a prefix (toolset.prefixed)"
                )
            seen[name] = toolset.label


def _names(toolset: AbstractToolset[Any]) -> Iterator[str]:
    """Yield the names of the tools that a toolset has in every turn; those that depend on the run are not known."""
    match toolset:
        case FunctionToolset():
            yield from (name for name, tool in toolset.tools.items() if tool.prepare is None)
        case CombinedToolset():
            for part in toolset.toolsets:
                yield from _names(part)
        case PrefixedToolset():
            yield from (f"{toolset.prefix}_{name}" for name in _names(toolset.wrapped))
        case RenamedToolset():
            renamed = {old: new for new, old in toolset.name_map.items()}
            yield from (renamed.get(name, name) for name in _names(toolset.wrapped))
        case WrapperToolset() if isinstance(toolset, _SAME_NAMES):
            yield from _names(toolset.wrapped)
        case _:
            # A toolset of ours may say which it will have, whatever the server answers.
            yield from cast("Iterable[str]", getattr(toolset, "known_names", ()))


def _output_names(toolset: AbstractToolset[Any]) -> Iterator[str]:
    """Yield the names of the tools by which the model answers; only the agent's own toolset knows them."""
    schema: Any = getattr(toolset, "output_schema", None)
    processors: Any = getattr(getattr(schema, "toolset", None), "processors", {})
    yield from cast("Mapping[str, object]", processors)
