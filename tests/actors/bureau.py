"""Agents whose conversations go through everything a thread can do: recorded once, replayed for ever."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from typing import Any, cast

import msgspec
from pydantic_ai import Tool
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from clew.actors import ActorSystem, Decider, EventSourcedActor
from clew.actors.agent import (
    AgentDefinition,
    Compaction,
    ResultCap,
    Thread,
    agent_as_tool,
    define_agent,
    tool_options,
    tool_step,
)
from clew.actors.open_mark import OpenMark
from clew.actors.schedule import after, cron, every
from clew.actors.testing import VirtualClock, final_turn, following_model, invalid_for_provider, tool_call_turn
from clew.journal import MemoryJournal, event, import_history, write_history
from tests.actors.support import WAIT_S, until

DAY_S = 86_400.0


class Count(msgspec.Struct, frozen=True):
    """A command from a tool."""

    by: int


@event("counter.counted", version=1)
class Counted(msgspec.Struct, frozen=True):
    by: int


COUNTER = EventSourcedActor[int, Count, Counted, int](
    category="counter",
    decider=Decider(
        initial=0,
        decide=lambda _, command: (Counted(command.by),),
        evolve=lambda count, counted: count + counted.by,
        answer=lambda count, _: count,
    ),
    events=(Counted,),
    commands={"count": Count},
)


def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Call the tool that the prompt names, then answer."""
    start = max(i for i, m in enumerate(messages) if isinstance(m, ModelRequest) and asks(m))
    if len(messages) - start > 1:
        return final_turn("done")
    prompt = next(part.content for part in messages[start].parts if isinstance(part, UserPromptPart))
    assert invalid_for_provider(messages) == [], info
    tool, _, argument = str(prompt).partition(" ")
    arguments = {"prompt" if tool.startswith("ask_") else "x": argument}
    return tool_call_turn(f"c{start}", tool, arguments) if argument else final_turn(f"just {tool}")


def asks(message: ModelRequest) -> bool:
    return any(isinstance(part, UserPromptPart) for part in message.parts)


async def pay(x: str) -> str:
    """Pay, if somebody approves."""
    return f"paid {x}"


async def stamp(x: str) -> str:
    """Stamp once."""
    return f"stamped {x}"


async def call(x: str) -> str:
    """Call a service that does not answer at first."""
    if FAILING:
        FAILING.clear()
        raise ConnectionError("no answer")
    return f"called {x}"


async def wait(x: str) -> str:
    """Wait for a signal."""
    return f"{x} {await tool_step().wait_for_signal('go', timeout_s=DAY_S)}"


async def change(x: str) -> str:
    """Change everything a tool can."""
    step = tool_step()
    step.update_state(lambda state: cast("dict[str, str]", state or {}) | {"x": x})
    step.send(COUNTER, "c", Count(3))
    step.schedule("later", after(60), "again")
    return "changed"


async def fetch(x: str) -> str:
    """Fetch a long document."""
    return f"page {x}. " * 100


FAILING: set[str] = set()


async def stuck(*_: Any) -> ModelResponse:
    """Never answer."""
    await asyncio.Event().wait()
    return final_turn("never")


def told(_: object) -> None:
    """Take note."""


fragile = define_agent("fragile", model=FunctionModel(stuck, model_name="bureau"), recoveries_max=1)

archivist = define_agent(
    "archivist",
    model=FunctionModel(respond, model_name="bureau"),
    tools=[fetch],
    result_cap=ResultCap(chars_max=256),
    compaction=Compaction(max_messages=4, model=following_model([final_turn("a brief")], name="brief")),
)

expert = define_agent("expert", model=FunctionModel(respond, model_name="bureau"))

bureau: AgentDefinition[Any, str] = define_agent(
    "bureau",
    model=FunctionModel(respond, model_name="bureau"),
    instructions="Do what is asked.",
    tools=[
        Tool(pay, metadata=tool_options(needs_approval=True)),
        Tool(stamp, metadata=tool_options(at_most_once=True)),
        Tool(call, metadata=tool_options(attempts=3, delay_s=60, timeout_s=600)),
        wait,
        change,
        agent_as_tool(expert),
    ],
    on_concurrent_run="queue",
    run_timeout_s=30 * DAY_S,
    initial_state={"begun": True},
    on_settled=told,
)


