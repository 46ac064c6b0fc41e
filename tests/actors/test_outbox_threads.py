"""Other actors start runs in conversations, learn how they ended, and are refused like anybody else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace
from pydantic_ai import Agent, ModelResponse
from pydantic_ai.messages import ModelMessage, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from clew.actors import ActorSystem, Decider, EventSourcedActor, fold, system_clock
from clew.actors.outbox import Acknowledge, Outbox, acknowledge, deliveries, evolve_outbox, message_of, sent
from clew.actors.thread import CancelRun, EndChild, Requester, SendSignal, StartRun
from clew.journal import MemoryJournal, event
from clew.journal.facts import MessageDelivered, MessageSent
from tests.actors.story import finish, raw
from tests.actors.support import WAIT_S, marked, until


@event("office.answered", version=1)
class Answered(msgspec.Struct, frozen=True):
    """A run that was asked for has ended."""

    run: str
    status: str
    output: msgspec.Raw


class Send(msgspec.Struct, frozen=True):
    """Send a command to a conversation, under a name and id."""

    id: str
    command: str
    fields: Any
    to: str = "thread/t"


class Office(msgspec.Struct, frozen=True):
    """The answers, by run."""

    answers: dict[str, str] = {}
    outbox: Outbox = Outbox()


Command = Send | EndChild | Acknowledge
Fact = Answered | MessageSent | MessageDelivered


def _decide(office: Office, command: Command) -> Sequence[Fact]:
    match command:
        case Send():
            return sent(command.id, [message_of(command.to, command.command, command.fields)], 1)
        case EndChild():
            return (Answered(command.run, command.status, command.output),)
        case Acknowledge():
            return acknowledge(office.outbox, command)


def _evolve(office: Office, fact: Fact) -> Office:
    if isinstance(fact, Answered):
        return replace(office, answers={**office.answers, fact.run: f"{fact.status}: {bytes(fact.output).decode()}"})
    return replace(office, outbox=evolve_outbox(office.outbox, fact))


def _answers(office: Office, _: Sequence[Fact]) -> dict[str, str]:
    return office.answers


OFFICE = EventSourcedActor[Office, Command, Fact, dict[str, str]](
    category="office",
    decider=Decider(
        initial=Office(),
        decide=_decide,
        evolve=_evolve,
        answer=_answers,
        effects=lambda office: deliveries(office.outbox),
    ),
    events=(Answered, MessageSent, MessageDelivered),
    commands={"child_ended": EndChild},
)


def asked(run: str, prompt: str) -> StartRun:
    """A run whose end the office is to be told of; it waits while the conversation is busy."""
    requester = Requester("office/o", f"case {run}", "step")
    return StartRun(run, "echo", raw(prompt), None, None, system_clock(), concurrent="queue", requester=requester)


def echo() -> Agent[None, str]:
    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        prompt = messages[-1].parts[-1]
        assert isinstance(prompt, UserPromptPart)
        return ModelResponse([TextPart(f"you said {prompt.content!r}")])

    return Agent(FunctionModel(respond), name="echo")


def facts(journal: MemoryJournal) -> list[Fact]:
    return [cast("Fact", OFFICE.catalog.decode(recorded)) for recorded in journal.read("office/o")]


def answers(journal: MemoryJournal) -> dict[str, str]:
    return fold(OFFICE.decider, facts(journal)).answers


def refusals(journal: MemoryJournal) -> list[str | None]:
    """What became of the messages of the office, in order: nothing, or why they were refused."""
    delivered = [fact.refused for fact in facts(journal) if isinstance(fact, MessageDelivered)]
    return [refused and refused.type for refused in delivered]


def settled(journal: MemoryJournal, *streams: str) -> None:
    """Wait until nothing is open any more, here and there."""
    until(lambda: not any(marked(journal, stream) for stream in ("office/o", *streams)))


@pytest.mark.requirement("L-RUN-6")
async def test_runs_are_started_from_sync_code_async_code_and_inside_another_actor() -> None:
    agent, journal = echo(), MemoryJournal()
    async with ActorSystem(journal, agents=[agent], actors=[OFFICE]) as system:
        thread = system.thread(agent, "t")
        await system.ref(OFFICE, "o").ask(Send("s", "start_run", asked("r", "from an actor")))
        await asyncio.to_thread(until, lambda: answers(journal))
        from_actor = await thread.attach("r")
        from_async = await thread.run("async")
        from_sync = await asyncio.to_thread(lambda: thread.run("sync").result(timeout_s=WAIT_S))

    said = [from_actor.output, from_async.output, from_sync.output]
    assert said == ["you said 'from an actor'", "you said 'async'", "you said 'sync'"]
    assert answers(journal) == {"case r": "done: \"you said 'from an actor'\""}


def test_an_actor_that_starts_runs_is_told_how_each_ended() -> None:
    agent, journal = echo(), MemoryJournal()
    with ActorSystem(journal, agents=[agent], actors=[OFFICE]) as system:
        for number in range(3):
            system.ref(OFFICE, "o").tell(Send(f"s{number}", "start_run", asked(f"r{number}", f"question {number}")))

        until(lambda: len(answers(journal)) == 3)
        settled(journal, "thread/t")

    assert answers(journal) == {f"case r{number}": f"done: \"you said 'question {number}'\"" for number in range(3)}
    assert refusals(journal) == [None] * 3


def test_a_conversation_takes_signals_and_cancels_from_other_actors_as_from_its_owner_alone() -> None:
    agent, journal = echo(), MemoryJournal()
    sent_by = {"ann": None, "eve": "UnknownThread", None: "UnknownThread"}
    with ActorSystem(journal, agents=[agent], actors=[OFFICE]) as system:
        system.thread(agent, "t", owner="ann").run("hello", run_id="r").result(timeout_s=WAIT_S)
        for number, owner in enumerate(sent_by):
            signal = SendSignal(f"id {number}", "news", raw(number), owner, 1)
            for command, fields in (("signal", signal), ("cancel_run", CancelRun("r", owner, "enough", 1))):
                name = f"{command} {number}"
                system.ref(OFFICE, "o").ask(Send(name, command, fields)).get(timeout=WAIT_S)

        settled(journal, "thread/t")

    assert refusals(journal) == [refusal for refusal in sent_by.values() for _ in range(2)]
    received = [recorded for recorded in journal.read("thread/t") if recorded.type.name == "signal.received"]
    assert [recorded.cause for recorded in received] == ["office/o#signal 0:0"]


def test_a_conversation_takes_no_command_of_its_driver_from_another_actor() -> None:
    agent, journal = echo(), MemoryJournal()
    with ActorSystem(journal, agents=[agent], actors=[OFFICE]) as system:
        system.thread(agent, "t").run("hello", run_id="r").result(timeout_s=WAIT_S)
        system.ref(OFFICE, "o").ask(Send("s", "finish_run", finish("r"))).get(timeout=WAIT_S)

        settled(journal)

    assert refusals(journal) == ["InvalidMessage"]
