"""What the journal holds of a run, found in its thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import msgspec

from ...journal import RecordedEvent
from ...journal.facts import RunDeadlineSet, RunStarted, SignalReceived, StateSet, ThreadEvent, ThreadOpened
from ...projections import Conversation, conversation, project
from .compaction_brief import Brief, last_brief
from .recorded import Waits, waits_of

__all__ = ["CATALOG", "RecordedRun", "recorded_run"]

CATALOG = conversation.catalog


@dataclass(frozen=True)
class RecordedRun:
    """What the journal holds of a run: how it was asked for, what was said before, and its own events.

    `brief` is the last one of what was said before; `prompts` are those of all runs up to this one.
    """

    stream: str
    owner: str | None
    started: RunStarted
    before: Conversation
    events: list[tuple[RecordedEvent, ThreadEvent]]
    state: msgspec.Raw | None
    waits: Waits
    deadline: int | None
    brief: Brief | None = None
    prompts: tuple[msgspec.Raw, ...] = ()


def recorded_run(stream: str, run: str, events: list[RecordedEvent]) -> RecordedRun:
    """Find a run in a thread's events.

    Raises:
        LookupError: there is no such run.
    """
    decoded = [(event, cast("ThreadEvent", CATALOG.decode(event))) for event in events if CATALOG.knows(event)]
    owner, state = None, None
    for index, (_, event) in enumerate(decoded):
        match event:
            case ThreadOpened():
                owner = event.owner
            case RunStarted() if event.run == run:
                before = project(conversation, (recorded for recorded, _ in decoded[:index]))
                later = [pair for pair in decoded[index:] if getattr(pair[1], "run", run) == run]
                state = next((e.value for _, e in reversed(decoded) if isinstance(e, StateSet)), None)
                payloads = {e.id: e.payload for _, e in decoded if isinstance(e, SignalReceived)}
                waits = waits_of((e for _, e in later), payloads)
                due = next((e.due for _, e in later if isinstance(e, RunDeadlineSet)), None)
                prompts = tuple(e.prompt for _, e in decoded[: index + 1] if isinstance(e, RunStarted))
                brief = last_brief(e for _, e in decoded[:index])
                return RecordedRun(stream, owner, event, before, later, state, waits, due, brief, prompts)
            case _:
                pass
    raise LookupError(f"{stream}: there is no run {run!r}")
