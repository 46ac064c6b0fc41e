"""The local host of one actor: a pykka actor that takes turns on a pool and holds replies until they are durable.

One turn, in order:

1. let go of what the disk has confirmed: replies, effects to start, effects to stop;
2. start or stop effects as the host was told by those that finished;
3. handle some messages; what each one waits for joins the end of the gate.

Nothing here blocks on a commit or on another actor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pykka
from pykka._envelope import Envelope  # pyright: ignore[reportPrivateUsage]  (pykka is pinned for its hooks)

from ..journal import CellWrite, Commit, JournalError, WrongExpectedSequence, open_mark
from .activation import Activation, AnyActivation, Handled
from .errors import ActivationFailed, ActorError, SystemClosed
from .mailbox import Mailbox
from .reply import Reply

if TYPE_CHECKING:
    from ..journal import Journal
    from .decider import EventSourcedActor
    from .effect import Effect
    from .mailbox import Pool

__all__ = ["Host", "LocalActor", "Message"]

MESSAGES_PER_TURN = 64
"""Messages an actor handles before it lets others have the thread."""


class Message(NamedTuple):
    """A command on its way, with its id and the effect that sent it (None: from outside)."""

    command: object
    command_id: str
    performer: str | None = None


class EffectHandle(Protocol):
    """A running effect."""

    def cancel(self) -> None:
        """Stop it soon."""
        ...


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
        self._gate: deque[tuple[Commit | None, Callable[[Exception | None], None]]] = deque()
        self._running: dict[str, EffectHandle] = {}
        self._ended: deque[str] = deque()
        self._sleep_wanted = False
        mailbox: Mailbox = self.actor_inbox  # pyright: ignore[reportAssignmentType]
        self.mailbox = mailbox
        mailbox.bind(self, host.pool, stream=stream, size_max=kind.mailbox_size)

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
        """Whether something waits, is being synced or runs."""
        return bool(self._gate or self._running or not self.mailbox.empty())

    def turn(self) -> None:
        """Take one turn; a failure in it takes down this actor alone."""
        if self.mailbox.closed:
            return
        try:
            more = self._take_turn()
        except Exception as error:  # noqa: BLE001  (contained: one actor's fault must not stop the pool)
            self._host.report(self.stream, "the actor failed and was dropped", error)
            self._drop(error)
            return
        if not self.mailbox.closed:
            self.mailbox.rest(more=more)

    def _take_turn(self) -> bool:
        self._open_gate()
        while self._ended:
            self._running.pop(self._ended.popleft(), None)
        if self._activation is None:
            self._activate()
        for _ in range(MESSAGES_PER_TURN):
            if self.mailbox.empty():
                break
            self._receive(self.mailbox.get())
        self._open_gate()
        if self._sleep_wanted:
            self._sleep_wanted = False
            self._sleep()
        return not self.mailbox.empty()

    def _activate(self) -> None:
        self._activation = activation = Activation(self.kind, self.id, self._host.journal)
        if not activation.effects:
            # An import marks streams that may have open work; this one has none.
            if self._host.journal.cells.get(open_mark(self.stream)) is not None:
                self._host.journal.cells.write([CellWrite(open_mark(self.stream), None)])
            return
        for effect in activation.effects:
            self._start_effect(effect)

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
        except JournalError as error:
            handled = Handled(None, error, None)
        except Exception as error:
            if reply is not None:
                reply.fail(error)
            raise
        self._when_durable(handled.commit, partial(self._answer, reply, handled))

    def _handle(self, message: Message) -> Handled:
        activation = self._activation
        if activation is None:
            activation = self._activation = Activation(self.kind, self.id, self._host.journal)
        before = activation.effects
        try:
            handled = activation.handle(message.command, message.command_id)
        except WrongExpectedSequence:
            # Something else (an import) wrote to this stream: take in what it wrote and decide again.
            activation = self._activation = Activation(self.kind, self.id, self._host.journal)
            handled = activation.handle(message.command, message.command_id)
        if activation.effects is not before:
            self._plan_effects(before, activation.effects, handled.commit, message.performer)
        return handled

    def _plan_effects(
        self,
        before: Sequence[Effect],
        after: Sequence[Effect],
        commit: Commit | None,
        performer: str | None,
    ) -> None:
        old, new = {effect.key: effect for effect in before}, {effect.key: effect for effect in after}
        for key in old.keys() - new.keys():
            # An effect whose own command closed it is ending by itself.
            if key != performer:
                self._when_durable(commit, partial(self._cancel_effect, key))
        for key, effect in new.items():
            if key not in old:
                self._when_durable(commit, partial(self._start_if_open, effect))

    def _when_durable(self, commit: Commit | None, act: Callable[[Exception | None], None]) -> None:
        self._gate.append((commit, act))
        if commit is not None and not commit.done:
            commit.add_done_callback(self._commit_done)

    def _commit_done(self, _: Commit) -> None:
        self.mailbox.wake()

    def _open_gate(self) -> None:
        gate = self._gate
        while gate and ((commit := gate[0][0]) is None or commit.done):
            _, act = gate.popleft()
            error = commit.error if commit is not None else None
            if error is not None:
                # The state in memory holds events that are not in the journal: start again from what is there.
                self._activation = None
            act(error)

    def _answer(self, reply: Reply[Any] | None, handled: Handled, commit_error: Exception | None) -> None:
        error = commit_error or handled.error
        if reply is not None:
            if error is None:
                reply.set(handled.answer)
            else:
                reply.fail(error)
        elif error is not None:
            self._host.report(self.stream, "a command that nobody waits for was refused", error)

    def _start_if_open(self, effect: Effect, error: Exception | None) -> None:
        if error is None and self._activation is not None:
            open_now = {one.key for one in self._activation.effects}
            if effect.key in open_now:
                self._start_effect(effect)

    def _start_effect(self, effect: Effect) -> None:
        if effect.key not in self._running:
            self._running[effect.key] = self._host.start_effect(self, effect, partial(self._effect_done, effect.key))

    def _effect_done(self, key: str) -> None:
        self._ended.append(key)
        self.mailbox.wake()

    def _cancel_effect(self, key: str, error: Exception | None) -> None:
        if error is None and (running := self._running.get(key)) is not None:
            running.cancel()

    def _sleep(self) -> None:
        if not self._gate and not self._running and self.mailbox.close_if_empty():
            self.actor_stopped.set()
            self._host.retire(self)

    def _drop(self, error: Exception) -> None:
        """Fail what waits and forget this actor; the next message makes a new one."""
        for running in self._running.values():
            running.cancel()
        waiting = self.mailbox.close()
        self.actor_stopped.set()
        self._host.retire(self)
        shown = error if isinstance(error, ActorError | JournalError) else None
        if shown is None:
            shown = ActivationFailed(stream=self.stream, sequence=0, reason=f"{type(error).__name__}: {error}")
        for envelope in waiting:
            if envelope.reply_to is not None:
                envelope.reply_to.fail(shown)
        while self._gate:
            commit, act = self._gate.popleft()
            act(shown if commit is None or not commit.done else commit.error)

    def finish(self) -> Reply[None]:
        """Return what is answered once all that waits here is handled and durable."""
        reply: Reply[None] = Reply()
        try:
            self.mailbox.put_anyway(Envelope(None, reply))
        except pykka.ActorDeadError:
            reply.set(None)
        return reply

    def shut_down(self) -> None:
        """Refuse what still waits: the system closes."""
        for envelope in self.mailbox.close():
            if envelope.reply_to is not None:
                envelope.reply_to.fail(SystemClosed(stream=self.stream))
        self.actor_stopped.set()
