"""Threads made up for measuring: the events that an agent's conversation leaves, with real prose and results in them.

They have the fields, lengths and repetitions of recorded ones; nobody said what is in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from clew.journal import Catalog, NewEvent
from clew.journal.facts import (
    NOTHING,
    THREAD_EVENTS,
    ErrorFact,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunStarted,
    StateSet,
    StepCompleted,
    StepFailed,
    ThreadEvent,
    ThreadOpened,
)

__all__ = ["CATALOG", "Source", "Tool", "data_of", "encode_thread", "thread"]

CATALOG: Final = Catalog(*THREAD_EVENTS)

_Json: TypeAlias = dict[str, Any]

Tool = Callable[[Random], tuple[_Json, Any]]
"""Makes the arguments of one call, and its result."""

_NO_FILES: Final[list[str]] = []
_HEX: Final = "0123456789abcdef"
_LETTERS: Final = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz123456789"


class Source(NamedTuple):
    """What threads are made of: paragraphs, and tools by name."""

    prose: Sequence[str]
    tools: Mapping[str, Tool]


def thread(random: Random, source: Source, *, runs: int) -> Iterator[ThreadEvent]:
    """Yield the events of a conversation of so many runs, each of one to four turns of the model."""
    writer = _Writer(random, source)
    yield writer.opened()
    for _ in range(runs):
        yield from writer.run()


def encode_thread(random: Random, source: Source, *, runs: int, events_max: int | None = None) -> list[NewEvent]:
    """Return such a conversation ready to append, or its beginning, with causes as long as those of a real one."""
    return [
        CATALOG.encode(fact, cause=f"{fact.run}/{fact.step}" if isinstance(fact, StepCompleted) else _hex(random, 34))[
            0
        ]
        for fact in islice(thread(random, source, runs=runs), events_max)
    ]


def data_of(canonical: bytes) -> bytes:
    """Return the event's own fields, which are what a segment holds."""
    return canonical[canonical.index(b',"data":') + 8 : -1]


class _Provider(NamedTuple):
    """What a model's provider adds to each of its answers."""

    model: str
    fields: _Json
    call_id: str
    finish: tuple[str, str]
    """What it calls the end of an answer, and a wish for a tool."""


_PROVIDERS: Final = (
    _Provider("support-model-2", {}, "call_{}", ("", "")),
    _Provider(
        "claude-sonnet-4-5",
        {"provider_name": "anthropic", "provider_url": "https://api.anthropic.com"},
        "toolu_01{}",
        ("end_turn", "tool_use"),
    ),
    _Provider(
        "gpt-5.2",
        {"provider_name": "openai", "provider_url": "https://api.openai.com/v1/"},
        "call_{}",
        ("completed", "completed"),
    ),
)


