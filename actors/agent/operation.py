"""One operation of pydantic-ai as a step: a turn of the model, a call of a tool, or whatever else it does.

With `durability.py` the only use of `pydantic_ai.durable_exec`. Step names are stored for ever:
`llm:turn:N`, `tool:NAME:CALL_ID`, `validate:NAME:CALL_ID`, `tools:TOOLSET`, `instructions:TOOLSET`, `event`,
`capability:ID:OPERATION`, `llm:compact:N`, `llm:cancel:N`; the second of the same name is `NAME#2`.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, cast

import msgspec
from pydantic_ai import RunContext
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    CapabilityOperationId,
    DurableOperation,
    EventStreamHandlerId,
    ModelCancelSuspendedResponseId,
    ModelCompactMessagesId,
    ModelRequestParams,
    ToolsetCallToolId,
    ToolsetGetInstructionsId,
    ToolsetGetToolsId,
    ToolsetValidateToolArgumentsId,
    durable_unit_scope,
    record_durable_unit,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelResponse
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ToolsetTool
from pydantic_ai.usage import RunUsage
from pydantic_core import to_jsonable_python

from ...journal.facts import NOTHING
from .approval import Granted, Refused, approval_step, ask_people
from .artifacts import Shortened, shorten
from .composed import may_ask_people
from .digests import digest_of
from .failures import describe, raise_again
from .options import ToolPolicy, policy_of
from .payload import encode_payload
from .recorded import Asked, Outcome, Produced
from .scope import Drive, current_drive
from .sealing import SEALED, Plain, close_calls, close_result, open_calls, open_result, place_of_result
from .spoken import ask_aloud
from .steps import ONCE, AskFirst
from .stopping import REFUSED
from .tool_step import ToolStep, enter
from .used import price
from .wire import small, unique_call_ids

__all__ = ["BoundStep", "check_tool_name", "gated_tools"]


class BoundStep:
    """One operation of pydantic-ai that runs as a step."""

    def __init__(
        self,
        operation: DurableOperation[Any, Any, Any],
        *,
        refusal: Callable[[Refused], dict[str, str]] = lambda refused: {"result": refused.text, "kind": "tool_return"},
    ) -> None:
        self._operation = operation
        self._refusal = refusal

    @property
    def operation(self) -> DurableOperation[Any, Any, Any]:
        """What runs."""
        return self._operation

    async def __call__(self, params: Any, *, config: object | None = None) -> Any:
        """Return the operation's result: from the journal, or by running it and recording what came of it."""
        drive = current_drive()
        if drive is None:
            return await self._operation.handler(params)
        if isinstance(params, ModelRequestParams):
            return await self._turn(drive, params)
        if isinstance(self._operation.operation_id, ToolsetCallToolId):
            return await self._tool(drive, params, cast("Mapping[str, Any]", config or {}))
        return await self._other(drive, params)

    async def _turn(self, drive: Drive, params: ModelRequestParams) -> Any:
        context, own = params.run_context, params.run_context.run_id == drive.run_id
        name = drive.steps.names.step(context.run_id, f"llm:turn:{context.run_step}")
        operation_id: Any = self._operation.operation_id
        request = drive.digests.request(
            params.messages, params.model_settings, params.model_request_parameters, operation_id.model_name
        )

        async def body() -> Produced:
            with durable_unit_scope(), drive.live.speech(drive.steps.stream, drive.run_id, name) as speech:
                response = await ask_aloud(speech, lambda: self._operation.handler(params))
            response = unique_call_ids(response, context.messages)
            price(response)
            parameters, (_, preparer, repairer) = params.model_request_parameters, drive.control
            if own and repairer is not None:
                keep = isinstance(drive.terms.seal, Plain)
                response = await repairer.repaired(response, parameters, keep_said=keep)
            hidden = preparer.hidden if own and preparer is not None else ()
            return Produced(self._dump_response(response, drive, gated_tools((*parameters.function_tools, *hidden))))

        tail = drive.tail.encode(context.messages, drive.results) if own else NOTHING
        outcome = await drive.steps.turn(Asked(name, request, body, describe, tail), drive.turn)
        if own and outcome.error is None:
            drive.tail.recorded(context.messages)
        outcome = self._opened(drive, outcome)
        response = self._load(name, outcome)
        if outcome.error is None and drive.steps.replaying:
            drive.steps.record.loaded(name, self._dump_response(response), outcome.result)
        return response

    async def _tool(self, drive: Drive, params: Any, options: Mapping[str, Any]) -> Any:
        check_tool_name(params.name)
        context: RunContext[Any] = params.ctx
        name = drive.steps.names.step(context.run_id, f"tool:{params.name}:{context.tool_call_id}")
        policy, arguments = policy_of(options), _arguments(params)
        request = {"arguments": digest_of(arguments)}
        said: Granted | Refused | None = None
        if not drive.steps.record.is_settled(name) and (
            approval_step(name) in drive.steps.waits.asked or policy.asks(arguments)
        ):
            said = await self._ask(drive, name, params, arguments, policy)
        try:
            outcome = await self._call(drive, name, params, request, policy, said)
        except AskFirst:
            # The tool itself said that it needs an approval, before it did anything.
            said = await self._ask(drive, name, params, arguments, policy)
            outcome = await self._call(drive, name, params, request, policy, said)
        if outcome.error is None:
            drive.results[name] = outcome.result
        if (used := msgspec.json.decode(outcome.usage)) is not None:
            context.usage.incr(cast("RunUsage", JSON_CODEC.load(RunUsage, used)))
        return self._load(name, outcome)

    async def _ask(
        self, drive: Drive, name: str, params: Any, arguments: dict[str, Any], policy: ToolPolicy
    ) -> Granted | Refused:
        await drive.steps.may_start(name)
        return await ask_people(drive.steps, drive.terms, name, params.name, arguments, policy)

    async def _call(
        self,
        drive: Drive,
        name: str,
        params: Any,
        request: dict[str, str],
        policy: ToolPolicy,
        said: Granted | Refused | None,
    ) -> Outcome:
        if isinstance(said, Refused):
            refused = said

            async def refuse() -> Produced:
                said = {**self._refusal(refused), REFUSED: refused.outcome}
                return Produced(msgspec.Raw(msgspec.json.encode(said)), outcome=refused.outcome)

            return await drive.steps.tool(Asked(name, request, refuse, describe, approval=refused.step), ONCE)

        async def body() -> Produced:
            return await self._run_tool(drive, name, params, policy, said)

        approval = said.step if said is not None else None
        asked = Asked(name, request, body, describe, approval=approval)
        return await drive.steps.tool(asked, policy, spends=approval)

    async def _run_tool(
        self, drive: Drive, name: str, params: Any, policy: ToolPolicy, granted: Granted | None
    ) -> Produced:
        context: RunContext[Any] = params.ctx
        # Work on a copy of the usage, so that what sub-agents use can be recorded, and added again on replay.
        before, usage = copy.copy(context.usage), copy.copy(context.usage)
        step = ToolStep(
            drive.steps, name, check_state=drive.check_state, read_state=drive.read_state, terms=drive.terms
        )
        enter(step)
        own = dataclasses.replace(context, usage=usage, tool_call_approved=granted is not None)
        call = dataclasses.replace(params, ctx=own)
        if granted is not None and granted.arguments is not None:
            call = dataclasses.replace(call, tool_args=_validated(call, granted.arguments))
        with durable_unit_scope():
            value = await self._operation.handler(call)
        if getattr(value, "kind", None) == "approval_required":
            if policy.at_most_once or granted is not None:
                raise UserError(f"tool {params.name!r} asks for approval while it runs; give it needs_approval instead")
            raise AskFirst
        result = self._dump(value, f"the result of tool {params.name!r} ({name})")
        cut = _shortened(drive, name, params, policy, result)
        # Not since the loop's own count, to which calls beside this one have added meanwhile.
        used = _usage_since(before, usage)
        state, messages, schedules = step.writes.state, step.messages, step.schedules
        return Produced(cut.result, used, state, messages, schedules, artifacts=cut.artifacts)

    async def _other(self, drive: Drive, params: Any) -> Any:
        context: RunContext[Any] | None = getattr(params, "run_context", None) or getattr(params, "ctx", None)
        name = drive.steps.names.step(
            context.run_id if context else None, _other_name(self._operation, params, context)
        )

        async def body() -> Produced:
            with durable_unit_scope():
                value = await self._operation.handler(params)
            result = self._dump(value, name)
            return Produced(close_result(result, drive.terms.seal, place) if validates else result)

        validates = isinstance(self._operation.operation_id, ToolsetValidateToolArgumentsId)
        place = place_of_result(drive.steps.stream, drive.steps.run, name)
        outcome = await drive.steps.turn(Asked(name, {}, body, describe))
        if validates and outcome.error is None:
            outcome = outcome._replace(result=open_result(outcome.result, drive.terms.seal, place))
        return self._load(name, outcome)

    def _dump(self, value: object, what: str) -> msgspec.Raw:
        # The codec's own wrapper around a tool's result is not what may be wrong with it.
        shown = getattr(value, "result", value) if isinstance(self._operation.operation_id, ToolsetCallToolId) else None
        return encode_payload(lambda: self._operation.result_codec.dump(value), shown, what)

    def _opened(self, drive: Drive, outcome: Outcome) -> Outcome:
        """Open the arguments that were sealed in a recorded response."""
        if outcome.error is not None or SEALED.encode() not in bytes(outcome.result):
            return outcome
        opened = open_calls(msgspec.json.decode(outcome.result), drive.terms.seal, drive.steps.stream)
        return outcome._replace(result=msgspec.Raw(msgspec.json.encode(opened)))

    def _dump_response(
        self, response: ModelResponse, drive: Drive | None = None, sealed: Collection[str] = ()
    ) -> msgspec.Raw:
        dumped = small(cast("dict[str, Any]", self._operation.result_codec.dump(response)))
        held = encode_payload(lambda: dumped, dumped, "the model's response")
        if drive is None or (isinstance(drive.terms.seal, Plain) and SEALED.encode() not in bytes(held)):
            return held
        return msgspec.Raw(msgspec.json.encode(close_calls(dumped, sealed, drive.terms.seal, drive.steps.stream)))

    def _load(self, name: str, outcome: Outcome) -> Any:
        record_durable_unit(executed=outcome.ran)
        if outcome.error is not None:
            raise_again(name, outcome.error)
        return self._operation.result_codec.load(msgspec.json.decode(outcome.result))


