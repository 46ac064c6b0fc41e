"""A function of the application as a tool."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Unpack, cast

from pydantic_ai import ModelRetry, Tool

from ..errors import InvalidInput
from ..functions import Function, Functions
from .composed import composed_of, declared_tools
from .definition import AgentDefinition
from .fitting import fit_for
from .options import OPTIONS_KEY
from .schema_tool import ToolOptions, tool_of, what_of
from .steps import current_steps
from .tool_step import tool_step

__all__ = ["check_functions", "function_tool"]

_FUNCTION = "function"


def function_tool(
    function: str | Function[..., Any],
    *,
    description: str | None = None,
    input_schema: Any = None,
    name: str | None = None,
    **options: Unpack[ToolOptions],
) -> Tool[Any]:
    """Return a tool that calls a function of the application.

    A `Function` brings its schema, which is that of what it takes, and its first line as the description. A name is
    looked up in `ActorSystem(functions=[...])` at each call; then say what it takes, and what it is for. `input_schema`
    is as for `define_agent_tool`; what the function itself does not take, the model is told too. The tool is called as
    the function is, with `_` in place of `.` and `:`, unless `name` says otherwise. The other options are those of
    `tool_options`; an `at_most_once` tool, or the key of `tool_step`, keeps what the function does from being doubled.

    Raises:
        TypeError: the schema is none, or is missing.
        ValueError: the name or an option is not what it should be, or the description is missing.
    """
    called = function.name if isinstance(function, Function) else function
    tool = name or re.sub(r"[.:]+", "_", called)
    schema, told = input_schema, description
    if isinstance(function, Function):
        schema = function.input.type if schema is None else schema
        told = (function.__doc__ or "").strip().partition("\n")[0] if told is None else told
    if schema is None:
        raise TypeError(f"{what_of(tool)} is missing: a name does not say what function {called!r} takes")
    if not told:
        raise ValueError(f"tool {tool!r} needs a description, which tells the model what it is for")

    async def call(given: dict[str, Any]) -> Any:
        step, steps = tool_step(), current_steps()
        if steps is not None:
            try:
                steps.functions.check(function, given)
            except InvalidInput as error:
                raise ModelRetry(f"{error.path}: {error.reason}") from error
        return await step.call(function, given)

    made = tool_of(tool, told, schema, call, fit_for(schema, what=what_of(tool)), options)
    if isinstance(function, str):
        metadata = cast("dict[str, Any]", made.metadata)
        made.metadata = {OPTIONS_KEY: {**metadata[OPTIONS_KEY], _FUNCTION: function}}
    return made


def check_functions(definitions: Mapping[str, AgentDefinition[Any, Any]], functions: Functions) -> None:
    """Refuse agents whose tools call a function that is not among these; without any, nothing can be said yet.

    Raises:
        ValueError: names the agent, the tool and the functions there are.
    """
    if not functions.names:
        # A system that is opened to look around, or to decide, calls none.
        return
    for agent, definition in definitions.items():
        for tool in _tools(definition):
            held = cast("dict[str, Any]", (tool.metadata or {}).get(OPTIONS_KEY) or {})
            wanted = held.get(_FUNCTION)
            if wanted is not None and wanted not in functions.names:
                known = ", ".join(functions.names)
                raise ValueError(f"agent {agent!r}, tool {tool.name!r}: there is no function {wanted!r} (only {known})")


def _tools(definition: AgentDefinition[Any, Any]) -> list[Tool[Any]]:
    declared = list(declared_tools(definition.agent))
    return [*declared, *(within for tool in declared for within in composed_of(tool.metadata).values())]
