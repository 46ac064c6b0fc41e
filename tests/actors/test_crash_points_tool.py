"""`crash_points` finds what a crash changes, and says how to see it again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

import msgspec
import pytest
from pydantic_ai import Tool

from clew.actors import ActorRef, Decider, Effect, EventSourcedActor
from clew.actors.agent import define_agent, tool_options, tool_step
from clew.actors.testing import (
    CrashPointsFailed,
    World,
    crash_points,
    final_turn,
    following_model,
    provider_valid,
    tool_calls_turn,
)
from clew.journal import event


@event("gate.asked", version=1)
class Asked(msgspec.Struct, frozen=True):
    """Somebody wants the gate open."""

    at: int


@event("gate.opened", version=1)
class Opened(msgspec.Struct, frozen=True):
    """It is open."""

    at: int


class Ask(msgspec.Struct, frozen=True):
    """Ask for it."""

    at: int


class Opens(msgspec.Struct, frozen=True):
    """Say that it is open."""

    at: int


class Ring(msgspec.Struct, frozen=True):
    """It is this late."""

    at: int


class Gate(msgspec.Struct, frozen=True):
    """When it was asked for, whether its bell has rung, and how often it opened."""

    asked_at: int | None = None
    opened: int = 0


GateKind = EventSourcedActor[Gate, Ask | Opens | Ring, Asked | Opened, Gate]
HOUR = 3_600_000_000_000


def _decide(gate: Gate, command: Ask | Opens | Ring) -> Sequence[Asked | Opened]:
    match command:
        case Ask():
            return (Asked(command.at),) if gate.asked_at is None and not gate.opened else ()
        case Opens() | Ring():
            return (Opened(command.at),) if gate.asked_at is not None else ()


def _evolve(gate: Gate, fact: Asked | Opened) -> Gate:
    return Gate(fact.at, gate.opened) if isinstance(fact, Asked) else Gate(None, gate.opened + 1)


def _gate(gate: Gate, _: Sequence[Asked | Opened]) -> Gate:
    return gate


def _work(gate: Gate) -> Sequence[Effect]:
    return () if gate.asked_at is None else (Effect("open", None),)


def _due(gate: Gate) -> int | None:
    return None if gate.asked_at is None else gate.asked_at + HOUR


def gate_kind(world: World, key: Callable[[], str]) -> GateKind:
    """A gate that is opened by an effect under the key that is given."""

    async def perform(effect: Effect, gate: ActorRef[Ask | Opens | Ring, Gate]) -> Opens:
        await asyncio.sleep(2)
        world.effect(key())
        return Opens(world.clock())

    return EventSourcedActor(
        category="gate",
        decider=Decider(initial=Gate(), decide=_decide, evolve=_evolve, answer=_gate, effects=_work),
        events=(Asked, Opened),
        perform=perform,
        state_type=Gate,
    )


def belled_kind() -> GateKind:
    """A gate that opens an hour after it was asked for."""
    return EventSourcedActor(
        category="gate",
        decider=Decider(initial=Gate(), decide=_decide, evolve=_evolve, answer=_gate, due=_due),
        events=(Asked, Opened),
        alarm=Ring,
        state_type=Gate,
    )


async def opened(world: World, kind: GateKind) -> int:
    """Ask for the gate, and wait until it is open."""
    async with world.open(actors=[kind]) as system:
        gate = system.ref(kind, "g")
        await gate.ask(Ask(world.clock()), command_id="ask")
        await world.until(lambda: world.journal.head("gate/g").sequence >= 2)
        return (await gate.ask(Ask(0))).opened


async def test_dying_anywhere_changes_nothing_where_effects_have_a_key() -> None:
    async def scenario(world: World) -> int:
        return await opened(world, gate_kind(world, lambda: "gate/g"))

    found = crash_points(scenario)

    kinds = {place.what for place in found.points}
    assert {"before append", "after append", "before commit", "after commit"} <= kinds
    assert {"before effect", "after effect"} <= kinds
    # It died after the effect and before the record of it, and asked again under the same key.
    assert found.redelivered > 0


def test_dying_around_an_alarm_changes_nothing() -> None:
    async def scenario(world: World) -> int:
        return await opened(world, belled_kind())

    found = crash_points(scenario)

    assert {"before alarm", "after alarm"} <= {place.what for place in found.points}


def test_an_effect_without_a_key_of_its_own_is_found_and_its_place_repeats_it() -> None:
    async def scenario(world: World) -> int:
        lives = len(world.deaths)
        return await opened(world, gate_kind(world, lambda: f"key {lives}"))

    with pytest.raises(CrashPointsFailed, match="crash points failed") as failed:
        crash_points(scenario)

    first = failed.value.failures[0]
    assert "effects" in first.reason
    assert f"only={first.where!r}" in str(failed.value)
    with pytest.raises(CrashPointsFailed) as again:
        crash_points(scenario, only=first.where)
    assert again.value.failures == (first,)
    assert again.value.points == 1


def test_a_scenario_that_takes_another_way_each_time_is_refused() -> None:
    ways = iter(range(1000))

    async def scenario(world: World) -> None:
        world.effect(f"way {next(ways)}")

    with pytest.raises(CrashPointsFailed, match="takes another way each time"):
        crash_points(scenario)


def test_a_scenario_that_waits_for_what_cannot_come_says_what_is_open() -> None:
    async def scenario(world: World) -> None:
        world.open()
        await asyncio.Event().wait()

    with pytest.raises(Exception, match="nothing is left that could happen"):
        crash_points(scenario)


def test_what_is_no_coroutine_function_is_refused() -> None:
    with pytest.raises(TypeError, match="async def"):
        crash_points(lambda world: world)  # pyright: ignore[reportArgumentType]


def test_an_unknown_place_is_refused() -> None:
    async def scenario(world: World) -> None:
        world.effect("one")

    with pytest.raises(ValueError, match="has 2 places"):
        crash_points(scenario, only="after append 7 (nowhere)")


async def approving(world: World) -> str:
    """An agent books something, and pays once somebody has approved it."""
    requests: list[bool] = []

    def pay(cents: int) -> str:
        world.effect(tool_step().idempotency_key)
        return f"paid {cents}"

    async def book() -> str:
        await asyncio.sleep(1)
        world.effect(tool_step().idempotency_key)
        tool_step().set_state({"booked": True})
        return "booked"

    agent = define_agent(
        "clerk",
        model=following_model(
            [
                tool_calls_turn(("p", "pay", {"cents": 7}), ("b", "book", {})),
                lambda messages, _: (requests.append(provider_valid(messages)), final_turn("done"))[1],
            ]
        ),
        tools=[Tool(pay, metadata=tool_options(needs_approval=True)), book],
    )
    async with world.open(agents=[agent]) as system:
        thread = system.thread(agent, "t", owner="ann")
        run = thread.run("pay and book", run_id="r")
        await world.until(lambda: world.journal.head(thread.stream).sequence and thread.status("r") != "running")
        for question in thread.approvals():
            await thread.approve(question.id)
        answer = await run
        assert all(requests)
        return answer.output


@pytest.mark.crash
def test_an_approved_call_is_made_once_wherever_its_process_dies() -> None:
    found = crash_points(approving)

    assert len(found.points) > 30
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("clew")]
