"""A conversation as its users hold it: ask, decide, steer it, and read what was said."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import msgspec
from pydantic_ai.messages import ModelMessage, UserContent
from typing_extensions import TypeVar as TypeVarWithDefault

from ...journal import Journal, RecordedEvent, encode_exact
from ...projections import Follow, Message, RunView, ThreadView, messages, view_of
from ..clock import random_id
from ..errors import BudgetExceeded, UnknownThread
from ..ref import ActorRef
from ..reply import Reply, translated
from ..thread import CancelRun, PauseRun, ResumeRun, SendSignal, SettleStep, ThreadCommand, ThreadState
from .approval import principal_of
from .artifacts import find_artifact
from .budget import refusal_of_owner
from .cancelling import CancelOutcome, cancel_outcome
from .decision import Approve, DecidedApproval, PendingApproval, Reject, parse_global_id
from .definition import AgentDefinition
from .deltas import HELD_MAX, Deltas
from .live_turns import Delta
from .prompt import encode_prompt
from .questions import Place, Questions
from .run import Run
from .schedules import ScheduleBook, schedules_of
from .scope import current_drive
from .sealing import open_history
from .settling import NOT_GIVEN, outcome_of
from .state_changes import StateChanges
from .state_model import typed
from .subscription import Subscription
from .wire import load_messages

if TYPE_CHECKING:
    from ..system import ActorSystem

__all__ = ["Thread"]

Out = TypeVar("Out")
State = TypeVarWithDefault("State", default=Any)
V = TypeVar("V")


class Thread(Generic[Out, State]):
    """One conversation with one agent; cheap to make, safe to share."""

    def __init__(
        self,
        system: ActorSystem,
        definition: AgentDefinition[Any, Out, State],
        ref: ActorRef[ThreadCommand, ThreadState],
        *,
        owner: str | None,
        title: str | None,
    ) -> None:
        self._system = system
        self.definition = definition
        self._ref = ref
        self._owner = owner
        self._title = title

    @property
    def stream(self) -> str:
        """The stream of the conversation, `thread/KEY`."""
        return self._ref.stream

    @property
    def journal(self) -> Journal:
        """The journal that holds it."""
        return self._system.journal

    @property
    def key(self) -> str:
        """The key of the conversation."""
        return self.stream.partition("/")[2]

    @property
    def schedules(self) -> ScheduleBook:
        """The schedules of this thread: each tick is a run in it. To set one opens a thread that is new."""
        return schedules_of(self._system, self.definition, self._ref, self._owner, self._title)

    def run(
        self,
        prompt: str | Sequence[UserContent],
        *,
        run_id: str | None = None,
        on_concurrent_run: str | None = None,
    ) -> Run[Out]:
        """Ask the agent; returns at once with the run, which goes on by itself, also after a crash.

        Give a `run_id` to make asking twice safe: the second time gives the same run. The prompt is text, or
        pydantic-ai user content.

        Raises:
            MailboxFull, SystemClosed: the run was not started.

        Whether it was refused (`RunConflict`: the thread is busy; `BudgetExceeded`: the thread or its owner has used
        all there is for it; `UnknownThread`: it is not yours) shows when it is waited for.
        """
        run = run_id or f"run-{random_id()[:12]}"
        command = self.definition.start(
            run,
            encode_prompt(prompt),
            owner=self._owner,
            title=self._title,
            at=self._system.clock(),
            concurrent=on_concurrent_run,
        )
        if (refused := self._refused(run)) is not None:
            reply: Reply[ThreadState] = Reply()
            reply.fail(refused)
            return Run(self, run, reply)
        # Without a command id of its own: the run id makes asking twice safe, and the owner is looked at each time.
        return Run(self, run, self._ref.ask(command))

    def attach(self, run_id: str) -> Run[Out]:
        """Return a run that was started before, to wait for it."""
        return Run(self, run_id, None)

    def cancel(self, run_id: str | None = None, *, reason: str = "cancelled") -> Reply[CancelOutcome]:
        """Stop a run wherever it is: queued, waiting, in a model call or in a tool; without an id, all that there is.

        The reply comes once it is recorded, and says what happened: a run that ended first stays as it is. After
        "cancelled" nothing of the run is recorded any more, its approvals are closed, and its children are cancelled.

        Raises (the reply does):
            UnknownRun: there is no such run in the thread.
            UnknownThread: there is no such thread, or it is not yours.
        """
        reply = self._ref.ask(CancelRun(run_id, self._owner, reason, self._system.clock()))
        return translated(reply, lambda thread: cancel_outcome(thread, run_id))

    def pause(self, run_id: str, *, reason: str = "paused") -> Reply[ThreadState]:
        """Have a run stop before its next step, until `resume`; a step in flight ends first, and is recorded.

        Once the reply is there, no step begins that has not: no tool and no turn of the model. The pause survives a
        restart, and nothing of the run is in memory.

        Raises (the reply does):
            RunEnded: there is nothing left to pause.
            UnknownRun, UnknownThread: as for `cancel`.
        """
        return self._ref.ask(PauseRun(run_id, self._owner, reason, self._system.clock()))

    def resume(self, run_id: str) -> Reply[ThreadState]:
        """Have a paused, parked or halted run go on, with the agents of this system; another one is left as it is.

        Raises (the reply does):
            RunEnded: it has ended.
            UnknownRun, UnknownThread: as for `cancel`.
        """
        return self._ref.ask(ResumeRun(run_id, self._owner, self._system.clock()))

    def settle(
        self,
        run_id: str,
        step: str,
        *,
        result: Any = NOT_GIVEN,
        retry: bool = False,
        error: str | None = None,
        by: str | None = None,
    ) -> Reply[ThreadState]:
        """Say what came of a step in doubt (`view().run(run_id).in_doubt`), so that its run goes on.

        Give one of: the tool's `result`, as JSON values; `retry=True`, for it did not take effect and is called again;
        the `error` that it ended with. It is as final as if the tool itself had said so; `by` is recorded, the acting
        owner by default.

        Raises:
            TypeError: none of these was given, or several.
            NotRepresentable: the result is not made of JSON's own types; names the path.
            CommandRejected (the reply does): the step is not in doubt.
            UnknownRun, UnknownThread (the reply does): as for `cancel`.
        """
        outcome, value, fact = outcome_of(step, result, error, retry=retry)
        who, at = self._owner if by is None else by, self._system.clock()
        return self._ref.ask(SettleStep(run_id, step, outcome, who, self._owner, at, value, fact))

    def signal(self, name: str, payload: Any = None, *, id: str | None = None) -> Reply[ThreadState]:  # noqa: A002  (the field's word)
        """Give the thread a signal: the first step that waits for its name takes it, now or later.

        `payload` is made of JSON values. Give an `id` to make sending twice safe: the second time changes nothing.

        Raises:
            NotRepresentable: the payload is not made of JSON's own types; names the path.
            UnknownThread: there is no such thread, or it is not yours.
            CommandRejected (the reply does): the name is none, or too many signals wait to be taken.
        """
        held = encode_exact(payload, what=f"the payload of signal {name!r}")
        # An id that was seen is answered before anybody looks at the owner again.
        self._seen()
        sent = SendSignal(id or random_id(), name, held, self._owner, self._system.clock())
        return self._ref.ask(sent, command_id=None if id is None else f"signal:{id}")

    def approvals(self) -> list[PendingApproval]:
        """Return the tool calls that wait for a decision, the oldest first, then those of threads it delegated to.

        Raises:
            UnknownThread: there is none, or it is not yours.
        """
        self._seen()
        return Questions(self._system).of_thread(self.stream)

    def approve(
        self,
        id: str,  # noqa: A002  (the field's word)
        *,
        arguments: Mapping[str, Any] | None = None,
        by: str | None = None,
    ) -> Reply[DecidedApproval]:
        """Let a call be made, once, as the model asked for it, or with edited `arguments`; see `decide`."""
        return self.decide(id, Approve(arguments), by=by)

    def reject(self, id: str, reason: str, *, by: str | None = None) -> Reply[DecidedApproval]:  # noqa: A002  (as above)
        """Refuse a call: the tool does not run, and the model is told by whom and why; see `decide`."""
        return self.decide(id, Reject(reason), by=by)

    def decide(self, id: str, decision: Approve | Reject, *, by: str | None = None) -> Reply[DecidedApproval]:  # noqa: A002  (as above)
        """Decide an approval for good: `Approve()` or `Reject(reason)`, and nothing else decides anything.

        `by` is who decides, by default the owner that this thread is held as; an agent never does. The reply comes once
        the decision is recorded, and says what was decided: the same decision again is answered with the first. The
        call itself is made by the run, which goes on by itself, also after a crash.

        Raises:
            InvalidDecision: it is neither; the call still waits.
            UnknownApproval: there is no such approval, or `by` may not decide it: the two look the same.
            InvalidArguments: the tool does not take the edited arguments; names the field. The call still waits.
            NotRepresentable: they are not made of JSON's own types.
            AlreadyDecided (the reply does): it was decided otherwise, or its time was over, before.
            UnknownThread: there is no such thread, or it is not yours.
        """
        self._seen()
        questions, (run, _, step) = Questions(self._system), id.partition("/")
        place = Place(id, self.stream, run, step)
        if (found := parse_global_id(id)) is not None:
            elsewhere = Place(id, *found)
            if elsewhere.stream == self.stream or questions.is_under(self.stream, elsewhere):
                place = elsewhere
        return questions.decide(place, decision, self._acting() if by is None else by)

    def _acting(self) -> str | None:
        """Return who acts: where an agent's own code decides, it is the agent."""
        drive = current_drive()
        return self._owner if drive is None else principal_of(drive.terms.agent, drive.steps.stream)

    def view(self) -> ThreadView:
        """Return the conversation at a glance: status, runs, usage.

        Raises:
            UnknownThread: there is none, or it is not yours.
        """
        return self._seen()

    def status(self, run_id: str) -> str:
        """Return where a run is; `RunView` says what its statuses mean.

        Raises:
            UnknownThread: there is no such thread or run, or it is not yours.
        """
        run = self._seen().run(run_id)
        if run is None:
            raise UnknownThread(thread=f"{self.stream}, run {run_id}")
        return run.status

    def queue(self) -> list[RunView]:
        """Return the runs that wait for their turn, the next one first.

        Raises:
            UnknownThread: there is no such thread, or it is not yours.
        """
        return self._seen().queued

    def messages(self) -> list[ModelMessage]:
        """Return what was said, as pydantic-ai messages.

        Raises:
            UnknownThread: there is none, or it is not yours.
        """
        return load_messages(open_history(self.messages_json(), self.definition.terms.seal, self.stream))

    def artifact(self, id: str) -> Any:  # noqa: A002  (the field's word)
        """Return a tool's result that was too long for the model, whole: its text, or JSON values.

        Raises:
            UnknownArtifact: the thread has none of this id.
            UnknownThread: there is no such thread, or it is not yours.
        """
        self._seen()
        return msgspec.json.decode(find_artifact(self.journal, self.stream, id))

    def messages_json(self) -> list[Message]:
        """Return what was said, as JSON values."""
        self._seen()
        return messages(self._system.journal.read(self.stream))

    # A type checker takes the first that fits: only where no state was declared is it all that JSON may be.
    @overload
    def state(self: Thread[Any, None]) -> Any: ...

    @overload
    def state(self) -> State | None: ...

    @overload
    def state(self, model: type[V]) -> V | None: ...

    def state(self, model: type[Any] | None = None) -> Any:
        """Return the synced state, as `model` makes of it, or what the agent declares as `state_type`.

        It is None before it was first set. Without either, and where the type is a JSON schema, it is JSON values.

        Raises:
            UnknownThread: there is no such thread, or it is not yours.
            InvalidState: the state does not fit the model; names the path.
        """
        return self._as(model, self.state_json())

    def state_json(self) -> Any:
        """Return the synced state as JSON values, whatever its type; None before it was first set.

        Raises:
            UnknownThread: there is no such thread, or it is not yours.
        """
        return self.definition.state_model.read(self._seen().state)

    def _as(self, model: type[Any] | None, value: Any) -> Any:
        if model is None:
            return self.definition.state_model.typed(value, self.stream)
        return None if value is None else typed(value, model, self.stream)

    @overload
    def watch_state(self, *, after: int | str | None = None) -> StateChanges[State]: ...

    @overload
    def watch_state(self, model: type[V], *, after: int | str | None = None) -> StateChanges[V]: ...

    def watch_state(self, model: type[Any] | None = None, *, after: int | str | None = None) -> StateChanges[Any]:
        """Follow the synced state: what it is, then each change; see `StateChanges`, and `state` for the values.

        Raises:
            UnknownThread: there is no such thread, or it is not yours.
            ForeignToken, ValueError: `after` is no place in it.
        """
        self._seen()
        read = self.definition.state_model.read

        def shown(value: Any) -> Any:
            return self._as(model, value)

        return StateChanges(self.journal, self.stream, read=read, typed=shown, after=after)

    def subscribe(self, *, after: int | str = 0, until_run: str | None = None) -> Subscription:
        """Observe the thread: its events as they become durable, caught up first, then live; see `Subscription`.

        Resume with `after`, the sequence or the token of the last event that was seen. With `until_run` it ends when
        that run has.

        Raises:
            UnknownThread: there is no such thread, or it is not yours.
            ForeignToken, ValueError: `after` is no place in it.
        """
        self._seen()
        return Subscription(self.journal, self.stream, after=after, until_run=until_run)

    def deltas(self, run_id: str | None = None, *, after: Delta | None = None, held_max: int = HELD_MAX) -> Deltas:
        """Listen to what the model says while it says it: in this system, now, and recorded nowhere; see `Deltas`.

        Raises:
            UnknownThread: the thread is not yours. One that has not begun may be listened to before it does.
        """
        if self.journal.head(self.stream).sequence:
            self._seen()
        live = self._system.live_turns
        return Deltas(live, self.journal, self.stream, run=run_id, after=after, held_max=held_max, check=self._seen)

    def events(self, *, after: int = 0) -> Iterator[RecordedEvent]:
        """Yield the recorded events after a sequence.

        Raises:
            UnknownThread: there is none, or it is not yours.
        """
        self._seen()
        return self._system.journal.read(self.stream, after=after)

    async def follow(self, *, after: int = 0) -> AsyncIterator[RecordedEvent]:
        """Yield events as they become durable, from a sequence on: catch up, then live. Resumable.

        Raises:
            UnknownThread: there is none, or it is not yours.
        """
        self._seen()
        async with Follow(self._system.journal, self.stream, after=after) as events:
            async for event in events:
                yield event

    def _refused(self, run: str) -> BudgetExceeded | None:
        """Return why the owner gets no further run; the thread itself answers for one that it has, and to others."""
        refused = refusal_of_owner(self.definition.budget, self.journal, self._owner, self._system.clock())
        if refused is None:
            return None
        view = view_of(self.journal.read(self.stream))
        others = view.sequence > 0 and view.owner != self._owner
        return None if others or view.run(run) is not None else refused

    def _seen(self) -> ThreadView:
        view = view_of(self._system.journal.read(self.stream))
        if view.sequence == 0 or (view.owner is not None and view.owner != self._owner):
            raise UnknownThread(thread=self.stream)
        return view
