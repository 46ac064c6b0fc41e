"""The joint to pydantic-ai: a capability that makes every model request and tool call of a run a named step.

With `operation.py` the only use of `pydantic_ai.durable_exec`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, cast

from pydantic_ai import RunContext
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    DurabilityEngineSpec,
    DurableOperation,
    DurableOperationBackend,
    replay_scope,
)
from pydantic_ai.models import Model, ModelRequestContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ToolsetTool

from .operation import BoundStep, gated_tools
from .options import OPTIONS_KEY
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
        """Make what is sent the same on every replay and valid for a provider; stop at the limit of turns."""
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
        if ctx.run_id == drive.run_id and drive.turns_max is not None and ctx.run_step > drive.turns_max:
            raise RunStopped("max_turns", ctx.messages, ctx.usage)
        request_context.messages = valid_for_provider(request_context.messages)
        return request_context

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


def _asked_by_the_thread(tool: ToolDefinition) -> ToolDefinition:
    metadata = dict(tool.metadata or {})
    metadata[OPTIONS_KEY] = {**metadata.get(OPTIONS_KEY, {}), "needs_approval": True}
    return dataclasses.replace(tool, kind="function", metadata=metadata)
