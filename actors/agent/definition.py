"""What an agent is: a pydantic-ai agent with what a thread needs to drive it, checked where it is declared."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Generic, TypeVar, cast

import msgspec
from pydantic_ai import Agent
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model
from pydantic_ai.settings import ToolChoice
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset
from typing_extensions import TypeVar as TypeVarWithDefault

from ...journal import encode_exact
from ..agent_set import AGENT_NAME
from ..thread import CONCURRENT, StartRun
from .approval import ApprovalTerms
from .artifact_text import ResultLimits
from .artifacts import READ_ARTIFACT, ResultCap, limits_of
from .budget import Budget
from .compaction import Compaction, Compactor
from .control import LoopControl, StopWhen
from .decision import PendingApproval
from .declared import check_distinct, check_function, check_kinds, check_methods, check_recorded, check_times
from .durability import DurableSteps
from .knowledge import Knowledge, Source, knowledge_of
from .model_choice import ModelChoice
from .operation import check_tool_name
from .options import SECONDS_MAX, ToolPolicy
from .preparing import PrepareStep
from .recorded_run import RecordedRun
from .repairing import RepairToolCall
from .sealing import NO_SEAL, Seal
from .skills import Skill, absorb
from .state_model import StateModel
from .tool_step import RunNow

__all__ = [
    "AgentDefinition",
    "Approvers",
    "InstructionsFunction",
    "OnSettled",
    "StepFinished",
    "notify",
    "register",
    "resolve",
]

D = TypeVar("D")
Out = TypeVar("Out")
State = TypeVarWithDefault("State", default=Any)

MODEL_ID = "clew:model"
"""What a run calls the model of its definition."""

_TIMES = ("queue_timeout_s", "run_timeout_s", "turn_timeout_s")

InstructionsFunction = Callable[[RunNow], str] | Callable[[RunNow], Awaitable[str]]

Approvers = Callable[[PendingApproval, str | None], bool]
"""Whether somebody may decide an approval: true admits, and anything else, or an exception, does not."""

OnSettled = Callable[[Any], object]
"""Is told what became of an approval; may be async."""

log = logging.getLogger("clew")


@dataclass(frozen=True)
class StepFinished:
    """A step that was recorded just now; what `on_step_finish` gets, once for each step, never on replay."""

    thread: str
    run: str
    step: str


@dataclass(frozen=True, kw_only=True)
class AgentDefinition(Generic[D, Out, State]):
    """A pydantic-ai agent and what a thread needs to drive it.

    - `deps` is given to every run, or `deps_for(run)` makes it for each: after a restart too, so it does not come
      with the request.
    - `max_turns` is how many turns of the model a run may take; then it ends with `stopped == "max_turns"`.
    - `instructions` is a function that is called once at the start of a run and recorded; its text is added to the
      agent's own instructions.
    - `model` drives the agent in place of its own model.
    - `on_step_finish` is called after each step that was recorded; its exceptions do no harm.
    - `on_concurrent_run` says what becomes of a run that is asked for while another one is open: it is refused
      (`"reject"`), takes the other's place (`"replace"`) or waits (`"queue"`; at most `queue_max` do, each at most
      `queue_timeout_s` seconds).
    - `run_timeout_s` bounds a run from its start, over crashes and waits too; `turn_timeout_s` one turn of the model.
    - `recoveries_max`: a run whose process crashed that often without a new step in between is parked.
    - `initial_state` is what the synced state of a new thread begins with, and `state_type` (a pydantic model, a
      msgspec struct, a JSON schema) what it must fit. Threads of earlier versions are read as today's: `state_upcast`
      leads a stored state up to the present shape, again and again, so one that has it stays as it is; and
      `state_defaults` are laid under it at its top level. Neither changes what is stored.
    - `approvers(approval, by)` says who may decide an approval; by default the thread's owner. `policy_version` names
      the rules under which approvals are asked for, and is part of what is approved.
    - `on_settled` is told what became of each approval, once; its exceptions do no harm.
    - `seal` keeps the arguments of approvals unreadable in the journal.
    - `compaction` has the older part of a long conversation summarised, in what the model is sent: see `Compaction`.
    - `result_cap` limits how much of a tool's result the model gets at once; the rest is kept: see `ResultCap`.
    - `skills` are instructions, tools and knowledge that it shares with other agents, and `knowledge` is looked up at
      the start of each run: see `define_skill` and `Knowledge`. The tools are added to the agent.
    - `budget` limits the tokens and the money of a run, a thread and an owner: see `Budget`.
    - `stop_when` is a condition, or several of which any one is enough, under which a run takes no further turn after a
      turn's tools have run: `stopped == "stop_condition"`, with no output.
    - `prepare_step(start)` says what is different about a turn: see `TurnChange`; `models` are the models that it may
      choose from, by name. It runs again on replay, as stop conditions do, so it looks only at what it is given.
    - `active_tools` are the only tools that the model may call, and `tool_choice` is pydantic-ai's.
    - `repair_tool_call(broken)` corrects a call that cannot be made, before it is recorded: see `BrokenCall`.

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
    on_concurrent_run: str = "reject"
    queue_max: int = 5
    queue_timeout_s: float = 12 * 3600.0
    run_timeout_s: float | None = None
    turn_timeout_s: float | None = None
    recoveries_max: int = 5
    initial_state: Any = None
    state_type: type[State] | UnionType | Mapping[str, Any] | None = None
    approvers: Approvers | None = None
    policy_version: str = "1"
    on_settled: OnSettled | None = None
    seal: Seal | None = None
    state_defaults: Mapping[str, Any] | None = None
    state_upcast: Callable[[Any], Any] | None = None
    compaction: Compaction | None = None
    result_cap: ResultCap | None = None
    budget: Budget | None = None
    skills: Sequence[Skill] = ()
    knowledge: Knowledge | Source | None = None
    stop_when: StopWhen | None = None
    prepare_step: PrepareStep | None = None
    models: Mapping[str, ModelChoice] | None = None
    active_tools: Collection[str] | None = None
    tool_choice: ToolChoice = None
    repair_tool_call: RepairToolCall | None = None
    state_model: StateModel = field(init=False, repr=False, compare=False)
    control: LoopControl = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the declaration, so that a mistake shows where it was made."""
        if not isinstance(cast("object", self.agent), Agent):
            raise TypeError(f"an agent definition is of a pydantic_ai.Agent, not of {type(self.agent).__name__}")
        name = self.agent.name
        if not isinstance(name, str) or not AGENT_NAME.fullmatch(name):
            raise ValueError(f"an agent needs a name of letters, digits, _ and - (at most 64), not {name!r}")
        self._check_kinds(name)
        object.__setattr__(self, "knowledge", knowledge_of(self.knowledge))
        absorb(self.agent, self.skills)
        if self.max_turns < 1:
            raise ValueError(f"agent {name!r}: max_turns is at least 1, not {self.max_turns}")
        if self.deps is not None and self.deps_for is not None:
            raise ValueError(f"agent {name!r}: give deps or deps_for, not both")
        self._check_limits(name)
        model = StateModel(self.state_type, defaults=self.state_defaults, upcast=self.state_upcast)
        object.__setattr__(self, "state_model", model)
        if self.initial_state is not None:
            model.check_for(f"agent {name!r}, initial_state")(self.initial_state)
        for option in ("deps_for", "instructions", "on_step_finish", "approvers", "on_settled"):
            if (value := getattr(self, option)) is not None:
                awaited = option in ("instructions", "on_settled")
                check_function(f"agent {name!r}: {option}", value, may_be_async=awaited)
        if self.state_upcast is not None:
            check_function(f"agent {name!r}: state_upcast", self.state_upcast)
        if (self.model is not None or self.models) and DurableSteps.from_agent(self.agent) is not None:
            raise ValueError(f"agent {name!r}: it brings its own DurableSteps; give the model to that: models={{...}}")
        needed = () if self.limits.read_max is None else (READ_ARTIFACT,)
        object.__setattr__(self, "control", LoopControl(self, needed=needed))
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
        models = self.control.models
        return (DurableSteps(models=models if self.model is None else {**models, MODEL_ID: self.model}),)

    @property
    def terms(self) -> ApprovalTerms:
        """The terms under which its calls are approved."""
        return ApprovalTerms(self.name, self.policy_version, self.on_settled is not None, self.seal or NO_SEAL)

    @property
    def turn_policy(self) -> ToolPolicy:
        """How a turn of its model is run."""
        return ToolPolicy(attempts=1, timeout_s=self.turn_timeout_s)

    @property
    def limits(self) -> ResultLimits:
        """How long results of its tools may be; the agent has the tool to read on where that is limited."""
        return limits_of(self.agent, self.result_cap)

    def compactor(self, recorded: RecordedRun) -> Compactor | None:
        """Return what shortens the requests of a run; None where they are sent as they are."""
        if self.compaction is None:
            return None
        return Compactor(self.compaction, self.model or self.agent.model, recorded.brief, recorded.prompts)

    def start(
        self, run: str, prompt: msgspec.Raw, *, owner: str | None, title: str | None, at: int, concurrent: str | None
    ) -> StartRun:
        """Return the command that starts a run of this agent."""
        state = encode_exact(self.initial_state, what=f"the initial state of agent {self.name!r}")
        return StartRun(
            run,
            self.name,
            prompt,
            owner,
            title,
            at,
            concurrent=concurrent or self.on_concurrent_run,
            queue_max=self.queue_max,
            queue_for=round(self.queue_timeout_s * 1e9),
            timeout=None if self.run_timeout_s is None else round(self.run_timeout_s * 1e9),
            state=state,
            limits=None if self.budget is None else self.budget.thread,
        )

    def _check_kinds(self, name: str) -> None:
        whole = ("max_turns", "queue_max", "recoveries_max")
        kinds = {
            **{option: (getattr(self, option), int) for option in whole},
            **{option: (getattr(self, option), float) for option in _TIMES},
            "model": (self.model, Model),
            "policy_version": (self.policy_version, str),
            "compaction": (self.compaction, Compaction),
            "result_cap": (self.result_cap, ResultCap),
            "budget": (self.budget, Budget),
        }
        check_kinds(f"agent {name!r}", kinds)
        if self.seal is not None:
            check_methods(f"agent {name!r}: seal", self.seal, "close", "open")

    def _check_limits(self, name: str) -> None:
        if self.on_concurrent_run not in CONCURRENT:
            raise ValueError(
                f"agent {name!r}: on_concurrent_run is one of {', '.join(CONCURRENT)}, not {self.on_concurrent_run!r}"
            )
        for option, least in (("queue_max", 1), ("recoveries_max", 1)):
            if getattr(self, option) < least:
                raise ValueError(f"agent {name!r}: {option} is at least {least}, not {getattr(self, option)}")
        check_times(f"agent {name!r}", run_s=self.run_timeout_s, turn_s=self.turn_timeout_s)
        for option in _TIMES:
            value = getattr(self, option)
            if value is not None and not 0 < value <= SECONDS_MAX:
                raise ValueError(f"agent {name!r}: {option} is more than 0 and at most a hundred years, not {value}")

    def _check_durable(self, name: str) -> None:
        """Bind the agent as a run will, so that a toolset without an id is refused here and not in the first run."""
        limits_of(self.agent, self.result_cap)
        try:
            for capability in self.capabilities:
                capability.for_agent(self.agent)
            for toolset in self.agent.toolsets:
                toolset.apply(_check_names)
            check_distinct(f"agent {name!r}", self.agent)
        except UserError as error:
            raise ValueError(f"agent {name!r} cannot be driven by a thread: {error}") from error


def register(agents: Iterable[Agent[Any, Any] | AgentDefinition[Any, Any]]) -> dict[str, AgentDefinition[Any, Any]]:
    """Return the definitions by name.

    Raises:
        ValueError: two agents share a name, or a plain agent cannot be driven.
        TypeError: one is no agent.
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
    check_recorded(toolset)
    if isinstance(toolset, FunctionToolset):
        for tool in toolset.tools:
            check_tool_name(tool)
