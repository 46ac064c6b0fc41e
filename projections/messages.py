"""The messages of a conversation, folded from its events, in the form pydantic-ai stores them.

Roles and order are what a model provider accepts, whatever happened in between: every tool call is followed by its
result, in the order of the calls; when a run ends, a call without a result gets one that says what is known of it. A
run that is queued says nothing before it is begun.

The journal keeps each thing once: a turn's `tail` refers to the prompt and to tool results instead of repeating them,
and is made whole here.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec

from ..journal import Catalog, RecordedEvent
from ..journal.facts import (
    THREAD_EVENTS,
    ApprovalRequested,
    ApprovalResolved,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunStarted,
    StepCompleted,
    StepFailed,
    StepStarted,
    ThreadEvent,
)
from .gates import AWAITS_DECISION, NOT_RUN, Gates
from .projection import Projection, project

__all__ = [
    "AWAITS_DECISION",
    "FROM_PROMPT",
    "FROM_STEP",
    "INTERRUPTED",
    "NOT_RUN",
    "SAME_INSTRUCTIONS",
    "Conversation",
    "Message",
    "conversation",
    "messages",
]

Message = dict[str, Any]
"""One message as JSON: `kind` is `request` or `response`, `parts` its parts."""

FROM_PROMPT = "from_prompt"
"""A part of a tail with this is the run's prompt."""

FROM_STEP = "from_step"
"""A part of a tail with this is the result of the tool step of this name, with whatever else the part says."""

SAME_INSTRUCTIONS = "same_instructions"
"""In a message of a tail: the instructions are those of the run's message before."""

