"""Hypothesis strategies for whole conversations: all commands, few names and short times, so that they meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from clew.actors import ActorError, fold
from clew.actors.outbox import Acknowledge, Outgoing
from clew.actors.thread import (
    AlarmFired,
    AwaitSignal,
    CancelRun,
    CompleteStep,
    DoubtStep,
    EndChild,
    FailRun,
    FailStep,
    FinishRun,
    HaltRun,
    NoteNotified,
    PauseRun,
    RecoverRun,
    RequestApproval,
    Requester,
    ResolveApproval,
    ResumeRun,
    SendSignal,
    SettleStep,
    StartChild,
    StartRun,
    StartStep,
    SuspendRun,
    ThreadCommand,
    ThreadState,
    thread_decider,
)
from clew.journal.facts import NOTHING, ErrorFact, ThreadEvent
from tests.actors.story import raw

__all__ = ["NEW", "after", "commands", "histories", "taken"]

NEW = ThreadState(stream="thread/t")

runs = st.sampled_from(["r1", "r1", "r1", "r2", "r3"])
owners = st.sampled_from([None, None, None, None, "ann"])
steps = st.sampled_from(["s", "s", "s/in", "s/start"])
times = st.integers(0, 60)
attempts = st.integers(1, 3)
maybe_times = st.none() | times
values = st.one_of(st.none(), st.integers(0, 3), st.text(max_size=3)).map(raw)
requests = st.dictionaries(st.sampled_from(["model", "messages"]), st.text("0123456789abcdef", max_size=4))
errors = st.builds(ErrorFact, st.sampled_from(["Boom", "OSError"]), st.text(max_size=5))
usages = st.sampled_from([NOTHING, raw({"requests": 1})])
receivers = st.sampled_from(["account/a", "account/b"])
messages = st.lists(st.builds(Outgoing, receivers, st.just("pay"), values), max_size=2).map(tuple)
approvals = st.none() | steps
ids = st.sampled_from([f"i{n}" for n in range(6)])
names = st.sampled_from(["go", "stop", ""])
message_ids = st.builds(
    "{}/{}".format, runs, st.sampled_from(["end", "s:0", "s:1", "s/in:0", "s/start", "s/cancel", "s/in/start"])
)
fingerprints = st.sampled_from([None, "f1", "f2"])

starts = st.builds(
    StartRun,
    runs,
    st.just("agent"),
    values,
    owners,
    st.none(),
    times,
    concurrent=st.sampled_from(["reject", "replace", "queue", "queue", "queue"]),
    queue_max=st.integers(0, 3),
    queue_for=st.integers(0, 40),
    timeout=st.sampled_from([None, None, 10, 30, 0]),
    state=st.just(NOTHING) | values,
    requester=st.none() | st.builds(Requester, st.just("thread/p"), runs, steps),
)
suspends = st.builds(SuspendRun, runs, st.lists(st.sampled_from(["s", "s/in", "pause"]), max_size=2).map(tuple), times)
asks = st.builds(
    RequestApproval,
    runs,
    steps,
    st.just("tool"),
    steps,
    values,
    st.just("f1"),
    st.just("agent:agent/r1"),
    st.just("1"),
    st.booleans(),
    times,
    times,
)
resolves = st.builds(
    ResolveApproval,
    runs,
    steps,
    st.sampled_from(["approved", "approved", "rejected", "maybe"]),
    st.sampled_from([None, "ann", "agent:x"]),
    st.text(max_size=3),
    times,
    st.sampled_from([NOTHING, NOTHING, raw({"edited": 1})]),
    fingerprints,
)

ends: st.SearchStrategy[ThreadCommand] = st.one_of(
    st.builds(FinishRun, runs, st.sampled_from(["final", "max_turns"]), values, usages, values, times),
    st.builds(FailRun, runs, errors, times),
    st.builds(CancelRun, st.none() | runs, owners, st.text(max_size=5), times),
)

commands: st.SearchStrategy[ThreadCommand] = st.one_of(
    starts,
    st.builds(
        CompleteStep,
        runs,
        steps,
        requests,
        values,
        times,
        values,
        usages,
        state=st.none() | values,
        messages=messages,
        approval=approvals,
        outcome=st.sampled_from(["approved", "unknown", "unreadable"]),
    ),
    st.builds(FailStep, runs, steps, requests, attempts, st.booleans(), errors, times, values, maybe_times, approvals),
    st.builds(StartStep, runs, steps, attempts, st.booleans(), approvals, maybe_times, times),
    st.builds(DoubtStep, runs, steps, times),
    st.builds(
        SettleStep, runs, steps, st.sampled_from(["result", "retry", "fail"]), owners, owners, times, values, errors
    ),
    ends,
    st.builds(PauseRun, runs, owners, st.text(max_size=5), times),
    st.builds(HaltRun, runs, steps, st.integers(1, 9), st.just("result"), st.text(), st.text(), times),
    st.builds(ResumeRun, runs, owners, times),
    suspends,
    suspends,
    st.builds(RecoverRun, runs, st.integers(0, 2), times),
    asks,
    asks,
    resolves,
    resolves,
    st.builds(NoteNotified, runs, steps, times),
    st.builds(SendSignal, ids, names, values, owners, times),
    st.builds(AwaitSignal, runs, steps, names, maybe_times, times),
    st.builds(StartChild, runs, steps, st.just("helper"), st.just("thread/c"), st.just("c1"), values, times, times),
    st.builds(EndChild, runs, steps, st.sampled_from(["done", "failed"]), values, st.none() | errors, usages, times),
    st.builds(Acknowledge, message_ids, st.none() | errors, times),
    st.builds(AlarmFired, times),
)
waits = st.one_of(
    st.builds(AwaitSignal, st.just("r1"), steps, names, maybe_times, times),
    st.builds(StartChild, st.just("r1"), steps, *map(st.just, ("helper", "thread/c", "c1")), values, times, times),
    st.builds(FailStep, st.just("r1"), steps, requests, attempts, st.just(value=False), errors, times, values, times),
    asks.map(lambda asked: replace(asked, run="r1")),
)


def _parked(waiting: list[Any]) -> list[ThreadCommand]:
    return [*waiting, SuspendRun("r1", tuple(wait.step for wait in waiting), 0)]


def _doubted(claim: StartStep) -> list[ThreadCommand]:
    return [claim, DoubtStep("r1", claim.step, 0), SuspendRun("r1", (claim.step,), 0)]


def _joined(episodes: list[list[ThreadCommand]]) -> list[ThreadCommand]:
    return [command for episode in episodes for command in episode]


claims = st.builds(StartStep, st.just("r1"), steps, attempts, st.just(value=True), st.none(), maybe_times, times)
single = commands.map(lambda command: [command])
episodes = st.one_of(single, single, single, st.lists(waits, min_size=1, max_size=2).map(_parked), claims.map(_doubted))
# About a run that is there, so that histories go somewhere.
firsts: st.SearchStrategy[ThreadCommand] = st.builds(
    StartRun,
    st.just("r1"),
    st.just("agent"),
    values,
    st.sampled_from([None, None, None, "ann"]),
    st.none(),
    times,
    requester=st.none() | st.builds(Requester, st.just("thread/p"), runs, steps),
)
lengths = st.lists(episodes, max_size=8) | st.lists(episodes, min_size=15, max_size=30)
histories = st.tuples(firsts, lengths.map(_joined)).map(lambda parts: [parts[0], *parts[1]])


def after(history: Sequence[ThreadCommand]) -> tuple[ThreadState, list[ThreadEvent]]:
    """Let the commands be handled, refusals included, as an actor would."""
    state, happened = NEW, list[ThreadEvent]()
    for command in history:
        events = taken(state, command)
        state = fold(thread_decider, events, state)
        happened += events
    return state, happened


def taken(state: ThreadState, command: ThreadCommand) -> Sequence[ThreadEvent]:
    """Return what becomes of a command; nothing but a refusal may be raised."""
    try:
        return thread_decider.decide(state, command)
    except ActorError:
        return ()
