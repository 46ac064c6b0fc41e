"""One actor awake: rebuilt from its stream, then one command at a time.

It knows no thread, no clock and no mailbox, so every host runs the same one:

1. recover: the newest snapshot and the events behind it (`actors/recovery.py`);
2. a command whose id is known is answered with its first answer;
3. decide, evolve (both pure), then append: an event that cannot be folded is never recorded;
4. the reply and the effects wait for the commit: the host holds them back until `Handled.commit` is done;
5. now and then the host has a snapshot taken, of what is durable (`actors/saver.py`);
6. when its alarm is due the host lets it ring; the alarm is filed in cells, with the events that move it.

The next command is decided on the state already evolved, while the disk still syncs the last one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Generic, TypeVar, cast

import msgspec

from ..journal import CellWrite, Commit, Journal, NewEvent, open_mark, stream_name
from ..journal.history import DUE_MAX, filed_due, refile
from .decider import EventSourcedActor
from .effect import Effect
from .errors import ActivationFailed
from .recovery import recover
from .saver import Saver

__all__ = ["Activation", "AnyActivation", "Handled"]

S = TypeVar("S")
C = TypeVar("C")
E = TypeVar("E", bound=msgspec.Struct)
A = TypeVar("A")

ANSWERS_KEPT = 4
"""Answers held in memory, at least; older ones are folded again from the journal when they are asked for."""


class Handled(msgspec.Struct, frozen=True, gc=False):
    """What became of a command: an answer or an error, valid once `commit` is durable (None: already)."""

    answer: object
    error: Exception | None
    commit: Commit | None


class Activation(Generic[S, C, E, A]):
    """One actor awake, on any host.

    Raises:
        ActivationFailed: an event of the stream cannot be read or folded.
        StreamDeleted: its events were deleted.
    """

    __slots__ = (
        "_answers", "_ids", "_journal", "_last_commit", "_saver", "_snapshot_at",
        "due", "effects", "kind", "sequence", "snapshot_due", "state", "stream",
    )  # fmt: skip

    def __init__(self, kind: EventSourcedActor[S, C, E, A], id: str, journal: Journal) -> None:  # noqa: A002
        self.kind = kind
        self.stream = stream_name(kind.category, id)
        self._journal = journal
        recovered = recover(kind, self.stream, journal)
        self.state = recovered.state
        self.sequence = recovered.sequence
        self._ids = recovered.ids
        self._answers: dict[str, Handled] | None = None
        self._last_commit: Commit | None = None
        self._saver: Saver[S] | None = None
        self._snapshot_at = sys.maxsize
        self.snapshot_due = False
        """Whether the host should call `snapshot` at some time that suits it."""
        self.effects = self._open_effects()
        """The work that is open in the present state."""
        self.due: int | None = self._first_due()
        """When the alarm is due in the present state, in nanoseconds since the epoch, UTC; None: never."""
        if kind.snapshots is not None and kind.state_codec is not None:
            self._saver = Saver(kind.snapshots, kind.state_codec, self.stream, journal, recovered)
            self._snapshot_at = self._saver.next_at
            if self.sequence >= self._snapshot_at:
                self._note(None)

    def correct_mark(self) -> Commit | None:
        """Put right the cells that tell of open work and of the alarm, after waking up.

        An import marks whatever it brings and sets no alarm, and a newer version of the kind may see work where there
        was none before, or another due. Returns the commit of an alarm that was put right.
        """
        cells, mark = self._journal.cells, open_mark(self.stream)
        if bool(self.effects) != (cells.get(mark) is not None):
            cells.write(self._mark(self.effects))
        return None if self.kind.alarm is None else self._correct_alarm()

    @property
    def waiting_for(self) -> Commit | None:
        """The commit that the present state rests on, unless it is durable: it may be under way, or have failed."""
        return _unless_durable(self._last_commit)

    def handle(self, command: C, command_id: str) -> Handled:
        """Decide one command, append what it became, and return its answer with the commit to wait for.

        A refusal waits too: it was decided on events that may still be lost.

        Raises:
            JournalError: the append was refused; this activation no longer matches its stream and must be dropped.
        """
        ids = self._ids
        first = ids.recent.get(command_id)
        if first is None and ids.packed:
            first = self._packed_place(command_id)
        if first is not None:
            return self._first_answer(command_id, first)
        kind = self.kind
        decider, encode = kind.decider, kind.catalog.encode
        state = self.state
        news: list[NewEvent] = []
        events: list[E] = []
        try:
            for draft in decider.decide(state, command):
                new, event = encode(draft, cause=command_id)
                news.append(new)
                events.append(event)
            for event in events:
                state = decider.evolve(state, event)
            answer = decider.answer(state, events)
            if not events:
                return Handled(answer, None, _unless_durable(self._last_commit))
            effects = decider.effects(state)
            due = None if kind.alarm is None else _due(kind, state)
        except Exception as error:  # noqa: BLE001  (decide is the user's; its failure is the asker's, and nothing was written)
            return Handled(None, error, self.waiting_for)
        cells = () if bool(effects) is bool(self.effects) and due == self.due else self._change(effects, due)
        commit = self._journal.append(self.stream, news, expected=self.sequence, cells=cells)
        ids.recent[command_id] = self.sequence + 1
        self.sequence += len(news)
        self.state, self.effects, self.due, self._last_commit = state, effects, due, commit
        if self._answers is None:
            self._answers = {}
        handled = self._answers[command_id] = Handled(answer, None, commit)
        if len(self._answers) > 2 * ANSWERS_KEPT:
            _forget(self._answers)
        if self.sequence >= self._snapshot_at:
            self._note(commit)
        return handled

    def ring(self, at: int, command_id: str) -> Handled:
        """Handle the alarm, which fires at `at`; when nothing is due by then, nothing is decided and nothing written.

        That is one which was on its way when it was cancelled or moved. If it is still filed, it is filed anew.

        Raises:
            JournalError: as for `handle`.
        """
        alarm = self.kind.alarm
        if alarm is None or self.due is None or self.due > at:
            waiting_for = self.waiting_for
            return Handled(None, None, self._correct_alarm() if waiting_for is None else waiting_for)
        try:
            command = alarm(at)
        except Exception as error:  # noqa: BLE001  (the kind is the user's, as in `handle`)
            return Handled(None, error, self.waiting_for)
        return self.handle(command, command_id)

    def snapshot(self, at: int, *, last: bool = False) -> Commit | None:
        """Write the snapshot that is due, and return its commit; None when there is nothing to write now.

        With `last`, also one of the present state, which must be durable, if enough is new: the actor goes to sleep.
        `at` is the time in nanoseconds since the epoch, UTC. Nothing is lost if this fails, or is never called.

        Raises:
            NotRepresentable: the state would come back different; no more are taken of this kind.
            PayloadTooLarge: the state is too large; it is tried again much later.
            JournalError: the journal takes no cells.
        """
        saver = self._saver
        if saver is None:
            return None
        if last:
            saver.leave(self.state, self.sequence)
        try:
            return saver.save(at)
        finally:
            self.snapshot_due, self._snapshot_at = saver.due, saver.next_at

    def _note(self, commit: Commit | None) -> None:
        """Have the present state kept once its commit is durable."""
        if self._saver is not None:
            self._saver.note(self.state, self.sequence, commit)
            self.snapshot_due, self._snapshot_at = self._saver.due, self._saver.next_at

    def _open_effects(self) -> Sequence[Effect]:
        try:
            return self.kind.decider.effects(self.state)
        except Exception as error:
            reason = f"effects() raised {type(error).__name__}: {error}"
            raise ActivationFailed(stream=self.stream, sequence=self.sequence, reason=reason) from error

    def _first_due(self) -> int | None:
        try:
            return None if self.kind.alarm is None else _due(self.kind, self.state)
        except Exception as error:
            reason = f"due() raised {type(error).__name__}: {error}"
            raise ActivationFailed(stream=self.stream, sequence=self.sequence, reason=reason) from error

    def _change(self, effects: Sequence[Effect], due: int | None) -> Sequence[CellWrite]:
        """Return what keeps the cells of open work and of the alarm in step with the events."""
        mark = () if bool(effects) is bool(self.effects) else self._mark(effects)
        return mark if due == self.due else (*mark, *refile(self.stream, self.due, due))

    def _correct_alarm(self) -> Commit | None:
        """File the alarm under its due, unless it is, or what is under way files it meanwhile."""
        cells = self._journal.cells
        filed = filed_due(cells, self.stream)
        return None if filed == self.due else cells.write(refile(self.stream, filed, self.due, only_if=True))

    def _mark(self, effects: Sequence[Effect]) -> Sequence[CellWrite]:
        """Keep the cell that tells the next start of the system about open work."""
        return (CellWrite(open_mark(self.stream), self.stream.encode() if effects else None),)

    def _packed_place(self, command_id: str) -> int | None:
        """Return where the events of a command begin whose id a snapshot remembers; None for any other."""
        for place in self._ids.packed_places(command_id):
            event = next(iter(self._journal.read(self.stream, after=place - 1)), None)
            if event is not None and event.cause == command_id:
                return place
        return None

    def _first_answer(self, command_id: str, first: int) -> Handled:
        kept = self._answers.get(command_id) if self._answers else None
        if kept is not None:
            return Handled(kept.answer, None, _unless_durable(kept.commit))
        try:
            state, own = self._fold_until(command_id, first)
            answer = self.kind.decider.answer(state, own)
        except Exception as error:  # noqa: BLE001  (as in `handle`: what it is told is the asker's alone)
            return Handled(None, error, self.waiting_for)
        # What was read is durable. Where it ends too early, this activation rests on a commit that has failed.
        return Handled(answer, None, None if own else self.waiting_for)

    def _fold_until(self, command_id: str, first: int) -> tuple[S, list[E]]:
        """Fold the stream up to the end of a command, and return the state there and the events of the command."""
        evolve, sequence = self.kind.decider.evolve, 0
        state: S = self.kind.initial(self.stream)
        own: list[E] = []
        for page in self._journal.pages(self.stream, self.kind.catalog):
            for cause, event in zip(page.causes, cast("Sequence[E]", page.events), strict=True):
                sequence += 1
                if own and cause != command_id:
                    return state, own
                state = evolve(state, event)
                if sequence >= first:
                    own.append(event)
        return state, own


def _due(kind: EventSourcedActor[S, Any, Any, Any], state: S) -> int | None:
    due = kind.decider.due(state)
    if due is None:
        return None
    if not isinstance(due, int):
        raise TypeError(
            f"{kind.category}: a due is a whole number of nanoseconds since the epoch, or None, not {due!r}"
        )
    return min(max(due, 0), DUE_MAX)


def _unless_durable(commit: Commit | None) -> Commit | None:
    return None if commit is None or (commit.done and commit.error is None) else commit


def _forget(answers: dict[str, Handled]) -> None:
    """Keep the last answers, and all that wait for their commits."""
    while len(answers) > ANSWERS_KEPT:
        oldest = next(iter(answers))
        commit = answers[oldest].commit
        if commit is not None and not commit.done:
            return
        del answers[oldest]


AnyActivation = Activation[Any, Any, Any, Any]
