"""Agents with schedules, in a world whose time passes by itself, and what is recorded of their ticks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo

from clew.actors import ActorSystem
from clew.actors.agenda import AGENDA
from clew.actors.agent import AgentDefinition, define_agent, tool_step
from clew.actors.testing import Script, VirtualClock, final_turn, scripted_model, tool_call_turn
from clew.journal import Catalog, Journal
from clew.journal.facts import THREAD_EVENTS
from clew.journal.history import ALARMS, alarm_due
from tests.actors.payments import said
from tests.actors.support import until

__all__ = ["Ticker", "alarms_by", "at", "facts", "settled"]

THREADS = Catalog(*THREAD_EVENTS)

TURNS_MAX = 500


class Ticker:
    """An agent that answers what it is told; told to `hold`, it waits for the signal `go` first."""

    def __init__(self, name: str = "ticker", *, start: int | None = None, **options: Any) -> None:
        self.script = Script([self._respond] * TURNS_MAX)
        self.clock = VirtualClock() if start is None else VirtualClock(start)

        async def hold() -> str:
            return str(await tool_step().wait_for_signal("go"))

        self.agent: AgentDefinition[Any, str] = define_agent(
            name, model=scripted_model(self.script), tools=[hold], **options
        )

    def _respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        prompt = said(messages)[-1]
        if prompt == "hold" and any(part.part_kind == "user-prompt" for part in messages[-1].parts):
            return tool_call_turn(f"h{len(messages)}", "hold", {})
        return final_turn(f"did {prompt}")

    def open(self, journal: Any, **options: Any) -> ActorSystem:
        """Open a system with the agent, whose actors go to sleep at once."""
        options = {"agents": [self.agent], "clock": self.clock, "idle_s": 0.01, **options}
        return ActorSystem(journal, **options)

    @property
    def prompts(self) -> list[str]:
        """What its model was told last, turn by turn."""
        return [said(messages)[-1] for messages in self.script.requests]


def at(text: str) -> int:
    """A time in nanoseconds since the epoch, from ISO text, UTC unless it says otherwise."""
    time = datetime.fromisoformat(text)
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()) * 10**9


def facts(journal: Journal, stream: str, *kinds: type[msgspec.Struct]) -> list[Any]:
    """The facts of these kinds in a stream, in their order."""
    catalog = AGENDA.catalog if stream.startswith("agenda/") else THREADS
    decoded = [catalog.decode(event) for event in journal.read(stream)]
    return [fact for fact in decoded if not kinds or isinstance(fact, kinds)]


def settled(system: ActorSystem, fact: Callable[[], object] = lambda: True) -> None:
    """Wait until `fact()` holds, nothing is under way, and no alarm is due."""
    now = system.clock()

    def rests() -> bool:
        return bool(fact()) and system.live == 0 and not alarms_by(system.journal, now)

    until(rests)


def alarms_by(journal: Journal, at: int) -> Sequence[int]:
    """The alarms that are filed under this time or an earlier one."""
    return [due for mark, _ in journal.cells.scan(ALARMS) if (due := alarm_due(mark)) <= at]
