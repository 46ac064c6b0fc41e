"""What a model says can be heard while it says it, and leaves no trace in what is recorded."""

from __future__ import annotations

import asyncio
import gc
import re
import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.wrapper import WrapperModel

from clew.actors import ActorSystem, DeltasLost, RunFailed, UnknownThread
from clew.actors.agent import (
    AgentDefinition,
    Delta,
    Deltas,
    DurableSteps,
    Thread,
    define_agent,
    replay,
)
from clew.actors.testing import VirtualClock, final_turn, scripted_model
from clew.journal import GENESIS, Journal, MemoryJournal, chain
from clew.journal.facts import StepCompleted
from tests.actors.support import WAIT_S, until

Piece = str | dict[int, DeltaThinkingPart] | dict[int, DeltaToolCall]

FIRST: list[Piece] = [
    {0: DeltaThinkingPart(content="They want ")},
    {0: DeltaThinkingPart(content="a sum.")},
    "I will ",
    "add.",
    {1: DeltaToolCall("add", '{"a":1,', tool_call_id="c1")},
    {1: DeltaToolCall(json_args='"b":2}')},
]
LAST: list[Piece] = ["It ", "is ", "3."]


class Voice:
    """A model that says its turns in pieces, or as one where nobody listens, with the very same response.

    With `permits`, each piece waits for one. `turns` may hold an error to raise.
    """

    def __init__(self, *turns: Sequence[Piece | Exception], permits: threading.Semaphore | None = None) -> None:
        self.turns = turns
        self.permits = permits
        self.plain = 0
        self.streamed = 0
        self.model = FunctionModel(self.answer, stream_function=self.speak, model_name="voice")

    async def speak(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        """Say a turn."""
        self.streamed += 1
        for piece in self.turns[sum(isinstance(message, ModelResponse) for message in messages)]:
            if self.permits is not None:
                await asyncio.to_thread(self.permits.acquire, timeout=WAIT_S)
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Say it all at once."""
        self.plain += 1
        own = FunctionModel(stream_function=self.speak, model_name="voice")
        async with own.request_stream(messages, info.model_settings, info.model_request_parameters) as stream:
            async for _ in stream:
                pass
        self.streamed -= 1
        return stream.get()


def adder(model: Model) -> AgentDefinition[None, str]:
    def add(a: int, b: int) -> int:
        return a + b

    return define_agent("adder", model=model, tools=[add])


def opened(journal: Journal, agent: AgentDefinition[Any, Any], clock: VirtualClock | None = None) -> ActorSystem:
    return ActorSystem(journal, agents=[agent], clock=clock or VirtualClock())


def thread_of(system: ActorSystem, agent: AgentDefinition[Any, str], owner: str | None = "ann") -> Thread[str]:
    return system.thread(agent, "t", owner=owner)


async def heard(deltas: Deltas, into: list[Delta] | None = None, *, at_most: int = 999) -> list[Delta]:
    """Return what is heard, up to the end or to so many."""
    said = [] if into is None else into
    async with asyncio.timeout(WAIT_S):
        async for delta in deltas:
            said.append(delta)
            if len(said) == at_most:
                break
    return said


def text(deltas: list[Delta], step: str = "llm:turn:1", kind: str = "text") -> str:
    return "".join(delta.text for delta in deltas if (delta.step, delta.kind) == (step, kind))


def recorded(journal: Journal) -> bytes:
    """The head digest of the thread, but for the time that a model writes on its responses."""
    digest = GENESIS
    for event in journal.read("thread/t"):
        digest = chain(digest, re.sub(rb'"timestamp":"[^"]*"', b"", event.canonical))
    return digest


@pytest.mark.requirement("L-CLIENT-8")
async def test_what_is_recorded_is_the_same_with_and_without_somebody_who_listens() -> None:
    digests: list[bytes] = []
    calls: list[tuple[int, int]] = []
    for listens in (False, True):
        voice, journal, clock = Voice(FIRST, LAST), MemoryJournal(clock=VirtualClock()), VirtualClock()
        agent = adder(voice.model)
        async with opened(journal, agent, clock) as system:
            thread = thread_of(system, agent)
            async with thread.deltas("r") as deltas:
                if not listens:
                    deltas.close()
                answer = await thread.run("1 + 2?", run_id="r")
                said = await heard(deltas) if listens else []
            calls.append((voice.plain, voice.streamed))
            replayed = replay(thread, agent)
        digests.append(recorded(journal))
        assert answer.output == "It is 3."
        assert replayed.digests_equal
        assert (voice.plain, voice.streamed) == calls[-1]

    assert calls == [(2, 0), (0, 2)]
    assert digests[0] == digests[1]
    assert text(said, kind="thinking") == "They want a sum."
    assert (text(said), text(said, "llm:turn:2")) == ("I will add.", "It is 3.")
    assert [delta.index for delta in said] == [0, 1, 2, 3, 0, 1, 2]
    assert {delta.run for delta in said} == {"r"}


@pytest.mark.scenario("STR-01")
@pytest.mark.requirement("L-CLIENT-9")
async def test_who_comes_back_in_the_middle_of_a_turn_reads_the_last_one_and_hears_the_rest_of_this() -> None:
    permits = threading.Semaphore(len(FIRST) + 2)
    voice = Voice(FIRST, LAST, permits=permits)
    agent = adder(voice.model)

    async with opened(MemoryJournal(), agent) as system:
        thread = thread_of(system, agent)
        before: list[Delta] = []
        async with asyncio.timeout(WAIT_S), thread.deltas("r") as deltas:
            run = thread.run("1 + 2?", run_id="r")
            async for delta in deltas:
                before.append(delta)
                if (delta.step, delta.index) == ("llm:turn:2", 1):
                    break
        persisted: list[str] = []
        async for event in thread.subscribe():
            if isinstance(event.fact, StepCompleted):
                persisted.append(event.fact.step)
            if not event.behind:
                break
        async with thread.deltas("r", after=before[-2]) as again, thread.deltas("r") as new:
            permits.release(9)
            rest, whole = await heard(again), await heard(new)
        await run

    assert persisted == ["llm:turn:1", "tool:add:c1"]
    assert text(before, "llm:turn:2") == "It is "
    assert [(delta.index, delta.text) for delta in rest] == [(1, "is "), (2, "3.")]
    assert [(delta.index, delta.text) for delta in whole] == [(1, "It is "), (2, "3.")]


@pytest.mark.scenario("STR-05")
async def test_a_listener_that_does_not_read_is_let_go_with_what_waited_and_nobody_waits_for_it() -> None:
    voice = Voice([str(number) for number in range(100)])
    agent = adder(voice.model)

    async with opened(MemoryJournal(), agent) as system:
        thread = thread_of(system, agent)
        async with thread.deltas("r", held_max=3) as slow, thread.deltas("r", held_max=100) as fast:
            answer = await thread.run("Count.", run_id="r")
            listening = system.live_turns.listeners
            seen: list[Delta] = []
            with pytest.raises(DeltasLost, match="listen again") as lost:
                await heard(slow, seen)
            again = await heard(slow)
            all_of_it = text(await heard(fast))

    assert [delta.text for delta in seen] == ["0", "1", "2"]
    assert again == []
    assert listening == 1
    assert (lost.value.thread, lost.value.held_max) == ("thread/t", 3)
    assert answer.output == all_of_it


class Mute(WrapperModel):
    """A model that does not say whether it can stream before it is asked to, and cannot."""

    def request_stream(self, *_: Any, **__: Any) -> Any:
        """Refuse."""
        return Model.request_stream(self, [], None, ModelRequestParameters())

    def __getattr__(self, name: str) -> Any:
        """Be no function model."""
        raise AttributeError(name)


@pytest.mark.parametrize("kind", ["function", "fallback", "other"])
async def test_a_model_that_cannot_stream_is_asked_as_ever_and_heard_at_the_end_of_its_turn(kind: str) -> None:
    script = scripted_model([final_turn("All at once.")])
    model = {"function": script, "fallback": FallbackModel(script, script), "other": Mute(script)}[kind]
    agent = adder(model)

    async with opened(MemoryJournal(), agent) as system:
        thread = thread_of(system, agent)
        async with thread.deltas("r") as deltas:
            answer = await thread.run("Speak.", run_id="r")
            said = await heard(deltas)

    assert answer.output == "All at once."
    assert [(delta.index, delta.text) for delta in said] == [(0, "All at once.")]


async def test_who_comes_while_a_turn_is_taken_unheard_gets_all_of_it_at_its_end() -> None:
    permits = threading.Semaphore(0)
    voice = Voice(LAST, permits=permits)
    agent = adder(voice.model)

    async with opened(MemoryJournal(), agent) as system:
        thread = thread_of(system, agent)
        run = thread.run("Go.", run_id="r")
        await asyncio.to_thread(until, lambda: voice.plain)
        async with thread.deltas("r") as deltas:
            permits.release(9)
            said = await heard(deltas)
        await run

    assert [(delta.index, delta.text) for delta in said] == [(0, "It is 3.")]
    assert voice.plain == 1


async def test_who_listens_to_another_run_or_has_gone_changes_nothing() -> None:
    voice = Voice(LAST, LAST)
    agent = adder(voice.model)

    async with opened(MemoryJournal(), agent) as system:
        thread = thread_of(system, agent)
        async with thread.deltas("other"), system.thread(agent, "u").deltas():
            async with thread.deltas():
                pass
            await thread.run("Go.", run_id="r")

    assert (voice.plain, voice.streamed) == (1, 0)


async def test_a_model_that_breaks_off_fails_its_run_and_ends_what_is_heard() -> None:
    voice = Voice(["It ", OSError("line lost")])
    agent = adder(voice.model)

    async with opened(MemoryJournal(), agent) as system:
        thread = thread_of(system, agent)
        async with thread.deltas("r") as deltas:
            with pytest.raises(RunFailed, match="line lost"):
                await thread.run("Go.", run_id="r")
            said = await heard(deltas)

    assert text(said) == "It "


async def test_a_cancel_in_the_middle_of_a_turn_ends_what_is_heard() -> None:
    permits = threading.Semaphore(1)
    agent = adder(Voice(LAST, permits=permits).model)

    async with opened(MemoryJournal(), agent) as system:
        thread = thread_of(system, agent)
        async with asyncio.timeout(WAIT_S), thread.deltas("r") as deltas:
            thread.run("Go.", run_id="r")
            said: list[str] = []
            async for delta in deltas:
                said.append(delta.text)
                await thread.cancel("r")
        # So that the thread which waits for the next piece ends.
        permits.release(9)

    assert said == ["It "]


async def test_the_turns_of_a_sub_agent_are_told_apart_by_their_step() -> None:
    helper = Voice(["From ", "below."])
    voice = Voice([{0: DeltaToolCall("ask", "{}", tool_call_id="c1")}], ["From ", "above."])
    sub = Agent(helper.model, name="helper", capabilities=[DurableSteps()])

    async def ask() -> str:
        return (await sub.run("Help.")).output

    agent = define_agent("asker", model=voice.model, tools=[ask])
    async with opened(MemoryJournal(), agent) as system:
        thread = thread_of(system, agent)
        async with thread.deltas("r") as deltas:
            await thread.run("Go.", run_id="r")
            said = await heard(deltas)

    assert text(said, "tool:ask:c1/llm:turn:1") == "From below."
    assert text(said, "llm:turn:2") == "From above."


async def test_only_the_owner_hears_a_thread_also_one_that_began_while_somebody_listened() -> None:
    voice = Voice(LAST)
    agent = adder(voice.model)

    async with opened(MemoryJournal(), agent) as system:
        async with thread_of(system, agent, "bob").deltas() as early:
            await thread_of(system, agent, "ann").run("Go.")
            with pytest.raises(UnknownThread):
                await heard(early)
        with pytest.raises(UnknownThread):
            thread_of(system, agent, "bob").deltas()


@pytest.mark.scenario("STR-06")
async def test_listeners_that_never_read_or_leave_early_leave_nothing_behind() -> None:
    agent = adder(Voice(LAST).model)

    async with opened(MemoryJournal(), agent) as system:
        thread = thread_of(system, agent)
        for number in range(100):
            deltas = thread.deltas()
            if number % 2:
                async with deltas:
                    assert system.live_turns.listeners == 1
            del deltas
        gc.collect()
        unread = system.live_turns.listeners
        reading = asyncio.create_task(heard(thread.deltas()))
        await asyncio.to_thread(until, lambda: system.live_turns.listeners == 1)
        run = thread.run("Go.")
        await run
        reading.cancel()
        await asyncio.wait([reading])
        left = system.live_turns.listeners

    assert (unread, left) == (0, 0)


async def test_a_listener_that_leaves_the_loop_may_go_on_within_its_block() -> None:
    agent = adder(Voice(LAST).model)

    async with opened(MemoryJournal(), agent) as system:
        thread = thread_of(system, agent)
        async with asyncio.timeout(WAIT_S), thread.deltas("r") as deltas:
            await thread.run("Go.", run_id="r")
            first, rest = await heard(deltas, at_most=1), await heard(deltas)

    assert (text(first), text(rest)) == ("It ", "is 3.")


async def test_a_run_that_has_ended_has_nothing_to_say() -> None:
    agent = adder(Voice(LAST).model)

    async with opened(MemoryJournal(), agent) as system:
        thread = thread_of(system, agent)
        await thread.run("Go.", run_id="r")

        assert await heard(thread.deltas("r")) == []


async def test_what_is_heard_ends_when_the_system_closes() -> None:
    agent = adder(Voice(LAST).model)
    async with opened(MemoryJournal(), agent) as system:
        deltas = thread_of(system, agent).deltas()
        reading = asyncio.create_task(heard(deltas))
        await asyncio.to_thread(until, lambda: system.live_turns.listeners == 1)

    assert await reading == []


async def test_a_listener_has_room_for_one_delta_at_least() -> None:
    agent = adder(Voice(LAST).model)
    async with opened(MemoryJournal(), agent) as system:
        with pytest.raises(ValueError, match="held_max"):
            thread_of(system, agent).deltas(held_max=0)
