"""What a type checker knows of agents, from their declaration to their answers; `make check` checks it.

Each `pyright: ignore` stands for a mistake that must be found: were it not, the comment itself would be reported.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

import msgspec
from pydantic import BaseModel
from pydantic_ai import Agent, RunContext

from clew.actors import ActorSystem
from clew.actors.agent import AgentDefinition, AgentSet, Answer, Run, StateChanges, Thread, define_agent
from clew.journal import MemoryJournal


class Shop:
    """What the tools of an agent work with."""


class Place(BaseModel):
    """What an agent answers with."""

    name: str = ""


class Plan(BaseModel):
    """A state."""

    steps: list[str] = []


class Totals(msgspec.Struct):
    """Another one."""

    cents: int = 0


class Notes(TypedDict):
    """And another one."""

    notes: list[str]


def sell(ctx: RunContext[Shop], article: str) -> str:
    """Sell something."""
    return f"{article} of {ctx.deps!r}"


support = define_agent(
    "support", model="test", tools=[sell], output=Place, deps_type=Shop, deps=Shop(), state_type=Plan
)
plain = define_agent("plain", model="test")
by_schema = define_agent("by_schema", model="test", state_type={"type": "object"})
by_struct = define_agent("by_struct", model="test", state_type=Totals)
by_dict = define_agent("by_dict", model="test", state_type=Notes)
by_list = define_agent("by_list", model="test", state_type=list[int])
by_union = define_agent("by_union", model="test", state_type=Plan | Place)
brought = AgentDefinition(agent=Agent("test", name="brought", output_type=Place), state_type=Plan)
untyped = AgentDefinition(agent=Agent("test", name="untyped"))


class Team(AgentSet):
    """Some of them."""

    support = support
    plain = plain
    own = Agent("test", name="own", output_type=Place)

    def __init__(self, shop: Shop) -> None:
        self.seller = define_agent("seller", model="test", deps_type=Shop, deps=shop)


def check_definitions() -> None:
    """A definition knows its dependencies, its output and its state."""
    assert_type(support, AgentDefinition[Shop, Place, Plan])
    assert_type(plain, AgentDefinition[None, str, Any])
    assert_type(by_schema, AgentDefinition[None, str, Any])
    assert_type(by_struct, AgentDefinition[None, str, Totals])
    assert_type(by_dict, AgentDefinition[None, str, Notes])
    assert_type(by_list, AgentDefinition[None, str, list[int]])
    assert_type(by_union, AgentDefinition[None, str, Any])
    assert_type(brought, AgentDefinition[object, Place, Plan])
    assert_type(untyped, AgentDefinition[object, str, Any])


def check_threads(system: ActorSystem) -> None:
    """So does its thread."""
    thread = system.thread(support, "t")
    assert_type(thread, Thread[Place, Plan])
    assert_type(thread.run("Hello"), Run[Place])
    assert_type(thread.run("Hello").result(), Answer[Place])
    assert_type(thread.state(), Plan | None)
    assert_type(thread.state(Totals), Totals | None)
    assert_type(thread.state_json(), Any)
    assert_type(thread.watch_state(), StateChanges[Plan])
    assert_type(thread.watch_state(Totals), StateChanges[Totals])
    assert_type(system.thread(plain, "t").state(), Any)
    assert_type(system.thread(by_schema, "t").state(), Any)
    assert_type(system.thread(by_struct, "t").state(), Totals | None)
    assert_type(system.thread(Team.own, "t"), Thread[Place])
    assert_type(system.thread(Team.own, "t").state(), Any)


def check_sets() -> None:
    """A system gives back the set that it was given, and its agents with their types."""
    with ActorSystem(MemoryJournal(), agents=Team(Shop())) as system:
        assert_type(system, ActorSystem[Team])
        assert_type(system.agents, Team)
        assert_type(system.agents.support, AgentDefinition[Shop, Place, Plan])
        assert_type(system.agents.seller, AgentDefinition[Shop, str])
        assert_type(system.agents["support"], AgentDefinition[Any, Any])
        assert_type(system.thread(system.agents.support, "t").run("Hello").result().output, Place)
        assert_type(system.thread(system.agents.own, "t").run("Hello").result().output, Place)
        system.agents.suport  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        takes_any(system)
        takes_team(system)


def check_lists() -> None:
    """A list has its agents by name."""
    with ActorSystem(MemoryJournal(), agents=[support, plain, Team.own]) as system:
        assert_type(system, ActorSystem)
        assert_type(system.agents, AgentSet)
        assert_type(system.agents["support"], AgentDefinition[Any, Any])
        takes_any(system)
        takes_team(system)  # pyright: ignore[reportArgumentType]


def check_mistakes() -> None:
    """What does not fit together is found where it is written."""
    define_agent("x", model="test", deps_type=Shop, deps_for=Shop)  # pyright: ignore[reportArgumentType]
    define_agent("x", model="test", max_turn=3)  # pyright: ignore[reportCallIssue]
    ActorSystem(MemoryJournal(), agents=["support"])  # pyright: ignore[reportArgumentType]


@dataclass
class Kept:
    """A user's own class over any system, or over one."""

    any_system: ActorSystem
    system: ActorSystem[Team]

    def places(self) -> Iterator[Place]:
        """Ask the one that is known."""
        yield self.system.thread(self.system.agents.support, "t").run("Hello").result().output


def takes_any(system: ActorSystem) -> None:
    """Take a system, whatever its agents."""
    assert_type(system.agents, AgentSet)


def takes_team(system: ActorSystem[Team]) -> None:
    """Take a system with these agents."""
    assert_type(system.agents, Team)