class Day:
    """A day at the bureau, hour by hour."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.journal = MemoryJournal(clock=self.clock)

    def spend(self) -> MemoryJournal:
        """Let everything happen once."""
        with self.open() as system:
            thread = self.thread(system)
            self.approvals(thread)
            self.time(system, thread)
            self.others(thread)
            self.archive(system)
        self.doubt()
        self.trouble()
        return self.journal

    def open(self) -> ActorSystem:
        return ActorSystem(
            self.journal, agents=[bureau, expert, fragile, archivist], actors=[COUNTER], clock=self.clock
        )

    def thread(self, system: ActorSystem) -> Thread[str]:
        return system.thread(bureau, "desk", owner="ann", title="The desk")

    def ask(self, thread: Thread[str], run: str, prompt: str) -> None:
        thread.run(prompt, run_id=run).started(timeout_s=WAIT_S)

    def approvals(self, thread: Thread[str]) -> None:
        decisions: list[tuple[str, Callable[[str], Any]]] = [
            ("granted", thread.approve),
            ("refused", lambda id_: thread.reject(id_, "too much")),
            ("edited", lambda id_: thread.approve(id_, arguments={"x": "4"})),
        ]
        for run, decide in decisions:
            self.ask(thread, run, "pay 5")
            self.until("run.suspended", run)
            decide(thread.approvals()[0].id).get(timeout=WAIT_S)
            thread.attach(run).result(timeout_s=WAIT_S)
        self.ask(thread, "expired", "pay 6")
        self.until("run.suspended", "expired")
        self.ask(thread, "behind", "hello")
        self.clock.advance(0.6 * DAY_S)
        self.until("run.cancelled", "behind")
        self.clock.advance(4 * DAY_S)
        thread.attach("expired").result(timeout_s=WAIT_S)
        self.until("approval.notified", "expired")

    def time(self, system: ActorSystem, thread: Thread[str]) -> None:
        FAILING.add("once")
        self.ask(thread, "retried", "call it")
        self.until("run.suspended", "retried")
        self.clock.advance(61)
        thread.attach("retried").result(timeout_s=WAIT_S)
        thread.schedules.set("poll", every(3600), "hello").get(timeout=WAIT_S)
        thread.schedules.pause("poll").get(timeout=WAIT_S)
        thread.schedules.resume("poll").get(timeout=WAIT_S)
        self.clock.advance(3600)
        self.until("schedule.fired")
        self.until("run.finished", runs="poll@")
        thread.schedules.cancel("poll").get(timeout=WAIT_S)
        thread.schedules.set("busy", every(3600), "pay 8").get(timeout=WAIT_S)
        self.clock.advance(3600)
        self.until("run.suspended", runs="busy@")
        self.clock.advance(3600)
        self.until("schedule.skipped")
        thread.schedules.cancel("busy").get(timeout=WAIT_S)
        thread.reject(thread.approvals()[0].id, "not now").get(timeout=WAIT_S)
        self.until("run.finished", runs="busy@")
        system.schedules(bureau).set("digest", cron("0 7 * * *"), "hello", owner="bob").get(timeout=WAIT_S)
        system.schedules(bureau).cancel("digest").get(timeout=WAIT_S)
        system.schedules(bureau).run_after(5, "hello", name="once", owner="bob").get(timeout=WAIT_S)
        self.clock.advance(6)
        self.until("child.ended")

    def others(self, thread: Thread[str]) -> None:
        self.ask(thread, "signalled", "wait for")
        self.until("signal.awaited", "signalled")
        thread.signal("go", {"n": 1}, id="s1").get(timeout=WAIT_S)
        thread.attach("signalled").result(timeout_s=WAIT_S)
        self.ask(thread, "silent", "wait for")
        self.until("run.suspended", "silent")
        self.clock.advance(2 * DAY_S)
        self.until("run.failed", "silent")
        self.ask(thread, "delegated", "ask_expert me")
        thread.attach("delegated").result(timeout_s=WAIT_S)
        self.ask(thread, "changed", "change it")
        thread.attach("changed").result(timeout_s=WAIT_S)
        self.until("counter.counted")
        self.clock.advance(61)
        self.until("run.finished", runs="later@")
        self.ask(thread, "paused", "pay 7")
        self.until("run.suspended", "paused")
        thread.pause("paused", reason="lunch").get(timeout=WAIT_S)
        thread.resume("paused").get(timeout=WAIT_S)
        thread.cancel("paused").get(timeout=WAIT_S)

    def archive(self, system: ActorSystem) -> None:
        """A conversation that becomes long, of long documents."""
        for number in range(4):
            run = system.thread(archivist, "archive", owner="ann").run(f"fetch {number}", run_id=f"fetched{number}")
            run.result(timeout_s=WAIT_S)

    def doubt(self) -> None:
        """A process dies in a step that may run once."""
        scratch = Day()
        with scratch.open() as system:
            system.thread(bureau, "stamps", owner="ann").run("stamp it", run_id="stamped").result(timeout_s=WAIT_S)
        events = list(scratch.journal.read("thread/stamps"))
        cut = [event.type.name for event in events].index("step.started") + 1
        history = io.BytesIO()
        write_history(events[:cut], history)
        history.seek(0)
        import_history(self.journal, history)
        with self.open() as system:
            thread = system.thread(bureau, "stamps", owner="ann")
            self.until("run.suspended", "stamped")
            thread.settle("stamped", "tool:stamp:c0", result="stamped it").get(timeout=WAIT_S)
            thread.attach("stamped").result(timeout_s=WAIT_S)

    def trouble(self) -> None:
        """A process dies of a run, again and again."""
        with self.open() as system:
            self.ask(system.thread(fragile, "glass", owner="ann"), "broken", "hello")
        for seen in ("run.recovered", "run.parked"):
            OpenMark(self.journal).set()
            with self.open() as system:
                self.until(seen, "broken")
        with self.open() as system:
            thread = system.thread(fragile, "glass", owner="ann")
            thread.resume("broken").get(timeout=WAIT_S)
            thread.cancel("broken").get(timeout=WAIT_S)

    def until(self, name: str, run: str = "", *, runs: str = "") -> None:
        """Wait for a fact."""

        def there() -> bool:
            for recorded in self.journal.read_all():
                if recorded.type.name == name:
                    of = str(msgspec.json.decode(recorded.canonical)["data"].get("run", ""))
                    if of.startswith(runs) if runs else run in ("", of):
                        return True
            return False

        until(there)


def record(path: str) -> None:
    """Record the golden history of this version; done once, never for an existing file."""
    with open(path, "xb") as out:  # noqa: PTH123  (x: never overwrite)
        write_history(Day().spend().read_all(), out)
