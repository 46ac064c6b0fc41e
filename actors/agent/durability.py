"""The joint to pydantic-ai: a capability that makes every model request and tool call of a run a named step.

With `operation.py` the only use of `pydantic_ai.durable_exec`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, cast

from pydantic_ai import RunContext
from pydantic_ai.agent import EventStreamHandler
from pydantic_ai.capabilities import RawToolArgs
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    DurabilityEngineSpec,
    DurableOperation,
    DurableOperationBackend,
    replay_scope,
)
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.models import Model, ModelRequestContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ToolsetTool

from .operation import BoundStep, gated_tools
from .options import OPTIONS_KEY
from .preparing import Preparer
from .scope import RunStopped, current_drive
from .sealing import Plain
from .spoken import aloud
from .steps import current_steps
from .wire import valid_for_provider
from .withheld import withhold_inputs

__all__ = ["DurableSteps"]


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

    def __init__(
        self,
        *,
        models: Mapping[str, Model] | None = None,
        event_stream_handler: EventStreamHandler[Any] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(models=models, event_stream_handler=event_stream_handler, name=name)
        # What a turn may choose from; the others are ours.
        self._named = {id_: model for id_, model in (models or {}).items() if not id_.startswith("clew:")}

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
        return None if steps is None else steps.names.begin_agent_run()

    def get_default_conversation_id(self, run_id: str) -> str | None:
        """Return the thread's stream."""
        steps = current_steps()
        return None if steps is None else steps.stream

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Make what is sent the same on every replay, valid for a provider and as is wished; or stop the run."""
        request_context = await super().before_model_request(ctx, request_context)
        drive = current_drive()
        if drive is None:
            return request_context
        drive.restamp(ctx.messages, ctx.run_id)
        drive.restamp(request_context.messages, ctx.run_id)
        if not isinstance(drive.terms.seal, Plain):
            gated = gated_tools(request_context.model_request_parameters.function_tools)
            for messages in (ctx.messages, request_context.messages):
                withhold_inputs(messages, gated)
        stopper, preparer, _ = drive.control
        if ctx.run_id == drive.run_id and stopper is not None and stopper.stops(ctx, drive.steps, drive.results):
            raise RunStopped("stop_condition", ctx.messages, ctx.usage)
        if ctx.run_id == drive.run_id and drive.turns_max is not None and ctx.run_step > drive.turns_max:
            raise RunStopped("max_turns", ctx.messages, ctx.usage)
        if ctx.run_id == drive.run_id and drive.budget is not None and drive.budget.stops(drive.steps.used):
            raise RunStopped("budget", ctx.messages, ctx.usage)
        if ctx.run_id == drive.run_id and drive.compactor is not None:
            request_context.messages = list(await drive.compactor.shorten(drive, ctx, request_context.messages))
        if ctx.run_id == drive.run_id and preparer is not None:
            await preparer.prepare(ctx, request_context, drive.steps, self._named)
        if ctx.run_id == drive.run_id and drive.quoted is not None:
            request_context.messages = drive.quoted.put_before(request_context.messages, ctx.run_id)
        request_context.messages = valid_for_provider(request_context.messages)
        return request_context

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Put into a request what is different about its turn."""
        request_context = await super().prepare_model_request(ctx, request_context)
        if (preparer := _preparer_of(ctx)) is not None:
            preparer.restrict(request_context)
        return request_context

    async def before_tool_validate(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: RawToolArgs
    ) -> RawToolArgs:
        """Refuse a call of a tool that the model was not shown in this turn."""
        if (preparer := _preparer_of(ctx)) is not None:
            preparer.admit(tool_def.name)
        return await super().before_tool_validate(ctx, call=call, tool_def=tool_def, args=args)

    def get_instructions(self) -> Any:
        """Return what adds the instructions of the skills of the thread's own run, behind the agent's own."""
        return _skills_of_run

    def get_wrapper_model(self, model: Model) -> Model | None:
        """Return the model as one that is heard while it speaks, where somebody listens."""
        return aloud(model)

    async def prepare_tools(self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]) -> list[ToolDefinition]:
        """Let pydantic-ai's own `requires_approval` be what it says here too: asked by the thread, before the call."""
        tool_defs = await super().prepare_tools(ctx, tool_defs)
        if current_drive() is None:
            return tool_defs
        return [_asked_by_the_thread(tool) if tool.kind == "unapproved" else tool for tool in tool_defs]

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


def _skills_of_run(ctx: RunContext[Any]) -> str | None:
    drive = current_drive()
    return drive.skills if drive is not None and ctx.run_id == drive.run_id else None


class _Backend(DurableOperationBackend[Any]):
    """Binds pydantic-ai's operations to steps of the run that is driven."""

    def bind(self, operation: DurableOperation[Any, Any, Any]) -> BoundStep:
        """Return the operation as a step."""
        return BoundStep(operation)

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


def _preparer_of(ctx: RunContext[Any]) -> Preparer | None:
    """Return what prepares the turns of this run, if it is a thread's own and not that of a sub-agent."""
    drive = current_drive()
    return drive.control.preparer if drive is not None and ctx.run_id == drive.run_id else None


def _asked_by_the_thread(tool: ToolDefinition) -> ToolDefinition:
    metadata = dict(tool.metadata or {})
    metadata[OPTIONS_KEY] = {**metadata.get(OPTIONS_KEY, {}), "needs_approval": True}
    return dataclasses.replace(tool, kind="function", metadata=metadata)
