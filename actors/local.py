"""The local host of one actor: a pykka actor that takes turns on a pool and holds replies until they are durable.

One turn, in order:

1. let go of what the disk has confirmed: replies, effects to start, effects to stop;
2. take note of the effects that have ended;
3. wake up, if the actor is not awake: at the beginning, and after a commit that failed;
4. handle some messages; what each one waits for joins the end of the gate;
5. take a snapshot, when one is due and what it holds is durable.

Nothing here blocks on a commit or on another actor.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pykka
from pykka._envelope import Envelope  # pyright: ignore[reportPrivateUsage]  (pykka is pinned for its hooks)

from ..journal import CellWrite, Commit, JournalError, WrongExpectedSequence
from .activation import Activation, AnyActivation, Handled
from .errors import ActivationFailed, ActorError, SystemClosed
from .gate import Gate, Held
from .lazy import Lazy
from .mailbox import Mailbox
from .message import AlarmDue, Message
from .open_work import OpenWork
from .reply import Reply
from .wakeups import send_wakeups

if TYPE_CHECKING:
    from .decider import EventSourcedActor
    from .host import Host

__all__ = ["LocalActor"]

MESSAGES_PER_TURN = 64
"""Messages an actor handles before it lets others have the thread."""

RACES_MAX = 20
"""How often a command is decided again because another writer was first, before its asker is told."""

_BARRIER = CellWrite(b"barrier", None)
"""Writes nothing; durable or failed once everything before it is."""


class LocalActor(pykka.Actor):
    """One actor on this machine."""

    def __init__(self, host: Host, kind: EventSourcedActor[Any, Any, Any, Any], id: str, stream: str) -> None:  # noqa: A002
        # Not pykka's own: what it makes for each actor takes more room than the rest.
        self.kind = kind
        self.id = id
        self.stream = stream
        self.touched = True
        self._host = host
        self._activation: AnyActivation | None = None
        self._work: OpenWork | None = None
        self._sleep_wanted = False
        self._races = 0
        self._barrier: Commit | None = None
        self.actor_inbox = self.mailbox = Mailbox()
        self._gate = Gate(self.mailbox)
        self.mailbox.bind(self, host.pool, stream=stream, size_max=kind.mailbox_size)

    actor_urn = Lazy(lambda _: uuid.uuid4().urn)  # pyright: ignore[reportAssignmentType]
    actor_stopped = Lazy(lambda _: threading.Event())  # pyright: ignore[reportAssignmentType]
    _actor_ref = Lazy(pykka.ActorRef)  # pyright: ignore[reportAssignmentType]

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
        return bool(self._gate.held) or self._working or not self.mailbox.idle

    @property
    def _working(self) -> bool:
        return self._work is not None and self._work.running

    def turn(self) -> None:
        """Take one turn; a failure in it takes down this actor alone."""
        mailbox = self.mailbox
        if mailbox.closed:
            return
        try:
            self._take_turn(mailbox)
        except BaseException as error:  # noqa: BLE001  (contained: one actor's fault must not stop the pool)
            self._host.report(self.stream, "the actor failed and was dropped", error)
            self._drop(error)
            return
        if not mailbox.closed:
            mailbox.rest(blocked=self._barrier is not None)

    def _take_turn(self, mailbox: Mailbox) -> None:
        if self._gate.held is not None:
            self._gate.open(self._let_go)
        if self._work is not None:
            self._work.settle()
        if self._barrier is not None and self._barrier.done:
            self._barrier = None
        if self._barrier is None and (mailbox.messages or self._activation is None):
            self._handle_some(mailbox)
        if self._activation is not None and self._activation.snapshot_due:
            self._snapshot(self._activation)
        if self._sleep_wanted:
            self._sleep_wanted = False
            self._sleep()

    def _handle_some(self, mailbox: Mailbox) -> None:
        # Who was answered in this turn or before does not wait for what a user's functions take.
        send_wakeups()
        if self._activation is None:
            self._activate()
        for _ in range(MESSAGES_PER_TURN):
            if not mailbox.messages or self._barrier is not None:
                break
            self._receive(mailbox.messages.popleft())
        if self._gate.held is not None:
            self._gate.open(self._let_go)
        if self._activation is None and self._barrier is None:
            mailbox.wake()

    def _activate(self) -> None:
        host = self._host
        try:
            self._activation = activation = Activation(self.kind, self.id, host.journal)
        except ActivationFailed as error:
            host.quarantine.failed(error, code=self.kind.code, at=host.clock())
            raise
        host.quarantine.release(self.stream)
        if (corrected := activation.correct_mark()) is not None:
            self._expect_alarm(activation, corrected)
        if self._work is not None or activation.effects:
            self._open_work().resume(activation.effects)

    def _open_work(self) -> OpenWork:
        if self._work is None:
            self._work = OpenWork(partial(self._host.start_effect, self), self.mailbox.wake)
        return self._work

    def _receive(self, message: Any) -> None:  # noqa: ANN401  (pykka's envelope is private)
        self.touched = True
        activation = self._activation
        if activation is None:
            raise AssertionError(f"{self.stream} handles a message and is not awake: a bug of Clew")
        if not isinstance(message, Message):
            # pykka's own `stop` and whatever else was sent past the typed reference.
            self._sleep_wanted = True
            self._gate.add(Held(None, activation, message.reply_to))
            return
        before, due, command = activation.effects, activation.due, message.command
        try:
            if type(command) is AlarmDue:
                handled = activation.ring(command.at, message.command_id)
            else:
                handled = activation.handle(command, message.command_id)
        except WrongExpectedSequence as lost:
            self._races += 1
            if self._races <= RACES_MAX:
                self._decide_again(message)
                return
            handled = Handled(None, lost, None)
        except JournalError as refused:
            handled = Handled(None, refused, None)
        except BaseException:
            # It is told with the others that wait, once this actor takes no more.
            self.mailbox.put_back(message)
            raise
        self._races = 0
        held = Held(handled.commit, activation, message.reply, handled.answer, handled.error)
        if activation.effects is not before and activation.effects != before:
            held.change = self._open_work().change(before, activation.effects, message.performer)
        if activation.due != due:
            self._expect_alarm(activation, handled.commit)
        self._gate.add(held)

    def _expect_alarm(self, activation: AnyActivation, commit: Commit | None) -> None:
        """Have the alarm looked for where it is filed, once it is."""
        if (due := activation.due) is not None and commit is not None:
            commit.add_done_callback(lambda _: self._host.expect_alarm(due))

    def _decide_again(self, message: Message) -> None:
        """Wait for what another writer (an import, another system) put into this stream, and wake up anew."""
        self.mailbox.put_back(message)
        self._barrier = self._host.journal.cells.write([_BARRIER])
        self._barrier.add_done_callback(lambda _: self.mailbox.wake())
        self._activation = None

    def _let_go(self, held: Held, failed: Exception | None) -> None:
        """Say how it ended, to whoever asked, and do what it changes about open work unless it `failed`."""
        if failed is not None and held.decided_by is self._activation:
            # The state in memory holds events that are not in the journal: start again from what is there.
            self._activation = None
        error = failed or held.error
        try:
            if held.change is not None and failed is None:
                held.change()
        finally:
            if held.reply is None:
                if error is not None:
                    self._host.report(self.stream, "a command that nobody waits for was refused", error)
            elif error is None:
                held.reply.set(held.answer)
            else:
                held.reply.fail(error)

    def _snapshot(self, activation: AnyActivation, *, last: bool = False) -> None:
        try:
            commit = activation.snapshot(self._host.clock(), last=last)
        except Exception as error:  # noqa: BLE001  (the actor goes on without; the state's types are the user's)
            self._host.report(self.stream, "no snapshot is taken", error)
            return
        if commit is not None:
            commit.add_done_callback(self._report_snapshot)

    def _report_snapshot(self, commit: Commit) -> None:
        if commit.error is not None:
            self._host.report(self.stream, "a snapshot was not written; the next one is taken later", commit.error)

    def _sleep(self) -> None:
        if self._gate.held or self._working or self.mailbox.messages:
            return
        if self._activation is not None:
            self._snapshot(self._activation, last=True)
        if self.mailbox.close_if_empty():
            self.actor_stopped.set()
            self._host.retire(self)

    def _drop(self, error: BaseException) -> None:
        """Fail what waits and forget this actor; the next message makes a new one."""
        if self._work is not None:
            self._work.stop_all()
        waiting = self.mailbox.close()
        self._host.retire(self)
        shown = self._shown(error)
        self._fail(waiting, shown)
        self._empty_gate(shown)

    def _shown(self, error: BaseException) -> Exception:
        if isinstance(error, ActorError | JournalError):
            return error
        sequence = self._activation.sequence if self._activation is not None else 0
        return ActivationFailed(stream=self.stream, sequence=sequence, reason=f"{type(error).__name__}: {error}")

    def _fail(self, waiting: Sequence[Any], error: Exception) -> None:
        self.actor_stopped.set()
        for message in waiting:
            reply = message.reply if isinstance(message, Message) else message.reply_to
            if reply is not None:
                reply.fail(error)

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
        self._empty_gate(closed, deadline=deadline)

    def _empty_gate(self, unknown: Exception, *, deadline: float | None = None) -> None:
        """Let go of all that is held; it fails with `unknown` if its commit has not ended, and not by the deadline."""
        for held in self._gate.empty():
            commit = held.commit
            if commit is not None and deadline is not None:
                with suppress(Exception):
                    commit.wait(timeout_s=max(0.0, deadline - time.monotonic()))
            self._let_go(held, None if commit is None else commit.error if commit.done else unknown)
