"""Small actors, a slow disk and bounded waiting, shared by the tests of the actors."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from clew.actors import ActorRef, CommandRejected, Decider, Effect, EventSourcedActor
from clew.journal import CellWrite, Commit, Journal, MemoryJournal, NewEvent, event, open_mark

WAIT_S = 10.0
"""How long a test waits for a fact before it fails; nothing takes that long when all is well."""


def until(fact: Callable[[], object]) -> None:
    """Wait until `fact()` holds. For what nothing announces; prefer a reply, a note or an event."""
    deadline = time.monotonic() + WAIT_S
    while not fact():
        assert time.monotonic() < deadline, f"not within {WAIT_S} s"
        time.sleep(0.001)


@event("account.deposited", version=1)
class Deposited(msgspec.Struct, frozen=True):
    """Money came in."""

    cents: int


@event("account.withdrawn", version=1)
class Withdrawn(msgspec.Struct, frozen=True):
    """Money went out."""

    cents: int


class Deposit(msgspec.Struct, frozen=True):
    """Put money in."""

    cents: int = 1


class Withdraw(msgspec.Struct, frozen=True):
    """Take money out, if it is there."""

    cents: int = 1


class Look(msgspec.Struct, frozen=True):
    """Change nothing."""


class Call(msgspec.Struct, frozen=True):
    """Run `inside()` within `decide`, where a test makes the world turn at a chosen moment; then deposit `cents`."""

    inside: Callable[[], object]
    cents: int = 0


class Pause:
    """Holds a turn of an actor, as `Call(pause)`, so that what is sent meanwhile is handled in one go."""

    def __init__(self) -> None:
        self._entered = threading.Event()
        self._over = threading.Event()

    def __call__(self) -> None:
        """Hold the turn until the pause is over."""
        self._entered.set()
        assert self._over.wait(WAIT_S)

    def entered(self) -> None:
        """Wait until a turn is held."""
        assert self._entered.wait(WAIT_S)

    def over(self) -> None:
        """Let the turn go on."""
        self._over.set()


AccountCommand = Deposit | Withdraw | Look | Call
AccountEvent = Deposited | Withdrawn


def _decide(balance: int, command: AccountCommand) -> Sequence[AccountEvent]:
    match command:
        case Deposit():
            return (Deposited(command.cents),)
        case Withdraw() if command.cents > balance:
            raise CommandRejected(f"{command.cents} cents are asked for and {balance} are there")
        case Withdraw():
            return (Withdrawn(command.cents),)
        case Look():
            return ()
        case Call():
            command.inside()
            return (Deposited(command.cents),) if command.cents else ()


def _evolve(balance: int, event: AccountEvent) -> int:
    return balance + event.cents if isinstance(event, Deposited) else balance - event.cents


def _balance(balance: int, _: Sequence[AccountEvent]) -> int:
    return balance


def account_kind(*, mailbox_size: int = 1000) -> EventSourcedActor[int, AccountCommand, AccountEvent, int]:
    """A kind whose actors are balances; it answers every command with the balance."""
    return EventSourcedActor(
        category="account",
        decider=Decider(initial=0, decide=_decide, evolve=_evolve, answer=_balance),
        events=(Deposited, Withdrawn),
        mailbox_size=mailbox_size,
    )


ACCOUNT = account_kind()


@event("desk.opened", version=1)
class JobOpened(msgspec.Struct, frozen=True):
    """There is work."""

    key: str
    work: str


@event("desk.closed", version=1)
class JobClosed(msgspec.Struct, frozen=True):
    """It is done, or given up."""

    key: str


class Open(msgspec.Struct, frozen=True):
    """Open a job."""

    key: str
    work: str = ""


class Close(msgspec.Struct, frozen=True):
    """Close a job, or all of them."""

    key: str | None = None


DeskCommand = Open | Close | Look | Call
DeskEvent = JobOpened | JobClosed
Jobs = dict[str, str]
Performs = Callable[[Effect, Any], Awaitable[object]]
DeskKind = EventSourcedActor[Jobs, DeskCommand, DeskEvent, list[str]]


def _decide_jobs(jobs: Jobs, command: DeskCommand) -> Sequence[DeskEvent]:
    match command:
        case Open() if command.key not in jobs:
            return (JobOpened(command.key, command.work),)
        case Close():
            return [JobClosed(key) for key in jobs if command.key in (None, key)]
        case Call():
            command.inside()
            return ()
        case _:
            return ()


def _evolve_jobs(jobs: Jobs, event: DeskEvent) -> Jobs:
    if isinstance(event, JobOpened):
        return {**jobs, event.key: event.work}
    return {key: work for key, work in jobs.items() if key != event.key}


def _open_jobs(jobs: Jobs) -> Sequence[Effect]:
    return [Effect(key, work) for key, work in jobs.items()]


def _keys(jobs: Jobs, _: Sequence[DeskEvent]) -> list[str]:
    return list(jobs)


DESK_DECIDER = Decider[Jobs, DeskCommand, DeskEvent, list[str]](
    initial={}, decide=_decide_jobs, evolve=_evolve_jobs, answer=_keys, effects=_open_jobs
)


def desk_kind(perform: Performs | None = None) -> DeskKind:
    """A kind whose actors hold open jobs, each of them an effect; it answers with the keys of those open."""
    return EventSourcedActor(category="desk", decider=DESK_DECIDER, events=(JobOpened, JobClosed), perform=perform)


class Workers:
    """Perform jobs under the eyes of the test: each start and end is noted, and a job goes on until it is stopped.

    `jobs[key]` is what a job does in place of waiting for ever.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, Performs] = {}
        self.starts: Counter[str] = Counter()
        self.notes: queue.SimpleQueue[str] = queue.SimpleQueue()

    async def __call__(self, effect: Effect, actor: ActorRef[DeskCommand, list[str]]) -> object:
        """Do the job."""
        self.starts[effect.key] += 1
        self.notes.put(f"{effect.key} started")
        how = "ended"
        try:
            return await self.jobs.get(effect.key, _for_ever)(effect, actor)
        except asyncio.CancelledError:
            how = "cancelled"
            raise
        finally:
            self.notes.put(f"{effect.key} {how}")

    def note(self) -> str:
        """Wait for the next note."""
        return self.notes.get(timeout=WAIT_S)


async def _for_ever(effect: Effect, actor: ActorRef[DeskCommand, list[str]]) -> object:
    await asyncio.Event().wait()
    return None


class SlowDisk(MemoryJournal):
    """A journal whose commits wait for `flush` or `fail`, and that says when something was appended."""

    def __init__(self) -> None:
        super().__init__(hold=True)
        self._appended: queue.SimpleQueue[Commit] = queue.SimpleQueue()

    def append(
        self,
        stream: str,
        events: Sequence[NewEvent],
        *,
        expected: int,
        cells: Sequence[CellWrite] = (),
        revive: bool = False,
    ) -> Commit:
        """See `Journal.append`."""
        commit = super().append(stream, events, expected=expected, cells=cells, revive=revive)
        self._appended.put(commit)
        return commit

    def appended(self) -> Commit:
        """Wait for the next append and return its commit."""
        return self._appended.get(timeout=WAIT_S)


class DiskFailed(OSError):
    """What a disk says when it fails."""


def marked(journal: Journal, stream: str) -> bool:
    """Whether the journal says that an actor has open work."""
    return journal.cells.get(open_mark(stream)) == stream.encode()


def events_of(journal: Journal, stream: str) -> list[str]:
    """The names of a stream's events, without their category."""
    return [recorded.type.name.partition(".")[2] for recorded in journal.read(stream)]
