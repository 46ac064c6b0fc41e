"""What an agent says of its loop: when it stops, how turns are prepared, how calls are repaired."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pydantic_ai import Agent
from pydantic_ai.settings import ToolChoice, ToolOrOutput
from pydantic_ai.toolsets import AbstractToolset, CombinedToolset, FunctionToolset

from .declared import check_function
from .model_choice import named_models
from .preparing import Preparer, Turns, chosen_names
from .repairing import Repairer
from .stopping import StopCondition, Stopper, conditions_of, tools_named

if TYPE_CHECKING:
    from .definition import AgentDefinition

__all__ = ["NO_CONTROL", "LoopControl", "RunControl", "StopWhen"]

StopWhen = StopCondition | Sequence[StopCondition]
"""A condition, or several of which any one is enough."""


class RunControl(NamedTuple):
    """What belongs to one driven run of it; None is what an agent says nothing of."""

    stopper: Stopper | None = None
    preparer: Preparer | None = None
    repairer: Repairer | None = None


NO_CONTROL = RunControl()


class LoopControl:
    """The options of an agent about its loop.

    Raises:
        ValueError, TypeError: one of them is wrong; says which, and of which agent.
    """

    def __init__(self, definition: AgentDefinition[Any, Any], *, needed: Collection[str] = ()) -> None:
        """Check the options of a definition; `needed` are tools that it got with its other options."""
        name, agent = definition.name, definition.agent
        self.models = named_models(name, definition.models)
        try:
            self._conditions = conditions_of(definition.stop_when)
        except (TypeError, ValueError) as error:
            raise type(error)(f"agent {name!r}, stop_when: {error}") from error
        for option in ("prepare_step", "repair_tool_call"):
            if (function := getattr(definition, option)) is not None:
                check_function(f"agent {name!r}: {option}", function, may_be_async=True)
        active_tools, tool_choice = definition.active_tools, definition.tool_choice
        declared = _Declared(agent)
        _check_active(declared, active_tools, needed)
        _check_choice(declared, tool_choice, active_tools, ends=bool(self._conditions or definition.prepare_step))
        declared.check("stop_when", tools_named(self._conditions), with_output=True)
        self._turns = Turns(
            agent=name,
            prepare_step=definition.prepare_step,
            active_tools=active_tools,
            tool_choice=tool_choice,
            declared=declared.names,
        )
        self._prepares = any(option is not None for option in (definition.prepare_step, active_tools, tool_choice))
        self._repair = definition.repair_tool_call

    def of_run(self) -> RunControl:
        """Return what a run that is driven now needs of it."""
        return RunControl(
            Stopper(self._conditions) if self._conditions else None,
            Preparer(self._turns) if self._prepares else None,
            None if self._repair is None else Repairer(self._turns.agent, self._repair),
        )


class _Declared:
    """The tools that are declared with an agent; `all_known` says whether it can have no others."""

    def __init__(self, agent: Agent[Any, Any]) -> None:
        self.agent = agent
        self.all_known = True
        names: set[str] = set()
        for toolset in agent.toolsets:
            self._look(toolset, names)
        self.names = frozenset(names)

    def _look(self, toolset: AbstractToolset[Any], names: set[str]) -> None:
        if isinstance(toolset, CombinedToolset):
            for one in toolset.toolsets:
                self._look(one, names)
        elif isinstance(toolset, FunctionToolset) and type(toolset).get_tools is FunctionToolset.get_tools:
            names.update(toolset.tools)
        else:
            # Tools of a server, of a function, or under other names are known when a turn begins.
            self.all_known = False

    def check(self, option: str, names: Collection[str], *, with_output: bool) -> None:
        """Refuse names of tools that the agent is known not to have; tools for its output may have any name."""
        if not self.all_known or (with_output and self.agent.output_type is not str):
            return
        if unknown := sorted(set(names) - self.names):
            raise ValueError(
                f"agent {self.agent.name!r}: {option} names {', '.join(unknown)}, and it has no such tool; "
                f"its tools are {', '.join(sorted(self.names)) or 'none'}"
            )


def _check_active(declared: _Declared, active: Collection[str] | None, needed: Collection[str]) -> None:
    name = declared.agent.name
    if active is None:
        return
    if isinstance(active, str) or not isinstance(cast("object", active), Collection):
        raise TypeError(f"agent {name!r}: active_tools is a list of names of tools, not {active!r}")
    declared.check("active_tools", active, with_output=False)
    if left_out := sorted(set(needed) - set(active)):
        raise ValueError(
            f"agent {name!r}: active_tools leaves out {', '.join(left_out)}, which it gets with its other options and "
            "cannot do without; name it too, or leave out active_tools"
        )


def _check_choice(declared: _Declared, choice: ToolChoice, active: Collection[str] | None, *, ends: bool) -> None:
    name = declared.agent.name
    if not isinstance(cast("object", choice), list | ToolOrOutput | None) and choice not in (
        "auto",
        "none",
        "required",
    ):
        raise TypeError(
            f"agent {name!r}: tool_choice is 'auto', 'none', 'required', a list or ToolOrOutput, not {choice!r}"
        )
    names = chosen_names(choice)
    declared.check("tool_choice", names, with_output=not isinstance(choice, ToolOrOutput))
    if active is not None and declared.agent.output_type is str and (hidden := sorted(set(names) - set(active))):
        raise ValueError(f"agent {name!r}: tool_choice names {', '.join(hidden)}, which active_tools leaves out")
    forced = choice == "required" or (isinstance(choice, list) and choice and declared.agent.output_type is str)
    if forced and not ends:
        raise ValueError(
            f"agent {name!r}: with tool_choice={choice!r} it calls a tool in every turn and never answers; "
            "give it stop_when, or force the tool in some turns only: prepare_step"
        )
