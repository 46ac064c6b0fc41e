"""Declaring an agent in one place: `define_agent` makes the pydantic-ai agent and what a thread needs to drive it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, TypedDict, TypeVar, Unpack, cast

from pydantic_ai import Agent, Tool
from pydantic_ai.models import Model
from pydantic_ai.output import OutputSpec
from pydantic_ai.settings import ModelSettings, ToolChoice
from pydantic_ai.toolsets import AbstractToolset
from typing_extensions import TypeVar as TypeVarWithDefault

from .artifacts import ResultCap
from .budget import Budget
from .compaction import Compaction
from .control import StopWhen
from .declared import is_async, tools_of
from .definition import AgentDefinition, Approvers, InstructionsFunction, OnSettled, StepFinished
from .json_output import output_of
from .knowledge import Knowledge, Source
from .model_choice import ModelChoice, model_of
from .preparing import PrepareStep
from .repairing import RepairToolCall
from .scope import current_drive
from .sealing import Seal
from .skills import Skill
from .tool_step import RunNow

__all__ = ["AgentOptions", "Instructions", "define_agent"]

D = TypeVar("D")
Out = TypeVarWithDefault("Out", default=Any)
State = TypeVarWithDefault("State", default=Any)

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
    approvers: Approvers | None
    policy_version: str
    on_settled: OnSettled | None
    seal: Seal | None
    state_defaults: Mapping[str, Any] | None
    state_upcast: Callable[[Any], Any] | None
    compaction: Compaction | None
    result_cap: ResultCap | None
    budget: Budget | None
    skills: Sequence[Skill]
    knowledge: Knowledge | Source | None
    stop_when: StopWhen | None
    prepare_step: PrepareStep | None
    models: Mapping[str, ModelChoice] | None
    active_tools: Collection[str] | None
    tool_choice: ToolChoice
    repair_tool_call: RepairToolCall | None


def define_agent(
    name: str,
    *,
    model: ModelChoice | Callable[[Mapping[str, str]], ModelChoice],
    instructions: Instructions | None = None,
    tools: Iterable[Tool[D] | Callable[..., Any]] = (),
    toolsets: Sequence[AbstractToolset[D]] = (),
    output: OutputSpec[Out] | dict[str, Any] = str,
    deps_type: type[D] = NoneType,
    deps: D | None = None,
    deps_for: Callable[[RunNow], D] | None = None,
    state_type: type[State] | UnionType | Mapping[str, Any] | None = None,
    max_turns: int = 50,
    settings: ModelSettings | None = None,
    on_step_finish: Callable[[StepFinished], None] | None = None,
    **options: Unpack[AgentOptions],
) -> AgentDefinition[D, Out, State]:
    """Declare an agent in one place: its model, its tools, what it answers with.

    `model` is a pydantic-ai model name, a model, a list of them (where one fails, the next is asked), or a function of
    the environment variables that returns one of these. `output` is a type, or a JSON schema that answers must fit.
    `tools` are functions or pydantic-ai tools; two of the same name are refused. `toolsets` are whole sets of them,
    pydantic-ai's own or with an id. The other options are those of `AgentDefinition`.

    Raises:
        ValueError, TypeError: the declaration is wrong; the message says where.
    """
    chosen, output_type, listed = _chosen(name, model), output_of(name, output), tools_of(f"agent {name!r}", tools)
    thunk = None if instructions is None or isinstance(instructions, str) else instructions
    try:
        agent: Agent[D, Out] = Agent(
            chosen,
            name=name,
            output_type=output_type,
            instructions=instructions if isinstance(instructions, str) else None,
            deps_type=deps_type,
            model_settings=settings,
            tools=listed,
            toolsets=list(toolsets),
        )
    except Exception as error:
        # An unknown model, a provider that is not installed, a key that is missing: pydantic-ai names no agent.
        raise ValueError(f"agent {name!r} cannot be made: {type(error).__name__}: {error}") from error
    if thunk is not None:
        # Resolved and recorded by the thread at the start of the run; here it is only looked up.
        agent.instructions(_recorded_instructions)
    return AgentDefinition(
        agent=agent,
        deps=deps,
        deps_for=deps_for,
        state_type=state_type,
        max_turns=max_turns,
        instructions=thunk,
        on_step_finish=on_step_finish,
        **options,
    )


def _recorded_instructions() -> str | None:
    drive = current_drive()
    return None if drive is None else drive.instructions


def _chosen(name: str, model: ModelChoice | Callable[[Mapping[str, str]], ModelChoice]) -> Model[Any] | str:
    """Return the model that is asked, calling a function of the environment for it."""
    if not callable(model) or isinstance(model, Model):
        return model_of(name, cast("ModelChoice", model))
    if is_async(model):
        raise TypeError(
            f"agent {name!r}: the function that returns its model is not awaited; give one that is not async"
        )
    try:
        made = model(os.environ)
    except Exception as error:
        raise ValueError(f"agent {name!r}: its model could not be made: {type(error).__name__}: {error}") from error
    return model_of(name, made)
