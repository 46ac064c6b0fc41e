"""A shop whose tools a model calls by scripts, its book of what was done, and what the model was told."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from pydantic_ai import RunContext, Tool
from pydantic_ai.exceptions import ModelRetry, ToolFailed
from pydantic_ai.messages import ModelResponse, ToolReturnPart

from clew.actors import ActorSystem
from clew.actors.agent import AgentDefinition, Thread, code_tool, define_agent, replay, tool_options, tool_step
from clew.actors.testing import VirtualClock, final_turn, following_model, tool_call_turn
from clew.actors.testing.script import Turn
from clew.journal import Journal, MemoryJournal
from tests.actors.support import WAIT_S

T = "thread/t"


def step(id_: str, tool: str, **input_: Any) -> dict[str, Any]:
    """One step of a script."""
    return {"id": id_, "tool": tool, "input": input_}


def ref(id_: str, path: str | list[str | int] | None = None) -> dict[str, Any]:
    """A reference to an earlier output."""
    return {"$from": id_} if path is None else {"$from": id_, "$path": path}


def script(*steps: dict[str, Any], call: str = "c1") -> ModelResponse:
    """A turn in which the model runs a script."""
    return tool_call_turn(call, "run_script", {"steps": list(steps)})


class Shop:
    """Its tools find, pay, note and fail; `done` is what they did, each with its key."""

    def __init__(
        self,
        *steps: dict[str, Any],
        turns: Sequence[Turn] | None = None,
        pay: dict[str, Any] | None = None,
        limits: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.clock = VirtualClock()
        self.done: list[tuple[str, Any]] = []
        self.before: Callable[[str], object] = lambda _: None
        self.fails = 0
        self.checked: list[int] = []
        tools: list[Any] = [
            self.find,
            Tool(self.pay, metadata=tool_options(**(pay or {}))),
            self.note,
            Tool(self.fail, metadata=tool_options(attempts=2)),
            self.big,
            Tool(self.later, metadata=tool_options(attempts=2, delay_s=60)),
            Tool(self.book, args_validator=self._check_book),
        ]
        self.agent: AgentDefinition[Any, str] = define_agent(
            "shop",
            model=following_model(turns or [script(*steps), final_turn("ok")]),
            tools=[code_tool(tools, **(limits or {}))],
            deps=options.pop("deps", "till 7"),
            deps_type=str,
            **options,
        )

    def find(self, name: str) -> dict[str, Any]:
        """Find somebody."""
        self._do("find", name)
        return {"id": len(name), "name": name, "orders": [{"no": 1, "cents": 50}, {"no": 2, "cents": 70}], "none": None}

    async def pay(self, ctx: RunContext[str], cents: int, to: str) -> dict[str, Any]:
        """Pay somebody."""
        self._do("pay", [cents, to])
        return {"paid": cents, "to": to, "at": ctx.deps}

    def note(self, text: Any) -> Any:
        """Write something down."""
        self._do("note", text)
        tool_step().update_state(lambda state: {"notes": [*(state["notes"] if state else ()), text]})
        return text

    async def fail(self, how: str) -> str:
        """Fail."""
        self._do("fail", how)
        if how == "retry":
            raise ModelRetry("say it otherwise")
        if how == "failed":
            raise ToolFailed("it is broken")
        if how == "once" and len([None for name, _ in self.calls if name == "fail"]) > 1:
            return "well"
        raise OSError(f"never: {how}")

    async def later(self, n: int) -> str:
        """Fail at first."""
        self._do("later", n)
        if [name for name, _ in self.calls].count("later") == 1:
            raise OSError("not now")
        return "at last"

    def big(self, chars: int) -> str:
        """Return a long text."""
        self._do("big", chars)
        return "x" * chars

    def book(self, day: int) -> str:
        """Book a day."""
        self._do("book", day)
        return f"day {day}"

    async def _check_book(self, ctx: RunContext[Any], day: int) -> None:
        self.checked.append(day)
        if day > 31:
            raise ModelRetry("no month has that many days")

    def _do(self, name: str, what: Any) -> None:
        self.before(name)
        self.done.append((tool_step().idempotency_key, [name, what]))

    @property
    def calls(self) -> list[Any]:
        """What was done, in order, without the keys."""
        return [what for _, what in self.done]

    def open(self, journal: Journal | str | None = None, **options: Any) -> ActorSystem:
        """Open a system with the shop."""
        where = MemoryJournal() if journal is None else journal
        return ActorSystem(where, agents=[self.agent], clock=self.clock, **options)

    def thread(self, system: ActorSystem) -> Thread[str]:
        """The conversation."""
        return system.thread(self.agent, "t", owner="ann")

    def told(self) -> Any:
        """Run the script to its end, replay it, and return what the model was told."""
        with self.open() as system:
            thread = self.thread(system)
            thread.run("go", run_id="r").result(timeout_s=WAIT_S)
            calls = len(self.done)
            assert replay(thread, self.agent).digests_equal
            assert len(self.done) == calls
            return told(thread)


def told(thread: Thread[Any], call: str = "c1") -> Any:
    """What the model was told came of a script."""
    [content] = [
        part.content
        for message in thread.messages()
        for part in message.parts
        if isinstance(part, ToolReturnPart) and part.tool_call_id == call
    ]
    return json.loads(content) if isinstance(content, str) else content
