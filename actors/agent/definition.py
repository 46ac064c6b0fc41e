"""What an agent is: a pydantic-ai agent with what a thread needs to drive it, checked where it is declared."""

from __future__ import annotations

import inspect
import logging
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, Generic, TypeVar, cast

from pydantic_ai import Agent, Tool
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model
from pydantic_ai.output import OutputSpec
from pydantic_ai.settings import ModelSettings
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset

from .durability import DurableSteps, check_tool_name
from .scope import current_drive
from .tool_step import RunNow

__all__ = ["AgentDefinition", "Instructions", "InstructionsFunction", "StepFinished", "define_agent", "register"]

D = TypeVar("D")
Out = TypeVar("Out")

MODEL_ID = "clew:model"
"""What a run calls the model of its definition."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

InstructionsFunction = Callable[[RunNow], str] | Callable[[RunNow], Awaitable[str]]

Instructions = str | InstructionsFunction

log = logging.getLogger("clew")


@dataclass(frozen=True)
class StepFinished:
    """A step that was recorded just now; what `on_step_finish` gets, once for each step, never on replay."""

    thread: str
    run: str
    step: str


@dataclass(frozen=True, kw_only=True)
class AgentDefinition(Generic[D, Out]):
    """A pydantic-ai agent and what a thread needs to drive it.

    - `deps` is given to every run, or `deps_for(run)` makes it for each: after a restart too, so it does not come
      with the request.
    - `max_turns` is how many turns of the model a run may take; then it ends with `stopped == "max_turns"`.
    - `instructions` is a function that is called once at the start of a run and recorded; its text is added to the
      agent's own instructions.
    - `model` drives the agent in place of its own model.
    - `on_step_finish` is called after each step that was recorded; its exceptions do no harm.

    Raises:
        ValueError: the agent has no name, or one outside `[A-Za-z0-9_-]`, or an option is out of range.
        TypeError: an option is not what it should be; names it.
    """

    agent: Agent[D, Out]
    deps: D | None = None
    deps_for: Callable[[RunNow], D] | None = None
    max_turns: int = 50
    instructions: InstructionsFunction | None = None
    model: Model | None = None
    on_step_finish: Callable[[StepFinished], None] | None = None

    def __post_init__(self) -> None:
        """Check the declaration, so that a mistake shows where it was made."""
        name = self.agent.name
        if not name or not _NAME.fullmatch(name):
            raise ValueError(f"an agent needs a name of letters, digits, _ and - (at most 64), not {name!r}")
        if self.max_turns < 1:
            raise ValueError(f"agent {name!r}: max_turns is at least 1, not {self.max_turns}")
        if self.deps is not None and self.deps_for is not None:
            raise ValueError(f"agent {name!r}: give deps or deps_for, not both")
        for option in ("deps_for", "instructions", "on_step_finish"):
            if (value := getattr(self, option)) is not None and not callable(value):
                raise TypeError(f"agent {name!r}: {option} is a function, not {type(value).__name__}")
        if self.model is not None and DurableSteps.from_agent(self.agent) is not None:
            raise ValueError(f"agent {name!r}: it brings its own DurableSteps; give the model to that: models={{...}}")
        self._check_durable(name)

    @property
    def name(self) -> str:
        """The name that runs are recorded under."""
        return self.agent.name or ""

    @property
    def capabilities(self) -> Sequence[DurableSteps]:
        """What to add to a run so that its steps are recorded; nothing if the agent has it already."""
        if DurableSteps.from_agent(self.agent) is not None:
            return ()
        return (DurableSteps(models={} if self.model is None else {MODEL_ID: self.model}),)

    def _check_durable(self, name: str) -> None:
        """Bind the agent as a run will, so that a toolset without an id is refused here and not in the first run."""
        try:
            for capability in self.capabilities:
                capability.for_agent(self.agent)
            for toolset in self.agent.toolsets:
                toolset.apply(_check_names)
        except UserError as error:
            raise ValueError(f"agent {name!r} cannot be driven by a thread: {error}") from error


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
    )


def register(agents: Iterable[Agent[Any, Any] | AgentDefinition[Any, Any]]) -> dict[str, AgentDefinition[Any, Any]]:
    """Return the definitions by name.

    Raises:
        ValueError: two agents share a name, or a plain agent cannot be driven.
    """
    definitions: dict[str, AgentDefinition[Any, Any]] = {}
    for agent in agents:
        definition = agent if isinstance(agent, AgentDefinition) else AgentDefinition(agent=agent)
        if definition.name in definitions:
            raise ValueError(f"two agents are named {definition.name!r}; runs are recorded under the name")
        definitions[definition.name] = definition
    return definitions


def notify(definition: AgentDefinition[Any, Any], finished: StepFinished) -> None:
    """Tell the definition's callback about a step; what it raises is logged and harms nothing."""
    if definition.on_step_finish is None:
        return
    try:
        definition.on_step_finish(finished)
    except Exception:  # a side channel must not decide about a run
        log.exception("on_step_finish of agent %s raised at %s", definition.name, finished.step)


async def resolve(thunk: InstructionsFunction, run: RunNow) -> str:
    """Call an instructions function, awaiting it where needed."""
    text = thunk(run)
    return await text if inspect.isawaitable(text) else text


def _check_names(toolset: AbstractToolset[Any]) -> None:
    if isinstance(toolset, FunctionToolset):
        for tool in toolset.tools:
            check_tool_name(tool)


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
