"""An agent that can be asked from any point of a conversation on, and histories of it."""

from __future__ import annotations

import io
from collections import Counter
from contextlib import suppress

from pydantic_ai import Agent, ModelResponse
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from clew.actors import ActorSystem, RunFailed
from clew.actors.agent import tool_options
from clew.actors.testing import VirtualClock, final_turn, invalid_for_provider, tool_call_turn, tool_calls_turn
from clew.journal import MemoryJournal, RecordedEvent, import_history, write_history


class Robot:
    """An agent whose model follows the conversation, so that it can be asked from any point on."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.requests: list[list[ModelMessage]] = []
        self.failing: set[str] = set()
        self.broken: set[str] = set()
        self.agent = Agent(FunctionModel(self.respond, model_name="robot"), name="robot", instructions="Add up.")

        @self.agent.tool_plain(metadata=tool_options(attempts=2))
        async def add(a: int, b: int) -> int:
            self.calls[f"add {a}"] += 1
            if f"add {a}" in self.failing:
                self.failing.discard(f"add {a}")
                raise OSError("not now")
            if f"add {a}" in self.broken:
                raise OSError("never")
            return a + b

    def respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.requests.append(messages)
        assert invalid_for_provider(messages) == []
        start = max(i for i, m in enumerate(messages) if isinstance(m, ModelRequest) and _asks(m))
        turn = 1 + sum(isinstance(m, ModelResponse) for m in messages[start:])
        self.calls[f"turn {turn} of {start}"] += 1
        if turn == 1:
            return tool_calls_turn((f"a{start}", "add", {"a": 1, "b": 1}), (f"b{start}", "add", {"a": 2, "b": 2}))
        if turn == 2:
            return tool_call_turn(f"c{start}", "add", {"a": 3, "b": 3}, text="And one more.")
        results = [p.content for m in messages[start:] for p in m.parts if isinstance(p, ToolReturnPart)]
        return final_turn(f"the sums are {results}")


def _asks(message: ModelRequest) -> bool:
    return any(part.part_kind == "user-prompt" for part in message.parts)


def history_of(robot: Robot, *prompts: str) -> list[RecordedEvent]:
    clock = VirtualClock()
    journal = MemoryJournal(clock=clock)
    with ActorSystem(journal, agents=[robot.agent], clock=clock) as system:
        for prompt in prompts:
            with suppress(RunFailed):
                system.thread(robot.agent, "t", owner="ann").run(prompt, run_id=prompt).result(timeout_s=10)
    return list(journal.read_all())


def journal_with(events: list[RecordedEvent]) -> MemoryJournal:
    journal, history = MemoryJournal(), io.BytesIO()
    write_history(events, history)
    history.seek(0)
    import_history(journal, history)
    return journal


def record(path: str) -> None:
    """Record the golden history of this version; done once a stored format, never for an existing file."""
    robot = Robot()
    robot.failing = {"add 2"}
    with open(path, "xb") as out:  # noqa: PTH123  (x: never overwrite)
        write_history(history_of(robot, "one", "two"), out)
