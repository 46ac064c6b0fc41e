"""What a tool has remembered reaches the memory of its owner, once, or is refused where it was said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from pydantic_ai.tools import Tool

from clew.actors import ActorSystem, Decider, EventSourcedActor, RunFailed
from clew.actors.agent import define_agent, tool_options, tool_step
from clew.actors.testing import (
    World,
    crash_points,
    final_turn,
    following_model,
    scripted_model,
    tool_call_turn,
    tool_calls_turn,
)
from clew.journal import event
from clew.journal.facts import (
    MessageDelivered,
    MessageSent,
)
from tests.actors.support import WAIT_S
from tests.actors.ticking import facts

T = "thread/t"


@event("memory.noted", version=1)
class Noted(msgspec.Struct, frozen=True):
    """Something is remembered."""

    text: str
    thread: str


class Remember(msgspec.Struct, frozen=True):
    """Remember this."""

    id: str
    text: str
    thread: str
    at: int


class Dated(msgspec.Struct, frozen=True):
    """Remember this day."""

    day: str


MemoryKind = EventSourcedActor[Any, Any, Any, Any]


def memory_kind(command: type[msgspec.Struct] = Remember, name: str = "remember") -> MemoryKind:
    """A memory that is told what it takes."""

    def decide(state: tuple[str, ...], wish: Any) -> Sequence[Noted]:
        return (Noted(wish.text, wish.thread),)

    def evolve(state: tuple[str, ...], noted: Noted) -> tuple[str, ...]:
        return (*state, noted.text)

    decider = Decider[Any, Any, Noted, Any](initial=(), decide=decide, evolve=evolve, answer=lambda state, _: state)
    return EventSourcedActor(category="memory", decider=decider, events=(Noted,), commands={name: command})


@pytest.mark.crash
def test_what_a_tool_has_remembered_reaches_the_memory_of_its_owner_once() -> None:
    kind = memory_kind()

    async def life(world: World) -> Any:
        async def note(text: str) -> str:
            tool_step().remember(text)
            return "noted"

        calls = tool_calls_turn(("c1", "note", {"text": "tea"}), ("c2", "note", {"text": "no milk"}))
        agent = define_agent("host", model=following_model([calls, final_turn("noted")]), tools=[note])
        async with world.open(agents=[agent], actors=[kind]) as system:
            await system.thread(agent, "t", owner="ann").run("note", run_id="r")
            await world.until(lambda: len(facts(world.journal, T, MessageDelivered)) == 2)
        noted: list[Any] = [kind.catalog.decode(event) for event in world.journal.read("memory/ann")]
        return sorted((fact.text, fact.thread) for fact in noted)

    crash_points(life)

    world = World()
    assert world.run(life) == [("no milk", "t"), ("tea", "t")]


@pytest.mark.parametrize(
    ("kinds", "owner", "reason"),
    [
        ((), "ann", "no actors of the category 'memory' are here"),
        ((memory_kind(),), None, "a thread without an owner has nobody to remember for"),
        ((memory_kind(name="note"),), "ann", "takes no 'remember' from others"),
        ((memory_kind(Dated),), "ann", "is no command: Object missing required field `day`"),
    ],
)
def test_what_nobody_can_remember_is_refused_in_the_tool(kinds: Any, owner: str | None, reason: str) -> None:
    async def note() -> str:
        tool_step().remember("tea")
        return "noted"

    model = scripted_model([tool_call_turn("c1", "note", {}), final_turn("noted")])
    agent = define_agent("host", model=model, tools=[Tool(note, metadata=tool_options(attempts=1))])
    with ActorSystem("memory:", agents=[agent], actors=kinds) as system:
        with pytest.raises(RunFailed, match=reason):
            system.thread(agent, "t", owner=owner).run("note").result(timeout_s=WAIT_S)

        assert facts(system.journal, T, MessageSent) == []
