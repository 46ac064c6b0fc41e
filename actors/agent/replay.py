"""Replay: run the loop again against the journal alone.

Nothing is called: a step that is not recorded is not run, and where the recorded run was interrupted the replay ends.
Every fact that the loop decides is decided again and compared with the recorded one, field by field; the digest of
the replayed stream is computed from what was decided again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pydantic_ai import Agent

from ...journal import GENESIS, RecordedEvent, category_of, chain, read_history
from ...journal.facts import RunCancelled, RunFailed, RunFinished, RunHalted, RunStarted, ThreadEvent
from ..errors import ReplayDivergence, UnknownKind
from ..thread import RUN_TIMED_OUT
from .budget import was_refused
from .definition import AgentDefinition, register
from .drive import drive_agent
from .meaning import same_meaning
from .recorded import HistoryEnds
from .recorded_run import CATALOG, RecordedRun, recorded_run
from .steps import RunSteps

if TYPE_CHECKING:
    from .handle import Thread

__all__ = ["Replayed", "ReplayedRun", "replay"]


@dataclass(frozen=True)
class ReplayedRun:
    """One replayed run: how it ended (`interrupted` where the history stops), and the steps it took from it."""

    stream: str
    run: str
    ended: str
    stopped: str | None
    output: Any
    steps: tuple[str, ...]


@dataclass(frozen=True)
class Replayed:
    """What a replay found: the runs, and for each stream the recorded and the replayed head digest, which are equal."""

    runs: tuple[ReplayedRun, ...]
    digests: dict[str, tuple[str, str]]

    @property
    def digests_equal(self) -> bool:
        """Whether every replayed stream ends in the recorded digest."""
        return all(recorded == replayed for recorded, replayed in self.digests.values())

    @property
    def output(self) -> Any:
        """The output of the last run, as JSON values."""
        return self.runs[-1].output if self.runs else None


def replay(
    source: str | Path | Thread[Any] | Iterable[RecordedEvent],
    *agents: Agent[Any, Any] | AgentDefinition[Any, Any],
) -> Replayed:
    """Replay every run of a history file, a thread or recorded events with the agents that drove them.

    No model and no tool is called. Instructions, validators, output functions and hooks run again, as in a recovery.

    Raises:
        ReplayDivergence: the loop decides otherwise than was recorded; says where, and what differs.
        UnknownKind: a run's agent is not among `agents`.
        InvalidHistory: the file is not a history.
    """
    events = _events(source)
    definitions = register(agents)
    # On a thread of its own, so that it works inside a running event loop too.
    with ThreadPoolExecutor(1, thread_name_prefix="clew-replay") as pool:
        return pool.submit(lambda: asyncio.run(_replay(events, definitions))).result()


def _events(source: str | Path | Thread[Any] | Iterable[RecordedEvent]) -> list[RecordedEvent]:
    if isinstance(source, str | Path):
        return read_history(source)
    return list(source if isinstance(source, Iterable) else source.events())


async def _replay(events: list[RecordedEvent], definitions: dict[str, AgentDefinition[Any, Any]]) -> Replayed:
    by_stream: dict[str, list[RecordedEvent]] = {}
    for event in events:
        if category_of(event.stream) == "thread":
            by_stream.setdefault(event.stream, []).append(event)
    runs: list[ReplayedRun] = []
    digests: dict[str, tuple[str, str]] = {}
    for stream, own in by_stream.items():
        rebuilt: dict[int, ThreadEvent] = {}
        for event in own:
            fact = CATALOG.decode(event)
            if isinstance(fact, RunStarted):
                runs.append(await _replay_run(stream, fact, own, definitions, rebuilt))
        digests[stream] = (own[-1].digest.hex(), _digest(own, rebuilt).hex())
    return Replayed(tuple(runs), digests)


async def _replay_run(
    stream: str,
    started: RunStarted,
    events: list[RecordedEvent],
    definitions: dict[str, AgentDefinition[Any, Any]],
    rebuilt: dict[int, ThreadEvent],
) -> ReplayedRun:
    definition = definitions.get(started.agent)
    if definition is None:
        raise UnknownKind(name=started.agent, known=tuple(definitions))
    recorded = recorded_run(stream, started.run, events)
    end = next(((r, e) for r, e in reversed(recorded.events) if isinstance(e, RunFinished | RunFailed)), None)
    cut = next((e for _, e in recorded.events if isinstance(e, RunCancelled | RunHalted)), None)
    # Nor did the loop decide about a run that never began.
    not_by_loop = end is not None and (_timed_out(recorded, end[1]) or _refused(recorded, end[1]))
    steps: RunSteps | None = None
    try:
        steps, now = await drive_agent(definition, recorded, None, lambda: 0, resume=False)
    except HistoryEnds as ends:
        if not_by_loop:
            return ReplayedRun(stream, started.run, "failed", None, None, ())
        if end is not None:
            raise _unrecorded(stream, started.run, end[0], str(ends)) from None
        name = "cancelled" if isinstance(cut, RunCancelled) else "interrupted"
        return ReplayedRun(stream, started.run, name, None, None, ())
    rebuilt.update(steps.record.rebuilt)
    if end is None:
        return ReplayedRun(stream, started.run, "interrupted", None, None, tuple(steps.record.replayed))
    if not_by_loop:
        # The alarm ended it, like a cancel from outside: what the loop was about to say then does not count.
        return ReplayedRun(stream, started.run, "failed", None, None, tuple(steps.record.replayed))
    rebuilt[end[0].sequence] = _compare(stream, end[0], end[1], now)
    return _replayed(stream, now, steps)


def _timed_out(recorded: RecordedRun, end: RunFinished | RunFailed) -> bool:
    """Whether the thread's alarm ended a run, and not its own loop."""
    late = recorded.deadline is not None and end.at >= recorded.deadline
    return late and isinstance(end, RunFailed) and end.error.type == RUN_TIMED_OUT