def check_tool_name(name: str) -> None:
    """Refuse a tool whose name would make its step's name ambiguous.

    Raises:
        UserError: the name holds a slash, a colon or a hash sign.
    """
    if set(name) & set("/:#"):
        raise UserError(f"tool {name!r}: its name is part of stored step names and may not hold '/', ':' or '#'")


def _arguments(params: Any) -> dict[str, Any]:
    """Return a call's arguments as JSON; what has no JSON form is told apart by its text."""
    return cast("dict[str, Any]", _jsonable(_ordered(params.tool_args)))


def _ordered(value: Any) -> Any:
    """Return the same with an order for sets, which have another one in each process."""
    match value:
        case set() | frozenset():
            members = map(_ordered, cast("set[Any]", value))
            return sorted(members, key=lambda member: msgspec.json.encode(_jsonable(member)))
        case dict():
            return {key: _ordered(held) for key, held in cast("dict[Any, Any]", value).items()}
        case list() | tuple():
            return [_ordered(held) for held in cast("list[Any]", value)]
        case _:
            return value


def _jsonable(value: object) -> object:
    return to_jsonable_python(value, fallback=repr)


def gated_tools(tools: Iterable[ToolDefinition]) -> Collection[str]:
    """Return the tools whose calls people may be asked about."""
    return [tool.name for tool in tools if may_ask_people(tool.metadata)]


