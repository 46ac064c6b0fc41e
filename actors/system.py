"""The actor system on one machine: open a journal, wake actors on demand, go on with what was open.

```python
with ActorSystem("./data", agents=[agent]) as system:
    print(system.thread(agent, "customer-42").run("Where is my parcel?").result().output)
```
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from types import EllipsisType, TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

import msgspec
import pykka
from typing_extensions import TypeVar as TypeVarWithDefault

from ..journal import Journal, StreamDeleted, category_of, stream_name
from ..journal.opening import open_journal
from ..projections import ProjectionRunner, RowProjection, Spending, spending, spending_rows
from .agent_set import Agents_co, agent_set_of
from .alarms import AlarmClock
from .clock import Clock, new_id, system_clock
from .decider import EventSourcedActor
from .effects_loop import EffectsLoop, perform
from .errors import ActorQuarantined, SystemClosed, UnknownKind
from .failure import Failure
from .functions import Function, Functions
from .kinds import kinds_of
from .local import LocalActor
from .machinery import Machinery
from .mailbox import Pool
from .message import AlarmDue, Message
from .open_mark import OpenMark
from .quarantine import Quarantine
from .ref import ActorRef
from .reply import Reply, forbid_here
from .sweeper import Sweeper

if TYPE_CHECKING:
    from pydantic_ai import Agent

    from .agent import AgentDefinition, Approvals, Thread
    from .agent.schedules import ScheduleBook
    from .effect import Effect
    from .open_work import EffectHandle
    from .outbox import Outgoing

__all__ = ["ActorSystem"]

S = TypeVar("S")
C = TypeVar("C")
E = TypeVar("E", bound=msgspec.Struct)
A = TypeVar("A")
D = TypeVar("D")
Out = TypeVar("Out")
State = TypeVarWithDefault("State", default=Any)

log = logging.getLogger("clew")

FAILURES_KEPT = 100
CLOSE_TIMEOUT_S = 30.0


class ActorSystem(Generic[Agents_co]):
    """Actors on one machine over one journal; a sync and an async context manager.

    `journal` is a directory (LMDB) or a file (`"sqlite:///data.db"`), made if needed, `"memory:"`, or an open journal,
    which then stays yours to close.
    `agents` are pydantic-ai agents or agent definitions, whose conversations are threads, as a list or an `AgentSet`;
    `actors` are your own kinds.
    `projections` are kept up to date while the system is open, and looked after through `system.projections`.
    `functions` of your application are what tools may call by name: see `define_function`.
    On opening, every actor with open work is woken and goes on, and alarms that are overdue fire. `threads` drive all
    actors; `idle_s` seconds after its last message an actor without work goes to sleep and comes back on the next one,
    or when its alarm is due by `clock`. `recover=False` leaves open work and alarms alone, to look around without doing
    anything. `failures` are the last things that failed where nobody waited, and `quarantine` says which actors could
    not be woken, and are not tried again.

    Raises:
        JournalLocked: another process works on this journal.
        ForeignJournal: the directory or file holds something else.
        TypeError, ValueError: the journal's URL or a declaration of an agent or an actor is wrong; it says which.
    """

    def __init__(
        self,
        journal: Journal | str | Path,
        *,
        agents: Agents_co | Iterable[Agent[Any, Any] | AgentDefinition[Any, Any]] = (),
        actors: Iterable[EventSourcedActor[Any, Any, Any, Any]] = (),
        projections: Iterable[RowProjection[Any, Any]] = (),
        threads: int = 2,
        idle_s: float = 60.0,
        clock: Clock = system_clock,
        recover: bool = True,
        functions: Iterable[Function[..., Any]] | Functions = (),
    ) -> None:
        if threads < 1 or not idle_s > 0:
            raise ValueError(f"threads is at least 1 and idle_s more than 0, not {threads} and {idle_s}")
        # A list of agents is a set without attributes that a type checker knows.
        self._agents = cast("Agents_co", agent_set_of(agents))
        self.functions = functions if isinstance(functions, Functions) else Functions(functions)
        self._kinds = kinds_of(self, actors, self._agents.values())
        kept = self._kept(list(projections))
        if self._kinds.definitions:
            from .agent.live_turns import LiveTurns  # noqa: PLC0415  (only a system with agents pays for pydantic-ai)

            self.live_turns = LiveTurns()
        if len({projection.name for projection in kept}) != len(kept):
            raise ValueError(f"two projections share a name: {', '.join(projection.name for projection in kept)}")
        self.clock = clock
        self.failures: deque[Failure] = deque(maxlen=FAILURES_KEPT)
        self._journal, self._owned = _open(journal)
        self.quarantine = Quarantine(self._journal)
        self.projections = ProjectionRunner(self._journal, kept)
        self._lock = threading.Lock()
        self._close_lock = threading.Lock()
        self._closing = False
        self._actors: dict[str, LocalActor] = {}
        self._open_mark, self._found_open = OpenMark(self._journal), dict[str, int]()
        self.pool, self._effects, self._sweeper, self._alarms = self._machinery(threads, idle_s)
        try:
            if kept:
                self.projections.__enter__()
            if recover:
                self.recover()
        except BaseException:
            self.close()
            raise

    @property
    def journal(self) -> Journal:
        """The journal that the actors write to."""
        return self._journal

    @property
    def agents(self) -> Agents_co:
        """The agents whose conversations are threads, by name, or as the attributes of the set that was given."""
        return self._agents

    @property
    def live(self) -> int:
        """How many actors are awake."""
        return len(self._actors)

    def ref(self, kind: EventSourcedActor[S, C, E, A], id: str) -> ActorRef[C, A]:  # noqa: A002  (the field's word)
        """Return a reference to one actor of a kind, which need not exist yet.

        Raises:
            InvalidName: the id is empty, too long or not printable.
            UnknownKind: the kind was not given to this system.
        """
        self._kinds.check(kind)
        return ActorRef(self, stream_name(kind.category, id))

    def thread(
        self,
        agent: Agent[D, Out] | AgentDefinition[D, Out, State],
        key: str,
        *,
        owner: str | None = None,
        title: str | None = None,
    ) -> Thread[Out, State]:
        """Return the conversation `key` with an agent of this system, acting as `owner`.

        The first run opens it and fixes its owner for ever; `title` counts only then. To anyone but its owner, an
        owned thread does not exist.

        Raises:
            InvalidName: the key is empty, too long or not printable.
            UnknownKind: the agent was not given to this system.
        """
        from .agent import Thread  # noqa: PLC0415  (as above)

        definition = self._kinds.definition(agent)
        return Thread(self, definition, ActorRef(self, stream_name("thread", key)), owner=owner, title=title)

    def spending(self, *, owner: str | EllipsisType | None = ...) -> list[Spending]:
        """Return what was used up to now, by owner and agent, and by model: tokens, cost and runs.

        With an `owner`, theirs alone, and with None that of threads without one. It folds what is not kept: give the
        projection `spending` to the system to have it kept, as a system does whose agents have budgets for owners.
        """
        return [row for row in spending_rows(self._journal) if owner is ... or row.owner == owner]

    def _kept(self, given: list[RowProjection[Any, Any]]) -> list[RowProjection[Any, Any]]:
        """Return the projections to keep: those that were given, and what budgets are looked up in."""
        budgets = [definition.budget for definition in self._kinds.definitions.values()]
        limited = any(budget is not None and budget.owner is not None for budget in budgets)
        return [*given, spending] if limited and spending not in given else given

    def _machinery(self, threads: int, idle_s: float) -> Machinery:
        """Return what drives the actors: threads; a host that takes one step after the other has others."""
        return Machinery(
            Pool(threads, name="clew"),
            EffectsLoop(name="clew-effects"),
            Sweeper(self._live, idle_s),
            AlarmClock(self._journal, self.clock, self._ring, self.report),
        )

    def schedules(self, agent: Agent[Any, Any] | AgentDefinition[Any, Any]) -> ScheduleBook:
        """Return the schedules of an agent of this system, each tick of which is a run of its own.

        Raises:
            UnknownKind: the agent was not given to this system.
        """
        from .agent.schedules import agenda_of  # noqa: PLC0415  (as above)

        return agenda_of(self, self._kinds.definition(agent))

    def approvals(self, *, by: str | None) -> Approvals:
        """Return the tool calls of all threads that wait for a decision `by` may make."""
        from .agent import Approvals  # noqa: PLC0415  (as above)

        return Approvals(self, by=by)

    def recover(self) -> int:
        """Wake every actor with open work, and let alarms fire from now on; return how many were woken.

        Done on opening; waking one twice does no harm.
        """
        streams = [value.decode() for _, value in self._journal.cells.scan(b"open/")]
        if self._open_mark.crashed:
            self._found_open.update((stream, self._journal.head(stream).sequence) for stream in streams)
            self._open_mark.crashed = False
        self._open_mark.set()
        woken = 0
        for stream in streams:
            error = self._left_alone(stream)
            if error is None:
                self._actor(stream)
                woken += 1
            else:
                self.report(stream, "its open work was left alone", error)
        self._alarms.start()
        return woken

    def kind_of(self, stream: str) -> EventSourcedActor[Any, Any, Any, Any]:
        """Return the kind of the actor with this stream.

        Raises:
            UnknownKind: the kind was not given to this system.
        """
        return self._kinds.of(stream)

    def found_open(self, stream: str) -> int:
        """Return the sequence at which an actor had open work when a crash ended the last system, once; 0 otherwise."""
        return self._found_open.pop(stream, 0)

    def post(self, stream: str, command: object, command_id: str, performer: str | None) -> Reply[Any]:
        """Send a command to an actor, waking it first if it sleeps; what `ActorRef.ask` does."""
        reply: Reply[Any] = Reply()
        try:
            self._send(stream, Message(command, command_id, performer, reply), bounded=performer is None)
        except ActorQuarantined as error:
            reply.fail(error)
        return reply

    def post_and_forget(self, stream: str, command: object, command_id: str, performer: str | None) -> None:
        """Send a command and wait for nothing; what `ActorRef.tell` does."""
        try:
            self._send(stream, Message(command, command_id, performer, None), bounded=performer is None)
        except ActorQuarantined as error:
            self.report(stream, "a command that nobody waits for was refused", error)

    def hand_over(self, message: Outgoing, command_id: str) -> Reply[Any]:
        """Send an actor what another one sent it, waking it first if it sleeps.

        Raises:
            InvalidName, StreamDeleted: there is and will be no such actor.
            UnknownKind, ActorQuarantined: it is not woken, in this system or for now.
            InvalidMessage: it is no command of its kind.
            MailboxFull, SystemClosed: as for `ActorRef.ask`.
        """
        category, _, id_ = message.to.partition("/")
        stream = stream_name(category, id_)
        end = self._journal.head(stream)
        if end.deleted:
            raise StreamDeleted(stream=stream, sequence=end.sequence, digest=end.digest)
        if error := self._left_alone(stream):
            raise error
        command = self._kinds.of(stream).command(stream, message.command, message.payload)
        # It is load from outside also where the sender is the receiver, so it is bounded.
        return self.post(stream, command, command_id, None)

    def start_effect(self, actor: LocalActor, effect: Effect, done: Callable[[], None]) -> EffectHandle:
        """Start the work of an effect on the effects loop."""
        ref: ActorRef[Any, Any] = ActorRef(self, actor.stream, performer=effect.key)
        return self._effects.start(partial(perform, actor.kind, effect, ref, self), done)

    def retire(self, actor: LocalActor) -> None:
        """Forget an actor that went to sleep."""
        with self._lock:
            if self._actors.get(actor.stream) is actor:
                del self._actors[actor.stream]

    def expect_alarm(self, due: int) -> None:
        """Let an alarm fire that is filed under `due` now (nanoseconds since the epoch, UTC)."""
        self._alarms.expect(due)

    def report(self, stream: str, what: str, error: BaseException) -> None:
        """Keep and log a failure that nobody is waiting for."""
        self.failures.append(Failure(stream, what, error))
        log.error("%s: %s: %s: %s", stream, what, type(error).__name__, error, exc_info=error)

    def close(self, *, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Stop: cancel what runs (it goes on at the next opening), handle what waits, sync, let go of the journal.

        Waits until that is done. What was acknowledged is safe. Safe to call twice. What does not end when cancelled is
        left behind after `timeout_s`, and so are commits that do not come; who waits for a reply gets `SystemClosed`.

        Raises:
            BlockingAsk: called on a thread that actors run on.
        """
        forbid_here()
        with self._close_lock:
            if not self._closing:
                self._close(timeout_s)

    def _close(self, timeout_s: float) -> None:
        self._alarms.close()
        self._closing = True
        self._sweeper.close()
        if not self._effects.close(timeout_s=timeout_s):
            error = TimeoutError(f"it did not end within {timeout_s} s of being cancelled")
            self.report("effects", "an effect may still do something", error)
        deadline = time.monotonic() + timeout_s
        for reply in [actor.finish() for actor in self._live() if actor.busy]:
            # Also when the actor fails instead: that is reported, and the others are still to be closed.
            with contextlib.suppress(Exception):
                reply.get(timeout=max(0.0, deadline - time.monotonic()))
        self.pool.stop()
        for actor in self._live():
            actor.shut_down(deadline)
        self._open_mark.clear()
        if self._kinds.definitions:
            self.live_turns.close()
        # Last, so that it has seen what the actors had to say; what it has not, it folds the next time.
        self.projections.__exit__(None, None, None)
        if self._owned:
            self._journal.close()

    def __enter__(self) -> Self:
        """Return the open system."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    async def __aenter__(self) -> Self:
        """Return the open system."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it without blocking the running loop."""
        await asyncio.to_thread(self.close)

    def _ring(self, stream: str, at: int) -> Reply[Any]:
        """Send an actor the alarm that is due, unless it is not to be woken."""
        if error := self._left_alone(stream) or self._without_agent(stream):
            raise error
        end = self._journal.head(stream)
        if end.deleted:
            raise StreamDeleted(stream=stream, sequence=end.sequence, digest=end.digest)
        reply: Reply[Any] = Reply()
        self._send(stream, Message(AlarmDue(at), new_id(), None, reply), bounded=False)
        return reply

    def _without_agent(self, stream: str) -> UnknownKind | None:
        """Return why an agent's schedules are not due here: ticks of an agent that is not there would only pile up."""
        category, _, name = stream.partition("/")
        if category != "agenda" or name in self._kinds.definitions:
            return None
        return UnknownKind(name=name, known=tuple(self._kinds.definitions))

    def _left_alone(self, stream: str) -> UnknownKind | ActorQuarantined | None:
        """Return why an actor is not woken but when it is asked, if there is a reason."""
        category = category_of(stream)
        kind = self._kinds.get(category)
        if kind is None:
            return UnknownKind(name=category, known=self._kinds.known)
        return self.quarantine.leaves_alone(stream, kind.code)

    def _send(self, stream: str, message: Message, *, bounded: bool) -> None:
        while True:
            # An actor may go to sleep between looking it up and sending; then it is looked up again.
            actor = self._actors.get(stream)
            if actor is None or actor.mailbox.closed or self._closing:
                actor = self._actor(stream)
            # What an actor's own effects and its alarm have to say is part of its work, not load from outside.
            put = actor.mailbox.put if bounded else actor.mailbox.put_anyway
            try:
                put(message)
            except pykka.ActorDeadError:
                continue
            return

    def _actor(self, stream: str) -> LocalActor:
        with self._lock:
            if self._closing:
                raise SystemClosed(stream=stream)
            actor = self._actors.get(stream)
            if actor is None or actor.mailbox.closed:
                self.quarantine.check(stream)
                id_ = stream.partition("/")[2]
                actor = self._actors[stream] = LocalActor(self, self._kinds.of(stream), id_, stream)
                actor.begin()
            return actor

    def _live(self) -> Sequence[LocalActor]:
        with self._lock:
            return list(self._actors.values())


def _open(journal: Journal | str | Path) -> tuple[Journal, bool]:
    if not isinstance(journal, str | Path):
        return journal, False
    return open_journal(journal), True
