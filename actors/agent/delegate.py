"""An agent as a tool of another one: a run of its own in a thread of its own, which the caller's run waits for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pydantic_ai import Agent, RunContext, Tool
from pydantic_ai.durable_exec import JSON_CODEC
from pydantic_ai.usage import RunUsage

from .composed import composed_of, declared_tools
from .definition import AgentDefinition
from .options import OPTIONS_KEY, SECONDS_MAX
from .tool_step import tool_step

__all__ = ["DELEGATE_S", "agent_as_tool", "check_delegates"]

DELEGATE_S = 300.0
"""How long the other agent may take, unless the tool says otherwise."""

_DELEGATE = "agent"


def agent_as_tool(
    agent: Agent[Any, Any] | AgentDefinition[Any, Any],
    *,
    name: str | None = None,
    description: str | None = None,
    timeout_s: float = DELEGATE_S,
) -> Tool[Any]:
    """Return a tool that asks another agent of the same system, and returns its answer.

    The other agent's run is in a thread of its own, which is found again however often the step is tried: there is one
    run for each call, with the owner of the calling thread. The calling run waits for it without anything of it in
    memory, and its result arrives as an event. After `timeout_s` the other run is cancelled and the model is told so;
    it is cancelled with the calling run too. What it used is counted in the calling run, also where it failed or was
    cancelled by somebody else; what is not known of one that took too long, is not.

    A run that failed, or that somebody cancelled, is told to the model as `{"kind": "child_failed", "message": ...}`
    (`child_cancelled`, `child_timed_out`, `child_refused`), and is not started again.

    Raises:
        ValueError: the agent has no name, or the time is not more than 0.
    """
    target = agent.name
    if not target:
        raise ValueError("an agent needs a name to be a tool of another one")
    if not 0 < timeout_s <= SECONDS_MAX:
        raise ValueError(
            f"agent {target!r} as a tool: timeout_s is more than 0 and at most a hundred years, not {timeout_s}"
        )

    initial_state = agent.initial_state if isinstance(agent, AgentDefinition) else None

    async def delegate(ctx: RunContext[Any], prompt: str) -> Any:
        answer = await tool_step().call_agent(target, prompt, timeout_s=timeout_s, initial_state=initial_state)
        if answer.usage is not None:
            ctx.usage.incr(JSON_CODEC.load(RunUsage, answer.usage))
        if answer.status == "done":
            return answer.output
        return {"kind": f"child_{answer.status}", "message": f"agent {target}: {answer.error}"}

    return Tool(
        delegate,
        name=name or f"ask_{target}",
        description=description or f"Ask the agent {target}, and get its answer.",
        metadata={OPTIONS_KEY: {"attempts": 1, _DELEGATE: target}},
        takes_ctx=True,
    )


def check_delegates(definitions: Mapping[str, AgentDefinition[Any, Any]]) -> None:
    """Refuse agents whose tools ask another one that is not among them.

    Raises:
        ValueError: names both.
    """
    for name, definition in definitions.items():
        for asked in _delegates(definition):
            if asked not in definitions:
                raise ValueError(f"agent {name!r} has agent {asked!r} as a tool, which is not here: register both")


def _delegates(definition: AgentDefinition[Any, Any]) -> list[str]:
    """Return the names of the agents that a definition's tools ask."""
    declared = list(declared_tools(definition.agent))
    tools = [*declared, *(within for tool in declared for within in composed_of(tool.metadata).values())]
    options = [(tool.metadata or {}).get(OPTIONS_KEY, {}) for tool in tools]
    return [cast("str", option[_DELEGATE]) for option in options if _DELEGATE in option]
