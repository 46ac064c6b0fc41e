"""The joint to pydantic-ai: every model request and tool call of a run becomes a named step.

All use of `pydantic_ai.durable_exec` is here. Step names are stored for ever:
`llm:turn:N`, `tool:NAME:CALL_ID`, `validate:NAME:CALL_ID`, `tools:TOOLSET`, `instructions:TOOLSET`, `event`,
`capability:ID:OPERATION`, `llm:compact:N`, `llm:cancel:N`; the second of the same name is `NAME#2`.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, cast

import msgspec
from pydantic_ai import RunContext
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    CapabilityOperationId,
    DurabilityEngineSpec,
    DurableOperation,
    DurableOperationBackend,
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
    replay_scope,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.toolsets import ToolsetTool
from pydantic_ai.usage import RunUsage
from pydantic_core import to_jsonable_python

from ...journal.facts import NOTHING
from .digests import digest_of
from .failures import describe, raise_again
from .options import OPTIONS_KEY, attempts_of
from .payload import encode_payload
from .recorded import Asked, Outcome, Produced
from .scope import Drive, TurnLimitReached, current_drive
from .steps import current_steps
from .tool_step import ToolStep, enter
from .wire import small, unique_call_ids, valid_for_provider

__all__ = ["DurableSteps", "check_tool_name"]


class DurableSteps(BaseDurabilityCapability[Any]):
    """A pydantic-ai capability that makes an agent's model requests and tool calls steps of the run around it.

    A thread adds it to its agents by itself. Give it to an agent that is called inside a tool
    (`Agent(..., capabilities=[DurableSteps()])`) to have that agent's own turns recorded too; without it, what the
    sub-agent does is part of the tool's step. Outside of a thread it does nothing.
    """

    engine_spec: ClassVar[DurabilityEngineSpec] = DurabilityEngineSpec(
        engine_name="Clew",
        durable_unit_noun="step",
        durable_container_noun="run",
        codec=JSON_CODEC,
        toolset_lifecycles={"function": "enter-always", "mcp": "enter-in-durable-unit", "dynamic": "enter-never"},
        unsupported_runtime_toolset_kinds=frozenset({"function", "mcp", "dynamic"}),
        tool_config_key=OPTIONS_KEY,
    )

    @property
    def in_durable_context(self) -> bool:
        """Whether a thread is driving a run here."""
        return current_steps() is not None

    def get_durable_operation_backend(self) -> DurableOperationBackend[Any]:
        """Return what turns operations into steps."""
        return _Backend()

    def get_default_run_id(self) -> str | None:
        """Return the same run id on every replay."""
        steps = current_steps()
        return None if steps is None else steps.begin_agent_run()

    def get_default_conversation_id(self, run_id: str) -> str | None:
        """Return the thread's stream."""
        steps = current_steps()
        return None if steps is None else steps.stream

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Make what is sent the same on every replay and valid for a provider; stop at the limit of turns."""
        request_context = await super().before_model_request(ctx, request_context)
        drive = current_drive()
        if drive is None:
            return request_context
        drive.restamp(ctx.messages, ctx.run_id)
        drive.restamp(request_context.messages, ctx.run_id)
        if ctx.run_id == drive.run_id and drive.turns_max is not None and ctx.run_step > drive.turns_max:
            raise TurnLimitReached(ctx.messages, ctx.usage)
        request_context.messages = valid_for_provider(request_context.messages)
        return request_context

    async def wrap_run(
        self, ctx: RunContext[Any], *, handler: Callable[[], Awaitable[AgentRunResult[Any]]]
    ) -> AgentRunResult[Any]:
        """Keep replayed steps out of traces, and restamp what came after the last request."""
        if not self.in_durable_context:
            return await handler()
        with replay_scope():
            result = await super().wrap_run(ctx, handler=handler)
        if (drive := current_drive()) is not None:
            drive.restamp(result.all_messages(), ctx.run_id)
        return result


class _Backend(DurableOperationBackend[Any]):
    """Binds pydantic-ai's operations to steps of the run that is driven."""

    def bind(self, operation: DurableOperation[Any, Any, Any]) -> _Bound:
        """Return the operation as a step."""
        return _Bound(operation)

    def config_for_tool(
        self,
        operation: DurableOperation[Any, Any, Any],
        *,
        tool: object | None,
        tool_name: str,
    ) -> object:
        """Return a tool's options from its metadata."""
        metadata = cast("ToolsetTool[Any]", tool).tool_def.metadata if tool is not None else None
        return (metadata or {}).get(OPTIONS_KEY, {})

    def registrations(self) -> Sequence[Callable[..., object]]:
        """Return nothing: steps are made when they are called."""
        return ()