def _refused(recorded: RecordedRun, end: RunFinished | RunFailed) -> bool:
    """Whether a run ended before it began, for there was no budget left."""
    return isinstance(end, RunFailed) and was_refused(recorded, end.error.type)


def _replayed(stream: str, end: RunFinished | RunFailed, steps: RunSteps) -> ReplayedRun:
    taken = tuple(steps.record.replayed)
    if isinstance(end, RunFailed):
        return ReplayedRun(stream, end.run, "failed", None, None, taken)
    return ReplayedRun(stream, end.run, "done", end.stopped, msgspec.json.decode(end.output), taken)


def _compare(
    stream: str, recorded: RecordedEvent, then: RunFinished | RunFailed, now: RunFinished | RunFailed
) -> RunFinished | RunFailed:
    """Compare how a run ended, field by field; the time is the recorded one."""
    now = msgspec.structs.replace(now, at=then.at)
    if isinstance(then, RunFinished) and isinstance(now, RunFinished) and same_meaning(then.tail, now.tail):
        now = msgspec.structs.replace(now, tail=then.tail)
    if isinstance(then, RunFinished) and isinstance(now, RunFinished) and _same_use(then.usage, now.usage):
        now = msgspec.structs.replace(now, usage=then.usage)
    if type(then) is not type(now):
        fields = [("outcome", _end_text(then), _end_text(now))]
    else:
        fields = [(name, _text(getattr(then, name)), _text(getattr(now, name))) for name in then.__struct_fields__]
    for field, expected, actual in fields:
        if expected != actual:
            raise ReplayDivergence(
                stream=stream,
                sequence=recorded.sequence,
                run=then.run,
                step="end",
                field=field,
                expected=expected,
                actual=actual,
            )
    return now


def _same_use(then: msgspec.Raw, now: msgspec.Raw) -> bool:
    """Whether the same was used, where only the end of the run says what it cost: steps of earlier versions do not."""
    told, again = msgspec.json.decode(then), msgspec.json.decode(now)
    return "cost" not in again and {key: value for key, value in told.items() if key != "cost"} == again


def _unrecorded(stream: str, run: str, end: RecordedEvent, step: str) -> ReplayDivergence:
    return ReplayDivergence(
        stream=stream, sequence=end.sequence, run=run, step=step, field="step", expected="(the run ended)", actual=step
    )


def _digest(events: list[RecordedEvent], rebuilt: dict[int, ThreadEvent]) -> bytes:
    """Return the head digest of the stream as it was decided again; what came from outside is taken as it was."""
    digest = GENESIS
    for event in events:
        again = rebuilt.get(event.sequence)
        canonical = event.canonical if again is None else CATALOG.encode(again)[0].canonical
        digest = chain(digest, canonical)
    return digest


def _text(value: object) -> str:
    if isinstance(value, msgspec.Raw):
        return bytes(value).decode()
    return msgspec.json.encode(value).decode()


def _end_text(end: RunFinished | RunFailed) -> str:
    if isinstance(end, RunFailed):
        return f"failed with {end.error.type}: {end.error.message}"
    return f"finished: {end.stopped}"
