"""A tool that calls others: which they are, for whoever looks at what an agent may do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.tools import Tool
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset

from .options import OPTIONS_KEY

__all__ = ["COMPOSED", "Composed", "composed_of", "declared_tools", "may_ask_people"]

COMPOSED = "tools"
"""The option of a tool under which those that it calls are kept."""


class Composed:
    """The tools that a tool calls, by the names it calls them; shown by their names alone wherever metadata is."""

    def __init__(self, tools: Mapping[str, Tool[Any]]) -> None:
        self.tools = dict(tools)

    def __repr__(self) -> str:
        return f"Composed({', '.join(self.tools)})"


def composed_of(metadata: Mapping[str, Any] | None) -> Mapping[str, Tool[Any]]:
    """Return the tools that a tool with this metadata calls; empty for an ordinary one."""
    found = (metadata or {}).get(OPTIONS_KEY, {}).get(COMPOSED)
    return found.tools if isinstance(found, Composed) else {}


def declared_tools(agent: Agent[Any, Any]) -> Iterator[Tool[Any]]:
    """Yield the tools that are declared with an agent, without those within them."""
    found: list[Tool[Any]] = []

    def look(toolset: AbstractToolset[Any]) -> None:
        if isinstance(toolset, FunctionToolset):
            found.extend(toolset.tools.values())

    for toolset in agent.toolsets:
        toolset.apply(look)
    yield from found


def may_ask_people(metadata: Mapping[str, Any] | None) -> bool:
    """Whether people may be asked about a call of a tool with this metadata, or of one that it calls."""
    if "needs_approval" in ((metadata or {}).get(OPTIONS_KEY) or {}):
        return True
    return any(
        tool.requires_approval or tool.prepare is not None or may_ask_people(tool.metadata)
        for tool in composed_of(metadata).values()
    )
