"""One actor awake: rebuilt from its stream, then one command at a time.

It knows no thread, no clock and no mailbox, so every host runs the same one:

1. recover: fold the stream (`__init__`);
2. a command whose id is known is answered with its first answer;
3. decide, evolve (both pure), then append: an event that cannot be folded is never recorded;
4. the reply and the effects wait for the commit: the host holds them back until `Handled.commit` is done.

The next command is decided on the state already evolved, while the disk still syncs the last one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar, cast

import msgspec

from ..journal import CellWrite, Commit, Journal, JournalError, RecordedEvent, open_mark, stream_name
from .decider import EventSourcedActor
from .effect import Effect
from .errors import ActivationFailed

__all__ = ["Activation", "AnyActivation", "Handled"]

S = TypeVar("S")
C = TypeVar("C")
E = TypeVar("E", bound=msgspec.Struct)
A = TypeVar("A")

ANSWERS_KEPT = 8
"""Answers held in memory; older ones are folded again from the journal when they are asked for."""


class Handled(NamedTuple):
    """What became of a command: an answer or an error, valid once `commit` is durable (None: already)."""

    answer: object
    error: Exception | None
    commit: Commit | None


class _Span(NamedTuple):
    """Where in the stream a command's events stand."""

    first: int
    last: int


class Activation(Generic[S, C, E, A]):
    """One actor awake, on any host.

    Raises:
        ActivationFailed: an event of the stream cannot be read or folded.
    """

    __slots__ = ("_answers", "_effects", "_journal", "_last_commit", "_spans", "kind", "sequence", "state", "stream")

    def __init__(self, kind: EventSourcedActor[S, C, E, A], id: str, journal: Journal) -> None:  # noqa: A002
        self.kind = kind
        self.stream = stream_name(kind.category, id)
        self.state = kind.initial(self.stream)
        self.sequence = 0
        self._journal = journal
        self._spans: dict[str, _Span] = {}
        self._answers: OrderedDict[str, tuple[object, Commit]] = OrderedDict()
        self._last_commit: Commit | None = None
        for recorded in self._read():
            self._recover(recorded)
        self._effects = self._open_effects()

    @property
    def effects(self) -> Sequence[Effect]:
        """The work that is open in the present state."""
        return self._effects

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
        if command_id in self._spans:
            return self._first_answer(command_id)
        decider = self.kind.decider
        try:
            drafts = [
                self.kind.catalog.encode(event, cause=command_id) for event in decider.decide(self.state, command)
            ]
            state = self.state
            for _, event in drafts:
                state = decider.evolve(state, event)
            answer = decider.answer(state, [event for _, event in drafts])
            effects = decider.effects(state) if drafts else self._effects
        except Exception as error:  # noqa: BLE001  (decide is the user's; its failure is the asker's, and nothing was written)
            return Handled(None, error, self.waiting_for)
        if not drafts:
            return Handled(answer, None, self.waiting_for)
        commit = self._journal.append(
            self.stream, [new for new, _ in drafts], expected=self.sequence, cells=self._mark(effects)
        )
        self._spans[command_id] = _Span(self.sequence + 1, self.sequence + len(drafts))
        self.sequence += len(drafts)
        self.state, self._effects, self._last_commit = state, effects, commit
        self._remember(command_id, answer, commit)
        return Handled(answer, None, commit)

    def _recover(self, recorded: RecordedEvent) -> None:
        try:
            event = cast("E", self.kind.catalog.decode(recorded))
            self.state = self.kind.decider.evolve(self.state, event)
        except Exception as error:
            raise ActivationFailed(
                stream=self.stream, sequence=recorded.sequence, reason=f"{type(error).__name__}: {error}"
            ) from error
        self.sequence = recorded.sequence
        if recorded.cause:
            span = self._spans.get(recorded.cause)
            self._spans[recorded.cause] = _Span(span.first if span else recorded.sequence, recorded.sequence)

    def _read(self) -> Sequence[RecordedEvent]:
        events: list[RecordedEvent] = []
        try:
            events.extend(self._journal.read(self.stream))
        except JournalError as error:
            raise ActivationFailed(
                stream=self.stream, sequence=len(events) + 1, reason=f"{type(error).__name__}: {error}"
            ) from error
        return events

    def _open_effects(self) -> Sequence[Effect]:
        try:
            return self.kind.decider.effects(self.state)
        except Exception as error:
            reason = f"effects() raised {type(error).__name__}: {error}"
            raise ActivationFailed(stream=self.stream, sequence=self.sequence, reason=reason) from error

    def _mark(self, effects: Sequence[Effect]) -> Sequence[CellWrite]:
        """Keep the cell that tells the next start of the system about open work."""
        if bool(effects) == bool(self._effects):
            return ()
        return (CellWrite(open_mark(self.stream), self.stream.encode() if effects else None),)

    def _remember(self, command_id: str, answer: object, commit: Commit) -> None:
        answers = self._answers
        answers[command_id] = (answer, commit)
        while len(answers) > ANSWERS_KEPT and next(iter(answers.values()))[1].done:
            answers.popitem(last=False)

    def _first_answer(self, command_id: str) -> Handled:
        kept = self._answers.get(command_id)
        if kept is not None:
            return Handled(kept[0], None, _unless_durable(kept[1]))
        span = self._spans[command_id]
        try:
            sequence, answer = self._fold_answer(span)
        except Exception as error:  # noqa: BLE001  (as in `handle`: what it is told is the asker's alone)
            return Handled(None, error, self.waiting_for)
        # What was read is durable. Where it ends too early, this activation rests on a commit that has failed.
        return Handled(answer, None, None if sequence == span.last else self.waiting_for)

    def _fold_answer(self, span: _Span) -> tuple[int, object]:
        """Fold the stream up to the end of a command, and return how far it went and the answer there."""
        decider, sequence = self.kind.decider, 0
        state: S = self.kind.initial(self.stream)
        own: list[E] = []
        for recorded in self._journal.read(self.stream):
            event = cast("E", self.kind.catalog.decode(recorded))
            state, sequence = decider.evolve(state, event), recorded.sequence
            if sequence >= span.first:
                own.append(event)
            if sequence == span.last:
                break
        return sequence, decider.answer(state, own)


def _unless_durable(commit: Commit | None) -> Commit | None:
    return None if commit is None or (commit.done and commit.error is None) else commit


AnyActivation = Activation[Any, Any, Any, Any]