INTERRUPTED = (
    "The tool was interrupted before its result was recorded. It may or may not have taken effect; "
    "check before calling it again."
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Conversation:
    """The messages so far, and what is known of the run that is open."""

    def __init__(self) -> None:
        self._settled: list[Message] = []
        self._run: str | None = None
        self._prompt: Any = None
        self._asked = False
        self._instructions: str | None = None
        self._clock = 0
        self._calls: list[Message] = []
        self._results: dict[str, Any] = {}
        self._gates = Gates()

    def messages(self) -> list[Message]:
        """Return all messages, with what is known of the turn under way."""
        return self._settled + self._under_way()

    def apply(self, event: ThreadEvent, _: RecordedEvent) -> Conversation:
        """Take in one event."""
        match event:
            case RunStarted():
                self._begin(event)
            case StepCompleted():
                self._complete(event)
            case StepFailed() if "/" not in event.step:
                self._clock = max(self._clock, event.at)
            case RunFinished():
                self._add_tail(event.tail)
                self._close("the run ended")
            case RunFailed():
                self._close("the run failed")
            case RunCancelled():
                # One that is cancelled while it is queued has said nothing.
                if event.run == self._run:
                    self._close("cancelled")
            case ApprovalRequested() | ApprovalResolved() | StepStarted():
                self._gates.take(event)
            case _:
                pass
        return self

    def _begin(self, event: RunStarted) -> None:
        self._run, self._prompt, self._clock = event.run, msgspec.json.decode(event.prompt), event.at
        self._asked, self._instructions = False, None

    def _close(self, why: str) -> None:
        """End the run, with an answer to every open call, so that what follows is what a provider accepts."""
        if not self._asked:
            self._settled += self._under_way()
        elif self._calls:
            self._settled.append(self._request([self._return_of(call, why) for call in self._calls]))
        self._run, self._calls, self._results = None, [], {}
        self._gates = Gates()

    def _complete(self, event: StepCompleted) -> None:
        if "/" in event.step:
            # A step of a sub-agent within a tool is that tool's own affair.
            return
        if event.step.startswith("tool:"):
            self._results[event.step] = msgspec.json.decode(event.result)
        elif event.step.startswith("llm:turn:"):
            self._add_tail(event.tail)
            response = cast("Message", msgspec.json.decode(event.result))
            self._settled.append(response)
            self._calls = [part for part in response["parts"] if part["part_kind"] == "tool-call"]
        self._clock = max(self._clock, event.at)

    def _add_tail(self, tail: msgspec.Raw) -> None:
        told = cast("list[Message] | None", msgspec.json.decode(tail))
        if told:
            self._settled += [self._whole(message) for message in told]
            self._asked, self._calls = True, []

    def _whole(self, message: Message) -> Message:
        """Put back what a tail leaves out."""
        if message.pop(SAME_INSTRUCTIONS, False):
            message["instructions"] = self._instructions
        self._instructions = message.get("instructions")
        parts = [{"timestamp": _iso(self._clock), **self._whole_part(part)} for part in message["parts"]]
        own = {"kind": "request", "timestamp": _iso(self._clock), "run_id": self._run}
        return {**own, **message, "parts": parts}

    def _whole_part(self, part: Message) -> Message:
        if FROM_PROMPT in part:
            return {"part_kind": "user-prompt", "content": self._prompt}
        if (step := part.pop(FROM_STEP, None)) is None:
            return part
        call = next(call for call in self._calls if _step_of(call) == step)
        return {**self._return_of(call), "content": self._results[step]["result"], **part}

    def _under_way(self) -> list[Message]:
        if self._run is None:
            return []
        if not self._asked:
            return [self._request([{"part_kind": "user-prompt", "content": self._prompt}])]
        known = [call for call in self._calls if self._is_known(_step_of(call))]
        return [self._request([self._return_of(call) for call in known])] if known else []

    def _is_known(self, step: str) -> bool:
        return step in self._results or self._gates.awaits_decision(step)

    def _return_of(self, call: Message, ended: str | None = None) -> Message:
        """Return the result of a call, or what is known of it; `ended` says how the run did."""
        part: Message = {
            "part_kind": "tool-return",
            "tool_name": call["tool_name"],
            "tool_call_id": call["tool_call_id"],
        }
        step = _step_of(call)
        recorded = self._results.get(step, {})
        if not isinstance(recorded, dict):
            # Somebody settled the step in words of their own.
            return {**part, "content": recorded, "outcome": "success"}
        result = cast("Message", recorded)
        if "result" in result:
            return {**part, "content": _returned(result), "outcome": "success"}
        for why in ("message", "errors"):
            if why in result:
                return {**part, "content": result[why], "outcome": "failed"}
        unknown = INTERRUPTED if step in self._results else self._gates.why_not_run(step, ended) or INTERRUPTED
        return {**part, "content": unknown, "outcome": "interrupted"}

    def _request(self, parts: list[Message]) -> Message:
        stamp = _iso(self._clock)
        stamped = [{**part, "timestamp": stamp} for part in parts]
        return {"kind": "request", "parts": stamped, "timestamp": stamp, "run_id": self._run}


def _returned(result: Message) -> object:
    """Return what a tool returned, out of pydantic-ai's own wrapper around it."""
    content = result["result"]
    # A tool's own value may look like the wrapper; then it is marked as what it is.
    if result.get("kind") != "tool_content_result" and isinstance(content, dict):
        wrapped = cast("Message", content)
        return wrapped.get("return_value") if wrapped.get("kind") == "tool-return" else wrapped
    return content


def _step_of(call: Message) -> str:
    return f"tool:{call['tool_name']}:{call['tool_call_id']}"


def _iso(at: int) -> str:
    return (_EPOCH + timedelta(microseconds=at // 1000)).isoformat().replace("+00:00", "Z")


conversation: Projection[Conversation, ThreadEvent] = Projection(
    name="messages",
    version=2,
    catalog=Catalog(*THREAD_EVENTS),
    initial=Conversation,
    apply=Conversation.apply,
)
"""The conversation of one thread."""


def messages(events: Iterable[RecordedEvent]) -> list[Message]:
    """Return the messages of a thread from its recorded events."""
    return project(conversation, events).messages()
