"""The local host of one actor: a pykka actor that takes turns on a pool and holds replies until they are durable.

One turn, in order:

1. let go of what the disk has confirmed: replies, effects to start, effects to stop;
2. take note of the effects that have ended;
3. wake up, if the actor is not awake: at the beginning, and after a commit that failed;
4. handle some messages; what each one waits for joins the end of the gate.

Nothing here blocks on a commit or on another actor.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pykka
from pykka._envelope import Envelope  # pyright: ignore[reportPrivateUsage]  (pykka is pinned for its hooks)

from ..journal import CellWrite, Commit, JournalError, WrongExpectedSequence, open_mark
from .activation import Activation, AnyActivation, Handled
from .errors import ActivationFailed, ActorError, SystemClosed
from .mailbox import Mailbox
from .open_work import OpenWork
from .reply import Reply

if TYPE_CHECKING:
    from ..journal import Journal
    from .decider import EventSourcedActor
    from .effect import Effect
    from .mailbox import Pool
    from .open_work import EffectHandle

__all__ = ["Host", "LocalActor", "Message"]

MESSAGES_PER_TURN = 64
"""Messages an actor handles before it lets others have the thread."""

RACES_MAX = 20
"""How often a command is decided again because another writer was first, before its asker is told."""

_BARRIER = CellWrite(b"barrier", None)
"""Writes nothing; durable or failed once everything before it is."""


class Message(NamedTuple):
    """A command on its way, with its id and the effect that sent it (None: from outside)."""

    command: object
    command_id: str
    performer: str | None = None


class Host(Protocol):
    """What an actor needs from the system it lives in."""

    @property
    def journal(self) -> Journal:
        """Where the streams are."""
        ...

    @property
    def pool(self) -> Pool:
        """Where turns are taken."""
        ...

    def start_effect(self, actor: LocalActor, effect: Effect, done: Callable[[], None]) -> EffectHandle:
        """Start the work of an effect; call `done()` when it has ended, however it ended."""
        ...

    def retire(self, actor: LocalActor) -> None:
        """Forget an actor that went to sleep."""
        ...

    def report(self, stream: str, what: str, error: BaseException) -> None:
        """Tell whoever watches over the system that something failed."""
        ...


class _Held(NamedTuple):
    """What waits for a commit, with the activation that it was decided by."""

    commit: Commit | None
    decided_by: AnyActivation | None
    act: Callable[[Exception | None], None]


class LocalActor(pykka.Actor):
    """One actor on this machine."""

    def __init__(self, host: Host, kind: EventSourcedActor[Any, Any, Any, Any], id: str, stream: str) -> None:  # noqa: A002
        super().__init__()
        self.kind = kind
        self.id = id
        self.stream = stream
        self.touched = True
        self._host = host
        self._activation: AnyActivation | None = None
        self._gate: deque[_Held] = deque()
        self._sleep_wanted = False
        self._races = 0
        self._barrier: Commit | None = None
        mailbox: Mailbox = self.actor_inbox  # pyright: ignore[reportAssignmentType]
        self.mailbox = mailbox
        mailbox.bind(self, host.pool, stream=stream, size_max=kind.mailbox_size)
        self._work = OpenWork(partial(host.start_effect, self), mailbox.wake)

    @staticmethod
    def _create_actor_inbox() -> Mailbox:  # pyright: ignore[reportIncompatibleMethodOverride]
        return Mailbox()

    @staticmethod
    def _create_future() -> Reply[Any]:
        return Reply()

    def _start_actor_loop(self) -> None:
        self.mailbox.wake()

    def begin(self) -> None:
        """Start without pykka's registry, whose list would make every stop cost a walk over all actors."""
        self._start_actor_loop()

    def sleep_if_idle(self) -> None:
        """Go to sleep at the next turn, unless there is something to do."""
        self._sleep_wanted = True
        self.mailbox.wake()

    @property
    def busy(self) -> bool:
        """Whether something waits, is being handled, is being synced or runs."""
        return bool(self._gate) or self._work.running or not self.mailbox.idle

    def turn(self) -> None:
        """Take one turn; a failure in it takes down this actor alone."""
        if self.mailbox.closed:
            return
        try:
            self._take_turn()
        except BaseException as error:  # noqa: BLE001  (contained: one actor's fault must not stop the pool)
            self._host.report(self.stream, "the actor failed and was dropped", error)
            self._drop(error)
            return
        if not self.mailbox.closed:
            self.mailbox.rest(blocked=self._barrier is not None)

    def _take_turn(self) -> None:
        self._open_gate()
        self._work.settle()
        if self._barrier is not None and self._barrier.done:
            self._barrier = None
        if self._barrier is None:
            self._handle_some()
        if self._sleep_wanted:
            self._sleep_wanted = False
            self._sleep()

    def _handle_some(self) -> None:
        if self._activation is None:
            self._activate()
        for _ in range(MESSAGES_PER_TURN):
            if self.mailbox.empty() or self._barrier is not None:
                break
            self._receive(self.mailbox.get())
        self._open_gate()
        if self._activation is None and self._barrier is None:
            self.mailbox.wake()

    def _activate(self) -> None:
        self._activation = activation = Activation(self.kind, self.id, self._host.journal)
        # The mark tells the next start of the system about open work. An import marks whatever it brings, and a
        # newer version of the kind may see work where there was none before.
        cells, mark = self._host.journal.cells, open_mark(self.stream)
        if bool(activation.effects) != (cells.get(mark) is not None):
            cells.write([CellWrite(mark, self.stream.encode() if activation.effects else None)])
        self._work.resume(activation.effects)

    def _receive(self, envelope: Any) -> None:  # noqa: ANN401  (pykka's envelope is private)
        message, reply = envelope.message, envelope.reply_to
        self.touched = True
        if not isinstance(message, Message):
            # pykka's own `stop` and whatever else was sent past the typed reference.
            self._sleep_wanted = True
            self._when_durable(None, lambda _: reply.set(None) if reply is not None else None)
            return
        try:
            handled = self._handle(message)
        except WrongExpectedSequence as error:
            self._races += 1
            if self._races <= RACES_MAX:
                self._decide_again(envelope)
                return
            handled = Handled(None, error, None)
        except JournalError as error:
            handled = Handled(None, error, None)
        except BaseException:
            # It is told with the others that wait, once this actor takes no more.
            self.mailbox.put_back(envelope)
            raise
        self._races = 0
        self._when_durable(handled.commit, partial(self._answer, reply, handled))

    def _handle(self, message: Message) -> Handled:
        activation = self._activation
        if activation is None:
            raise AssertionError(f"{self.stream} handles a message and is not awake: a bug of Clew")
        before = activation.effects
        handled = activation.handle(message.command, message.command_id)
        if activation.effects is not before:
            change = self._work.change(before, activation.effects, message.performer)
            self._when_durable(handled.commit, lambda error: change() if error is None else None)
        return handled

    def _decide_again(self, envelope: Any) -> None:  # noqa: ANN401
        """Wait for what another writer (an import, another system) put into this stream, and wake up anew."""
        self.mailbox.put_back(envelope)
        self._barrier = self._host.journal.cells.write([_BARRIER])
        self._barrier.add_done_callback(self._commit_done)
        self._activation = None

    def _when_durable(self, commit: Commit | None, act: Callable[[Exception | None], None]) -> None:
        self._gate.append(_Held(commit, self._activation, act))
        if commit is not None and not commit.done:
            commit.add_done_callback(self._commit_done)

    def _commit_done(self, _: Commit) -> None:
        self.mailbox.wake()

    def _open_gate(self) -> None:
        gate = self._gate
        while gate and ((commit := gate[0].commit) is None or commit.done):
            held = gate.popleft()
            error = commit.error if commit is not None else None
            if error is not None and held.decided_by is self._activation:
                # The state in memory holds events that are not in the journal: start again from what is there.
                self._activation = None
            held.act(error)

    def _answer(self, reply: Reply[Any] | None, handled: Handled, commit_error: Exception | None) -> None:
        error = commit_error or handled.error
        if reply is not None:
            if error is None:
                reply.set(handled.answer)
            else:
                reply.fail(error)
        elif error is not None:
            self._host.report(self.stream, "a command that nobody waits for was refused", error)

    def _sleep(self) -> None:
        if not self._gate and not self._work.running and self.mailbox.close_if_empty():
            self.actor_stopped.set()
            self._host.retire(self)

    def _drop(self, error: BaseException) -> None:
        """Fail what waits and forget this actor; the next message makes a new one."""
        self._work.stop_all()
        waiting = self.mailbox.close()
        self._host.retire(self)
        shown = self._shown(error)
        self._fail(waiting, shown)
        while self._gate:
            commit, _, act = self._gate.popleft()
            act(None if commit is None else commit.error if commit.done else shown)

    def _shown(self, error: BaseException) -> Exception:
        if isinstance(error, ActorError | JournalError):
            return error
        sequence = self._activation.sequence if self._activation is not None else 0
        return ActivationFailed(stream=self.stream, sequence=sequence, reason=f"{type(error).__name__}: {error}")

    def _fail(self, waiting: Sequence[Any], error: Exception) -> None:
        self.actor_stopped.set()
        for envelope in waiting:
            if envelope.reply_to is not None:
                envelope.reply_to.fail(error)

    def finish(self) -> Reply[None]:
        """Return what is answered once all that waits here is handled and durable."""
        reply: Reply[None] = Reply()
        try:
            self.mailbox.put_anyway(Envelope(None, reply))
        except pykka.ActorDeadError:
            reply.set(None)
        return reply

    def shut_down(self, deadline: float) -> None:
        """Refuse what still waits, and answer what is durable by then: the system closes, and gives no more turns."""
        closed = SystemClosed(stream=self.stream)
        self._fail(self.mailbox.close(), closed)
        while self._gate:
            commit, _, act = self._gate.popleft()
            if commit is not None:
                with suppress(Exception):
                    commit.wait(timeout_s=max(0.0, deadline - time.monotonic()))
            act(None if commit is None else commit.error if commit.done else closed)
