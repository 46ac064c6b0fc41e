"""Who may ask a conversation for what, and under which names."""

from __future__ import annotations

from ..errors import CommandRejected, UnknownRun, UnknownThread
from .commands import StartRun
from .state import RunState, ThreadState

__all__ = ["RUN_ID_LENGTH_MAX", "check_can_own", "check_is_there", "check_owner", "check_start", "run_of"]

RUN_ID_LENGTH_MAX = 128

CONCURRENT = ("reject", "replace", "queue")


def check_owner(thread: ThreadState, principal: str | None) -> None:
    """Let only the owner in; a thread without an owner is open to whoever knows its key."""
    if thread.owner is not None and thread.owner != principal:
        raise UnknownThread(thread=thread.stream)


def check_is_there(thread: ThreadState, principal: str | None) -> None:
    """Refuse what is about a thread that is not there just as if it were someone else's."""
    if not thread.opened:
        raise UnknownThread(thread=thread.stream)
    check_owner(thread, principal)


def check_can_own(thread: ThreadState, owner: str | None) -> None:
    """Refuse an owner without a name."""
    if owner is not None and not owner.strip():
        # An identity that was missing somewhere on the way must not become an owner that all such callers share.
        raise CommandRejected(f"{thread.stream}: {owner!r} owns nothing: give an owner's name, or None for none.")


def check_start(thread: ThreadState, command: StartRun) -> None:
    """Refuse names and policies that mean nothing."""
    run = command.run
    if not 0 < len(run) <= RUN_ID_LENGTH_MAX or "/" in run or not run.isprintable():
        reason = f"a run id is printable text without a slash, at most {RUN_ID_LENGTH_MAX} characters"
        raise CommandRejected(f"{thread.stream}: {run!r} is not a run id: {reason}. Choose another one.")
    check_can_own(thread, command.owner)
    if command.timeout is not None and command.timeout <= 0:
        raise CommandRejected(f"{thread.stream}: a run's timeout is more than 0 ns, not {command.timeout}.")
    if command.concurrent not in CONCURRENT:
        raise CommandRejected(
            f"{thread.stream}: on_concurrent_run is one of {', '.join(CONCURRENT)}, not {command.concurrent!r}."
        )


def run_of(thread: ThreadState, name: str) -> RunState:
    """Return a run.

    Raises:
        UnknownRun: there is none of this name.
    """
    run = thread.runs.get(name)
    if run is None:
        raise UnknownRun(thread=thread.stream, run=name)
    return run
