"""What must be true at the end of a simulation, whatever went wrong in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ...journal import GENESIS, Journal, RecordedEvent, category_of, chain, open_mark
from ...journal.facts import (
    ApprovalResolved,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunQueued,
    RunStarted,
    SignalReceived,
    SignalTaken,
    StepCompleted,
    StepSettled,
    ThreadEvent,
)
from ...projections import conversation, messages, view_of
from ..agent import replay
from ..agent.wire import load_messages
from ..recovery import recover
from .provider import invalid_for_provider
from .purses import PURSE, Fill, Filled

if TYPE_CHECKING:
    from .people import People
    from .workers import Workers
    from .world import World

__all__ = ["broken_laws"]

OUTSIDE = ("book", "count", "pay", "claim", "flaky")
"""The tools that do something outside."""

ENDS = (RunFinished, RunFailed, RunCancelled)


def broken_laws(world: World, workers: Workers, people: People) -> list[str]:
    """Return what is not as it must be, in words; nothing when all is well."""
    journal = world.journal
    threads = {head.stream: _facts(journal, head.stream) for head in journal.streams("thread")}
    return [
        *_unchained(journal),
        *(text for stream, facts in threads.items() for text in _wrong_runs(stream, facts)),
        *(text for stream in threads for text in _wrong_end(journal, stream)),
        *_lost(journal, threads, people),
        *_wrong_effects(threads, world.effects),
        *_wrong_money(journal, threads),
        *_diverged(journal, threads, workers),
        *(f"a request that no provider takes: {text}" for text in workers.refused),
    ]


def _facts(journal: Journal, stream: str) -> list[ThreadEvent]:
    return [cast("ThreadEvent", conversation.catalog.decode(event)) for event in journal.read(stream)]


def _unchained(journal: Journal) -> Iterator[str]:
    """Sequences have no gaps, positions rise, and each digest is that of what is before it."""
    ends: dict[str, tuple[int, bytes]] = {}
    position = 0
    for event in journal.read_all():
        sequence, digest = ends.get(event.stream, (0, GENESIS))
        if event.sequence != sequence + 1 or event.position <= position or _digest(digest, event) != event.digest:
            yield f"{event.stream}, sequence {event.sequence}: it does not follow sequence {sequence}"
        ends[event.stream], position = (event.sequence, event.digest), event.position


def _digest(before: bytes, event: RecordedEvent) -> bytes:
    return chain(before, event.canonical)


def _wrong_runs(stream: str, facts: list[ThreadEvent]) -> Iterator[str]:
    """A run begins once and ends once, one at a time; a step is recorded once, and a signal taken once."""
    begun, ended, steps, signals = Counter[str](), Counter[str](), Counter[tuple[str, str]](), Counter[str]()
    open_run: str | None = None
    for fact in facts:
        match fact:
            case RunStarted():
                if open_run is not None:
                    yield f"{stream}: run {fact.run} began while {open_run} was open"
                begun[fact.run] += 1
                open_run = fact.run
            case RunFinished() | RunFailed() | RunCancelled():
                ended[fact.run] += 1
                open_run = None if open_run == fact.run else open_run
            case StepCompleted():
                steps[fact.run, fact.step] += 1
                if ended[fact.run]:
                    yield f"{stream}: step {fact.step} of {fact.run} was recorded after its end"
            case SignalReceived() | SignalTaken():
                signals[f"{type(fact).__name__} {fact.id}"] += 1
            case _:
                pass
    for what, counts in (("run began", begun), ("run ended", ended), ("step ended", steps), ("signal", signals)):
        yield from (f"{stream}: {what} {count} times: {name}" for name, count in counts.items() if count > 1)
    yield from (f"{stream}: run {run} never ended" for run in begun if not ended[run])


def _wrong_end(journal: Journal, stream: str) -> Iterator[str]:
    """A provider would take the conversation, the state counts what was counted, and nothing is left to be done."""
    events = list(journal.read(stream))
    view = view_of(events)
    said = load_messages(messages(events))
    # A conversation ends with an answer; a provider gets it with the next prompt behind it.
    wrong = [text for text in invalid_for_provider(said) if "begin and end" not in text]
    yield from (f"{stream}: its messages are not valid: {text}" for text in wrong)
    yield from (f"{stream}: run {run.run} is {run.status}" for run in view.runs if run.ended_at is None)
    counted = sum(_is_call(fact, "count") for fact in _facts(journal, stream))
    state = cast("dict[str, int] | None", msgspec.json.decode(view.state))
    if (state or {"count": 0})["count"] != counted:
        yield f"{stream}: its state is {state} after {counted} steps that count"
    if journal.cells.get(open_mark(stream)) is not None:
        yield f"{stream}: it has open work, and nothing happens any more"


def _is_call(fact: ThreadEvent, tool: str) -> bool:
    return isinstance(fact, StepCompleted) and fact.step.startswith(f"tool:{tool}:") and "/" not in fact.step


def _lost(journal: Journal, threads: Mapping[str, list[ThreadEvent]], people: People) -> Iterator[str]:
    """What was acknowledged is there, and there as it was told."""
    causes = Counter(event.cause for event in journal.read_all() if category_of(event.stream) == "purse")
    for name, answer in people.known.items():
        what, where, run = name.split(" ")
        facts = threads.get(f"thread/{where}", [])
        if isinstance(answer, Exception):
            continue
        match what:
            case "start":
                there = any(isinstance(fact, RunStarted | RunQueued) and fact.run == run for fact in facts)
            case "signal":
                there = any(isinstance(fact, SignalReceived) and fact.id == f"signal of {run}" for fact in facts)
            case "cancel":
                there = any(isinstance(fact, ENDS) and fact.run == run for fact in facts)
            case "fill" | "pay":
                there = causes[f"{what}{run}"] > 0
            case _:
                there = True
        if not there:
            yield f"{name!r} was acknowledged, and nothing of it is recorded"
    for (stream, id_), decision in people.decided.items():
        run, _, step = id_.partition("/")
        found = [
            fact.decision
            for fact in threads.get(f"thread/{stream}", [])
            if isinstance(fact, ApprovalResolved) and (fact.run, fact.step) == (run, step)
        ]
        if found != [decision]:
            yield f"thread/{stream}: {id_} was acknowledged as {decision}, and {found} is recorded"


def _wrong_effects(threads: Mapping[str, list[ThreadEvent]], effects: Mapping[str, int]) -> Iterator[str]:
    """What is recorded as done was done; what was refused was not; what may be done once was not done twice."""
    done, allowed, retried = set[str](), set[str](), Counter[str]()
    for stream, facts in threads.items():
        settled = set[str]()
        for fact in facts:
            match fact:
                case StepSettled():
                    settled.add(f"{fact.run}/{fact.step}")
                    retried[f"{stream}/{fact.run}/{fact.step}"] += fact.outcome == "retry"
                case ApprovalResolved() if fact.decision == "approved":
                    allowed.add(f"{stream}/{fact.run}/tool:pay:{fact.step.rpartition(':')[2]}")
                case StepCompleted() if any(_is_call(fact, tool) for tool in OUTSIDE):
                    # What somebody said of a step in doubt is their word, and no more.
                    if f"{fact.run}/{fact.step}" not in settled:
                        done.add(f"{stream}/{fact.run}/{fact.step}")
                case _:
                    pass
    paid = {key for key in effects if "/tool:pay:" in key}
    asked_for = {key for key in done if "/tool:pay:" not in key or key in allowed}
    yield from (f"{key} is recorded as done, and was not" for key in sorted(asked_for - effects.keys()))
    yield from (f"{key} was done, though nobody approved it" for key in sorted(paid - allowed))
    for key, count in effects.items():
        if "/tool:claim:" in key and count > 1 + retried[key]:
            yield f"{key} may be done once, and was asked for {count} times"


def _wrong_money(journal: Journal, threads: Mapping[str, list[ThreadEvent]]) -> Iterator[str]:
    """No cent was made or lost."""
    purses = {head.stream: recover(PURSE, head.stream, journal).state for head in journal.streams("purse")}
    given = sum(_is_call(fact, "gift") for facts in threads.values() for fact in facts)
    filled = sum(
        fact.cents
        for stream in purses
        for event in journal.read(stream)
        if event.cause.startswith("fill") and isinstance(fact := PURSE.catalog.decode(event), Filled)
    )
    there = sum(purse.cents for purse in purses.values())
    if there != given * Fill(1).cents + filled:
        yield f"{there} cents are in the purses, and {filled} were put in and {given} given"
    yield from (f"{stream}: messages are still under way" for stream, purse in purses.items() if purse.outbox.waiting)


def _diverged(journal: Journal, threads: Mapping[str, list[ThreadEvent]], workers: Workers) -> Iterator[str]:
    """Replay calls nothing, and ends in the same digests."""
    for stream in threads:
        try:
            replayed = replay(journal.read(stream), *cast("list[Any]", workers.agents))
        except Exception as error:  # noqa: BLE001  (whatever it is, it should not be)
            yield f"{stream}: replay raised {type(error).__name__}: {error}"
            continue
        if not replayed.digests_equal:
            yield f"{stream}: replay ends in another digest"
