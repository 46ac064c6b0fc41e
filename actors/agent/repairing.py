"""Repairing a call: one that the model got wrong is given to a function of the user's before it is recorded.

It runs inside the turn's step, so what is recorded is the call as it was corrected, and nobody is asked on replay.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import msgspec
from pydantic_ai.messages import ModelResponse, ModelResponsePart, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

__all__ = ["BrokenCall", "RepairToolCall", "Repairer"]

log = logging.getLogger("clew")

SAID_LENGTH_MAX = 10_000
"""Characters that are kept of what a model had said where it was corrected."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BrokenCall:
    """A tool call that cannot be made as it is.

    `error` says why: there is no such tool, the arguments are no JSON object, or they do not fit `input_schema`, the
    JSON schema of the tool's arguments (None where there is no such tool). `tools` are those that the model was shown.
    """

    tool_call: ToolCallPart
    error: str
    tools: Mapping[str, ToolDefinition]
    input_schema: dict[str, Any] | None


RepairToolCall = Callable[
    [BrokenCall],
    "ToolCallPart | dict[str, Any] | Awaitable[ToolCallPart | dict[str, Any] | None] | None",
]
"""Returns a corrected call, or corrected arguments for the same tool; None leaves the call as it is."""


class Repairer:
    """Has the broken calls of responses corrected.

    A call that is not corrected, or into what cannot be made either, stays as the model made it; then pydantic-ai tells
    the model what is wrong with it.
    """

    def __init__(self, agent: str, repair: RepairToolCall) -> None:
        self._agent = agent
        self._repair = repair
        # By name, with the schema it is for: tools of the same name may differ from turn to turn.
        self._validators: dict[str, tuple[dict[str, Any], Any]] = {}

    async def repaired(
        self, response: ModelResponse, parameters: ModelRequestParameters, *, keep_said: bool
    ) -> ModelResponse:
        """Return a response with its broken calls corrected; with `keep_said`, beside what the model had said."""
        tools = {tool.name: tool for tool in (*parameters.function_tools, *parameters.output_tools)}
        parts = [
            await self._part(part, tools, keep_said=keep_said) if isinstance(part, ToolCallPart) else part
            for part in response.parts
        ]
        if all(now is then for now, then in zip(parts, response.parts, strict=True)):
            return response
        return dataclasses.replace(response, parts=parts)

    async def _part(
        self, call: ToolCallPart, tools: Mapping[str, ToolDefinition], *, keep_said: bool
    ) -> ModelResponsePart:
        if (error := self._error(call, tools)) is None:
            return call
        tool = tools.get(call.tool_name)
        schema = None if tool is None else tool.parameters_json_schema
        try:
            said = self._repair(BrokenCall(tool_call=call, error=error, tools=tools, input_schema=schema))
            corrected = _corrected(call, await said if inspect.isawaitable(said) else said)
            if corrected is None:
                return call
            if (left := self._error(corrected, tools)) is not None:
                raise ValueError(f"what it returned is wrong too: {left}")
        except Exception:  # a repair that fails must not lose the turn
            log.exception(
                "repair_tool_call of agent %s failed for call %s of %s, which stays as it is",
                self._agent,
                call.tool_call_id,
                call.tool_name,
            )
            return call
        return _noted(corrected, call, tools.get(corrected.tool_name), keep_said=keep_said)

    def _error(self, call: ToolCallPart, tools: Mapping[str, ToolDefinition]) -> str | None:
        """Return why a call cannot be made; None if nothing is known against it."""
        tool = tools.get(call.tool_name)
        if tool is None:
            return f"there is no tool {call.tool_name!r}"
        try:
            arguments = call.args_as_dict(raise_if_invalid=True)
        except (ValueError, AssertionError) as error:
            return f"the arguments are no JSON object: {error}"
        try:
            found = next(self._validator(tool).iter_errors(arguments), None)
        except Exception:  # a schema that is none must not lose the turn; the tool looks at its arguments itself
            log.exception("the schema of tool %s of agent %s cannot be used", tool.name, self._agent)
            return None
        return None if found is None else f"{found.json_path}: {found.message}"

    def _validator(self, tool: ToolDefinition) -> Any:
        from jsonschema import Draft202012Validator  # noqa: PLC0415  (slow to import, and rare)
        from referencing import Registry  # noqa: PLC0415  (comes with it)

        schema, validator = self._validators.get(tool.name, (None, None))
        if schema is not tool.parameters_json_schema and schema != tool.parameters_json_schema:
            schema = tool.parameters_json_schema
            # With a registry of its own, so that no schema makes it fetch another one.
            validator = Draft202012Validator(schema, registry=cast("Any", Registry)())
            self._validators[tool.name] = schema, validator
        return validator


def _corrected(call: ToolCallPart, said: object) -> ToolCallPart | None:
    """Return the call as it was corrected, under its own id."""
    if said is None:
        return None
    if isinstance(said, ToolCallPart):
        name, arguments = said.tool_name, said.args_as_dict(raise_if_invalid=True)
    elif isinstance(said, dict):
        name, arguments = call.tool_name, cast("dict[str, Any]", said)
    else:
        raise TypeError(f"it returns a ToolCallPart, a dict of arguments or None, not {said!r}")
    # As JSON, which is what is recorded of it; strictly, as the journal takes it.
    text = json.dumps(arguments, allow_nan=False)
    # Without the id that a provider has of it: it would go on with its own copy.
    return dataclasses.replace(call, tool_name=name, args=cast("dict[str, Any]", msgspec.json.decode(text)), id=None)


def _noted(
    corrected: ToolCallPart, call: ToolCallPart, tool: ToolDefinition | None, *, keep_said: bool
) -> ModelResponsePart:
    """Return a corrected call with a note of what it was."""
    was: dict[str, Any] = {"tool_name": call.tool_name}
    if keep_said:
        was["args"] = (call.args if isinstance(call.args, str) else json.dumps(call.args))[:SAID_LENGTH_MAX]
    details = {**(call.provider_details or {}), "clew_repaired": was}
    noted = dataclasses.replace(corrected, provider_details=details)
    return ToolCallPart.narrow_type(noted, tool_kind=None if tool is None else tool.tool_kind)
