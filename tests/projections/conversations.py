"""Conversations as the agent loop records them, for the tests of what is folded from them."""

from __future__ import annotations

from typing import Any

from pydantic_ai.messages import ModelMessage

from clew.actors.agent.wire import load_messages
from clew.actors.thread import CompleteStep, ThreadCommand
from clew.journal import RecordedEvent
from clew.projections import Message, messages
from tests.actors.story import complete, finish, start

SECOND = 1_000_000_000


def call(id_: str, name: str = "add", args: object = None) -> Message:
    return {"tool_name": name, "args": {} if args is None else args, "tool_call_id": id_, "part_kind": "tool-call"}


def text(content: str) -> Message:
    return {"content": content, "part_kind": "text"}


def prompt_tail(instructions: str | None = "Be kind.") -> list[Message]:
    """The tail of a first turn: the prompt, and the instructions."""
    message: Message = {"parts": [{"from_prompt": True}]}
    return [message if instructions is None else {**message, "instructions": instructions}]


def results_tail(*ids: str, name: str = "add") -> list[Message]:
    """The tail of a later turn: the results of these calls."""
    return [{"parts": [{"from_step": f"tool:{name}:{id_}"} for id_ in ids], "same_instructions": True}]


def turn(number: int, *parts: Message, tail: object, run: str = "r1", step: str = "llm:turn") -> CompleteStep:
    response = {
        "parts": list(parts),
        "usage": {"input_tokens": 10, "output_tokens": 2},
        "model_name": "m",
        "timestamp": "2026-01-01T00:00:00Z",
        "kind": "response",
        "state": "complete",
    }
    return complete(f"{step}:{number}", run=run, result=response, tail=tail, at=number * SECOND)


def tool(id_: str, value: object, *, run: str = "r1", name: str = "add", at: int = SECOND) -> CompleteStep:
    return complete(f"tool:{name}:{id_}", run=run, result={"result": value, "kind": "tool_return"}, at=at)


def retry(id_: str, why: str, *, run: str = "r1", name: str = "add") -> CompleteStep:
    return complete(f"tool:{name}:{id_}", run=run, result={"message": why, "kind": "model_retry"}, at=SECOND)


def whole_run(run: str = "r1", *, ids: tuple[str, str, str] = ("a", "b", "c")) -> list[ThreadCommand]:
    """A run of three turns with three calls, the first two of them at once and finished the other way round."""
    a, b, c = ids
    return [
        start(run, prompt=f"add it up, {run}", owner="ann"),
        turn(1, text("Let me see."), call(a), call(b), tail=prompt_tail(), run=run),
        tool(b, 4, run=run),
        tool(a, 2, run=run),
        turn(2, call(c), tail=results_tail(a, b), run=run),
        tool(c, [6, None, "six"], run=run),
        turn(3, text("It is 12."), tail=results_tail(c), run=run),
        finish(run, output="It is 12.", usage={"requests": 3, "input_tokens": 30, "output_tokens": 6, "tool_calls": 3}),
    ]


def said(events: list[RecordedEvent]) -> list[ModelMessage]:
    """What was said, as pydantic-ai's own messages."""
    return load_messages(messages(events))


def outline(events: list[RecordedEvent]) -> list[Any]:
    """Who said what: a word or a call's id in each place, results as `id=content`."""
    return [[_part(part) for part in message["parts"]] for message in messages(events)]


def _part(part: Message) -> str:
    match part["part_kind"]:
        case "tool-call":
            return f"{part['tool_call_id']}?"
        case "tool-return":
            marks = {"success": "=", "interrupted": "!", "failed": "~"}
            return f"{part['tool_call_id']}{marks.get(part.get('outcome', 'success'), '*')}{part['content']}"
        case _:
            return str(part["content"])