def _shortened(drive: Drive, name: str, params: Any, policy: ToolPolicy, result: msgspec.Raw) -> Shortened:
    """Return what the model gets of a result; whole is that of another's step, and one that pydantic-ai reads."""
    limit = policy.result_chars_max or drive.limits.chars_max
    definition: ToolDefinition | None = getattr(params, "tool_def", None) or getattr(params.tool, "tool_def", None)
    own = params.ctx.run_id == drive.run_id and "/" not in name
    if limit is None or not own or (definition is not None and definition.tool_kind):
        return Shortened(result)
    place = f"{drive.steps.stream}\0{drive.steps.run}\0{name}"
    return shorten(result, chars_max=limit, place=place, readable=drive.limits.read_max is not None)


def _validated(params: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return edited arguments as the tool takes them."""
    tool: ToolsetTool[Any] | None = getattr(params, "tool", None)
    return arguments if tool is None else cast("dict[str, Any]", tool.args_validator.validate_python(arguments))


def _usage_since(before: RunUsage, after: RunUsage) -> msgspec.Raw:
    used = after - before
    return msgspec.Raw(msgspec.json.encode(JSON_CODEC.dump(RunUsage, used))) if used.has_values() else NOTHING


def _other_name(operation: DurableOperation[Any, Any, Any], params: Any, context: RunContext[Any] | None) -> str:
    match operation.operation_id:
        case ToolsetValidateToolArgumentsId():
            return f"validate:{params.name}:{context.tool_call_id if context else ''}"
        case ToolsetGetToolsId(toolset_id=toolset_id):
            return f"tools:{toolset_id}"
        case ToolsetGetInstructionsId(toolset_id=toolset_id):
            return f"instructions:{toolset_id}"
        case EventStreamHandlerId():
            return "event"
        case CapabilityOperationId(capability_id=capability_id, operation=name):
            return f"capability:{capability_id}:{name}"
        case ModelCompactMessagesId():
            return f"llm:compact:{context.run_step if context else 0}"
        case ModelCancelSuspendedResponseId():
            return f"llm:cancel:{context.run_step if context else 0}"
        case other:
            # A later pydantic-ai may add operations; each kind is a step of its own name.
            return f"operation:{type(other).__name__}"