class _Bound:
    """One operation of pydantic-ai that runs as a step."""

    def __init__(self, operation: DurableOperation[Any, Any, Any]) -> None:
        self._operation = operation

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
        name = drive.steps.name(context.run_id, f"llm:turn:{context.run_step}")
        operation_id: Any = self._operation.operation_id
        request = drive.digests.request(
            params.messages, params.model_settings, params.model_request_parameters, operation_id.model_name
        )

        async def body() -> Produced:
            with durable_unit_scope():
                response = await self._operation.handler(params)
            response = unique_call_ids(cast("ModelResponse", response), context.messages)
            return Produced(self._dump_response(response))

        tail = drive.tail.encode(context.messages, drive.results) if own else NOTHING
        outcome = await drive.steps.turn(Asked(name, request, body, describe, tail))
        if own and outcome.error is None:
            drive.tail.recorded(context.messages)
        response = self._load(name, outcome)
        if outcome.error is None and drive.steps.replaying:
            drive.steps.loaded(name, self._dump_response(response))
        return response

    async def _tool(self, drive: Drive, params: Any, options: Mapping[str, Any]) -> Any:
        check_tool_name(params.name)
        context: RunContext[Any] = params.ctx
        name = drive.steps.name(context.run_id, f"tool:{params.name}:{context.tool_call_id}")
        before = copy.copy(context.usage)

        async def body() -> Produced:
            # Work on a copy of the usage, so that what sub-agents use can be recorded, and added again on replay.
            usage = copy.copy(context.usage)
            step = ToolStep(drive.steps, name)
            enter(step)
            own = dataclasses.replace(params, ctx=dataclasses.replace(context, usage=usage))
            with durable_unit_scope():
                value = await self._operation.handler(own)
            result = self._dump(value, f"the result of tool {params.name!r} ({name})")
            return Produced(result, _usage_since(before, usage), step.written)

        asked = Asked(name, {"arguments": digest_of(_arguments(params))}, body, describe)
        outcome = await drive.steps.tool(asked, attempts=attempts_of(options))
        if outcome.error is None:
            drive.results[name] = outcome.result
        if (used := msgspec.json.decode(outcome.usage)) is not None:
            context.usage.incr(cast("RunUsage", JSON_CODEC.load(RunUsage, used)))
        return self._load(name, outcome)

    async def _other(self, drive: Drive, params: Any) -> Any:
        context: RunContext[Any] | None = getattr(params, "run_context", None) or getattr(params, "ctx", None)
        name = drive.steps.name(context.run_id if context else None, _other_name(self._operation, params, context))

        async def body() -> Produced:
            with durable_unit_scope():
                value = await self._operation.handler(params)
            return Produced(self._dump(value, name))

        outcome = await drive.steps.turn(Asked(name, {}, body, describe))
        return self._load(name, outcome)

    def _dump(self, value: object, what: str) -> msgspec.Raw:
        # The codec's own wrapper around a tool's result is not what may be wrong with it.
        shown = getattr(value, "result", value) if isinstance(self._operation.operation_id, ToolsetCallToolId) else None
        return encode_payload(lambda: self._operation.result_codec.dump(value), shown, what)

    def _dump_response(self, response: ModelResponse) -> msgspec.Raw:
        dumped = small(cast("dict[str, Any]", self._operation.result_codec.dump(response)))
        return encode_payload(lambda: dumped, dumped, "the model's response")

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


def _arguments(params: Any) -> object:
    """Return a call's arguments as JSON; what has no JSON form is told apart by its text."""
    return to_jsonable_python(params.tool_args, fallback=repr)


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