class _Writer:
    """One conversation under way: its agent, its provider, its clock."""

    def __init__(self, random: Random, source: Source) -> None:
        self._random = random
        self._source = source
        self._at = random.randint(1_700_000_000, 1_900_000_000) * 1_000_000_000 + random.randrange(1_000_000_000)
        self._provider = random.choice(_PROVIDERS)
        self._agent = (
            f"{random.choice(('support', 'research', 'booking', 'review'))}_{random.choice(('desk', 'agent'))}"
        )
        self._owner = f"customer-{random.randint(1, 99_999)}"
        self._instructions = self._words(2)
        self._fixed = {name: _hex(random, 16) for name in ("instructions", "output", "settings", "tools")}

    def opened(self) -> ThreadOpened:
        return ThreadOpened(owner=self._owner, title=self.title(), at=self.now())

    def title(self) -> str:
        return self._words(1)[:60].split("\n")[0]

    def now(self) -> int:
        self._at += self._random.randint(1_000_000, 4_000_000_000)
        return self._at

    def run(self) -> Iterator[ThreadEvent]:
        """Yield the events of one run."""
        random, run = self._random, f"run-{_hex(self._random, 12)}"
        yield RunStarted(run=run, agent=self._agent, prompt=_raw(self._words(1)), at=self.now())
        tail: list[_Json] = [{"parts": [{"from_prompt": True}], "instructions": self._instructions}]
        turns = random.choice((1, 2, 2, 3, 4))
        for turn in range(1, turns):
            calls = [self._call() for _ in range(random.choice((1, 1, 1, 2)))]
            said: list[_Json] = [{"content": self._words(1)[:160], "part_kind": "text"}]
            asked = [call for call, _ in calls]
            yield self._turn(run, turn, said + asked if random.random() < 0.5 else asked, tail, wants_tool=True)
            steps = [f"tool:{call['tool_name']}:{call['tool_call_id']}" for call in asked]
            for step, (_, result) in zip(steps, calls, strict=True):
                yield from self._tool(run, step, result)
            parts: list[_Json] = [
                {"from_step": step, "outcome": "success", "content_file_digests": _NO_FILES} for step in steps
            ]
            tail = [{"parts": parts, "same_instructions": True}]
        if random.random() < 0.04:
            yield self._broken_off(run)
            return
        answer = self._words(random.choice((1, 1, 2, 3)))
        yield self._turn(run, turns, [{"content": answer, "part_kind": "text"}], tail, wants_tool=False)
        usage = {"input_tokens": random.randint(900, 90_000), "output_tokens": random.randint(50, 3000)}
        counted = _raw({**usage, "requests": turns, "tool_calls": turns - 1})
        yield RunFinished(run=run, stopped="final", output=_raw(answer), usage=counted, tail=NOTHING, at=self.now())

    def _broken_off(self, run: str) -> ThreadEvent:
        if self._random.random() < 0.5:
            return RunCancelled(run=run, by=self._owner, reason="cancelled", at=self.now())
        error = ErrorFact(type="UsageLimitExceeded", message="The next request would exceed the request_limit of 50")
        return RunFailed(run=run, error=error, at=self.now())

    def _tool(self, run: str, step: str, result: object) -> Iterator[ThreadEvent]:
        random, request = self._random, {"arguments": _hex(self._random, 16)}
        if random.random() < 0.04:
            error = ErrorFact(type="TimeoutError", message="The service did not answer in 30 seconds.")
            yield StepFailed(run=run, step=step, request=request, attempt=1, final=False, error=error, at=self.now())
        kept: _Json = {"result": result, "kind": "tool_return", "content_file_digests": _NO_FILES}
        yield StepCompleted(run=run, step=step, request=request, result=_raw(kept), at=self.now())
        if random.random() < 0.08:
            state = {"status": "working", "seen": random.randint(1, 60), "note": self.title()}
            yield StateSet(run=run, step=step, value=_raw(state))

    def _call(self) -> tuple[_Json, Any]:
        name = self._random.choice(list(self._source.tools))
        arguments, result = self._source.tools[name](self._random)
        call_id = self._provider.call_id.format("".join(self._random.choices(_LETTERS, k=22)))
        # Some providers send arguments as an object, the others as text.
        args = arguments if self._provider.model.startswith("claude") else msgspec.json.encode(arguments).decode()
        return {"tool_name": name, "args": args, "tool_call_id": call_id, "part_kind": "tool-call"}, result

    def _turn(self, run: str, turn: int, parts: list[_Json], tail: list[_Json], *, wants_tool: bool) -> StepCompleted:
        random, provider = self._random, self._provider
        at = self.now()
        usage = {"input_tokens": random.randint(400, 40_000), "output_tokens": random.randint(10, 1500)}
        if provider.fields:
            usage["cache_read_tokens"] = random.randint(400, 40_000)
        result: _Json = {
            "parts": parts,
            "usage": usage,
            "model_name": provider.model,
            "timestamp": datetime.fromtimestamp(at // 1_000_000_000, UTC).isoformat().replace("+00:00", "Z"),
            "kind": "response",
            **provider.fields,
        }
        if provider.fields:
            result["provider_details"] = {"finish_reason": provider.finish[wants_tool]}
            result["provider_response_id"] = "msg_01" + "".join(random.choices(_LETTERS, k=22))
            result["finish_reason"] = "tool_call" if wants_tool else "stop"
        result["state"] = "complete"
        fixed = self._fixed
        request = {
            "instructions": fixed["instructions"],
            "messages": _hex(random, 16),
            "model": provider.model,
            "output": fixed["output"],
            "settings": fixed["settings"],
            "tools": fixed["tools"],
        }
        return StepCompleted(
            run=run, step=f"llm:turn:{turn}", request=request, result=_raw(result), at=at, tail=_raw(tail)
        )

    def _words(self, paragraphs: int) -> str:
        return "\n\n".join(self._random.choice(self._source.prose) for _ in range(paragraphs))


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _hex(random: Random, length: int) -> str:
    return "".join(random.choices(_HEX, k=length))
