"""Declaring an agent in one place: `define_agent` makes the pydantic-ai agent and what a thread needs to drive it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from types import NoneType
from typing import Any, TypedDict, TypeVar, Unpack, cast

from pydantic_ai import Agent, Tool
from pydantic_ai.models import Model
from pydantic_ai.output import OutputSpec
from pydantic_ai.settings import ModelSettings

from .definition import AgentDefinition, Approvers, InstructionsFunction, OnSettled, StepFinished
from .scope import current_drive
from .sealing import Seal
from .tool_step import RunNow

__all__ = ["AgentOptions", "Instructions", "define_agent"]

D = TypeVar("D")
Out = TypeVar("Out")

Instructions = str | InstructionsFunction


class AgentOptions(TypedDict, total=False):
    """The options of an `AgentDefinition` that `define_agent` hands on as they are; their text is there."""

    on_concurrent_run: str
    queue_max: int
    queue_timeout_s: float
    run_timeout_s: float | None
    turn_timeout_s: float | None
    recoveries_max: int
    initial_state: Any
    state_type: Any
    approvers: Approvers | None
    policy_version: str
    on_settled: OnSettled | None
    seal: Seal | None
    state_defaults: Mapping[str, Any] | None
    state_upcast: Callable[[Any], Any] | None


def define_agent(
    name: str,
    *,
    model: Model | str | Callable[[Mapping[str, str]], Model | str],
    instructions: Instructions | None = None,
    tools: Iterable[Tool[D] | Callable[..., Any]] = (),
    output: OutputSpec[Out] = str,
    deps_type: type[D] = NoneType,
    deps: D | None = None,
    deps_for: Callable[[RunNow], D] | None = None,
    max_turns: int = 50,
    settings: ModelSettings | None = None,
    on_step_finish: Callable[[StepFinished], None] | None = None,
    **options: Unpack[AgentOptions],
) -> AgentDefinition[D, Out]:
    """Declare an agent in one place: its model, its tools, what it answers with.

    `model` is a pydantic-ai model name, a model, or a function of the environment variables that returns one.
    `tools` are functions or pydantic-ai tools; two of the same name are refused. The other options are those of
    `AgentDefinition`.

    Raises:
        ValueError, TypeError: the declaration is wrong; the message says where.
    """
    chosen = cast("Callable[[Mapping[str, str]], Model | str]", model)(os.environ) if _is_factory(model) else model
    thunk = None if instructions is None or isinstance(instructions, str) else instructions
    agent: Agent[D, Out] = Agent(
        cast("Model | str", chosen),
        name=name,
        output_type=output,
        instructions=instructions if isinstance(instructions, str) else None,
        deps_type=deps_type,
        model_settings=settings,
        tools=_distinct(name, list(tools)),
    )
    if thunk is not None:
        # Resolved and recorded by the thread at the start of the run; here it is only looked up.
        agent.instructions(_recorded_instructions)
    return AgentDefinition(
        agent=agent,
        deps=deps,
        deps_for=deps_for,
        max_turns=max_turns,
        instructions=thunk,
        on_step_finish=on_step_finish,
        **options,
    )


def _recorded_instructions() -> str | None:
    drive = current_drive()
    return None if drive is None else drive.instructions


def _is_factory(model: object) -> bool:
    return callable(model) and not isinstance(model, Model)


def _distinct(agent: str, tools: list[Any]) -> list[Any]:
    names = [tool.name if isinstance(tool, Tool) else getattr(tool, "__name__", repr(tool)) for tool in tools]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"agent {agent!r}: two tools are named {', '.join(twice)}")
    return tools
