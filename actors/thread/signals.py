"""What a conversation decides about signals: each is taken by one wait, in the order of their coming."""

from __future__ import annotations

from collections.abc import Sequence

from ...journal.facts import SignalAwaited, SignalEvent, SignalReceived, SignalTaken, SignalTimedOut
from ..errors import CommandRejected
from .checks import check_is_there
from .commands import SendSignal
from .progress import AwaitSignal
from .state import RunState, ThreadState, is_within, wait_key

__all__ = ["NAME_LENGTH_MAX", "SIGNALS_MAX", "await_signal", "close_signal_waits", "send", "time_out_signals"]

SIGNALS_MAX = 1000
"""Signals a thread keeps that nobody has taken."""

NAME_LENGTH_MAX = 128
"""Characters of the name of a signal."""


def send(thread: ThreadState, command: SendSignal) -> Sequence[SignalEvent]:
    """Take a signal in, and give it to who waits for it."""
    check_is_there(thread, command.owner)
    if command.id in thread.signals_taken or any(signal.id == command.id for signal in thread.signals):
        return ()
    _check_name(thread, command.name)
    received = SignalReceived(command.id, command.name, command.payload, command.owner, command.at)
    wait = next((wait for wait in thread.signal_waits if wait.name == command.name), None)
    if wait is not None:
        return received, SignalTaken(wait.run, wait.step, command.id, command.at)
    if len(thread.signals) >= SIGNALS_MAX:
        raise CommandRejected(
            f"{thread.stream}: {SIGNALS_MAX} signals wait to be taken, the most it keeps. Send it again later."
        )
    return (received,)


def await_signal(thread: ThreadState, run: RunState, command: AwaitSignal) -> Sequence[SignalEvent]:
    """Wait for a signal, or take one that came before."""
    if wait_key("signal", command.step) in run.waits:
        return ()
    _check_name(thread, command.name)
    awaited = SignalAwaited(command.run, command.step, command.name, command.due, command.at)
    first = next((signal for signal in thread.signals if signal.name == command.name), None)
    return (awaited,) if first is None else (awaited, SignalTaken(command.run, command.step, first.id, command.at))


def time_out_signals(thread: ThreadState, at: int) -> Sequence[SignalEvent]:
    """Return the ends of the waits that nobody signalled in time."""
    return [
        SignalTimedOut(wait.run, wait.step, at)
        for wait in thread.signal_waits
        if (due := thread.runs[wait.run].waits[wait_key("signal", wait.step)].due) is not None and due <= at
    ]


def close_signal_waits(thread: ThreadState, run: str, step: str, at: int) -> Sequence[SignalEvent]:
    """Return the ends of the waits of a step that has ended, and of those within it, so that they take nothing more."""
    waits = [wait for wait in thread.signal_waits if wait.run == run and is_within(wait.step, step)]
    return [SignalTimedOut(run, wait.step, at) for wait in waits]


def _check_name(thread: ThreadState, name: str) -> None:
    if not 0 < len(name) <= NAME_LENGTH_MAX or not name.isprintable():
        reason = f"it is printable text, at most {NAME_LENGTH_MAX} characters"
        raise CommandRejected(f"{thread.stream}: {name!r} is not the name of a signal: {reason}. Choose another one.")
