"""Everything an actor can refuse, and what to do about each.

```
ActorError
├─ CommandRejected         decide said no: nothing was written
│  ├─ RunConflict          the thread is busy with another run
│  ├─ BudgetExceeded       the thread or its owner has used all that it may
│  ├─ UnknownRun           no such run in this thread
│  ├─ UnknownApproval      no such question in this thread
│  ├─ AlreadyDecided       the decision is final, and another one than this
│  ├─ InvalidDecision      neither an approval nor a rejection: nothing runs
│  ├─ InvalidArguments     edited arguments that the tool does not take: nothing runs
│  ├─ RunEnded             the run is over: late results of it are refused
│  ├─ InvalidMessage       what another actor sent is no command of this one
│  ├─ InvalidSchedule      it is malformed, or can never be due
│  ├─ UnknownSchedule      no such schedule in this actor
│  └─ TooManySchedules     the actor has as many as it takes
├─ UnknownArtifact         no such long result in this thread
├─ UnknownFunction         no function of the application is registered under this name
├─ InvalidInput            arguments that a function of the application does not take
├─ UnknownThread           no such thread, or not yours: the two look the same
├─ UnknownKind             no actor or agent is registered under this name
├─ MailboxFull             the actor is behind: retry later or shed load
├─ ActivationFailed        the actor could not be rebuilt from its stream
│  └─ ActorQuarantined     that happened several times in a row: it is not tried again
├─ SystemClosed            the system is shutting down
├─ BlockingAsk             a blocking wait where it could stop the whole system
├─ StepFailed              a step raised, as recorded
├─ NoMemory                nothing here remembers for this owner
├─ SignalTimedOut          the signal that was waited for did not come in time
├─ PauseSwallowed          a tool went on in spite of the cancel that lets go of its wait
├─ InvalidState            a value that the thread's synced state may not have
├─ ForeignToken            a place to go on from that is none in this thread
├─ DeltasLost              a listener was too slow for what the model says
├─ ReplayDivergence        replay asked for something the journal does not have
└─ RunNotFinished          the answer of a run that ended without one
   ├─ RunFailed
   ├─ RunCancelled
   └─ RunHalted
```
"""

from __future__ import annotations

from decimal import Decimal

from ..journal import ClewError

__all__ = [
    "ActivationFailed",
    "ActorError",
    "ActorQuarantined",
    "AlreadyDecided",
    "BlockingAsk",
    "BudgetExceeded",
    "CommandRejected",
    "DeltasLost",
    "ForeignToken",
    "InvalidArguments",
    "InvalidDecision",
    "InvalidInput",
    "InvalidMessage",
    "InvalidSchedule",
    "InvalidState",
    "MailboxFull",
    "NoMemory",
    "PauseSwallowed",
    "ReplayDivergence",
    "RunCancelled",
    "RunConflict",
    "RunEnded",
    "RunFailed",
    "RunHalted",
    "RunNotFinished",
    "SignalTimedOut",
    "StepFailed",
    "SystemClosed",
    "TooManySchedules",
    "UnknownApproval",
    "UnknownArtifact",
    "UnknownFunction",
    "UnknownKind",
    "UnknownRun",
    "UnknownSchedule",
    "UnknownThread",
]


SHOWN_MAX = 500
"""Characters of a value that an error shows."""


class ActorError(ClewError):
    """An actor, or the system it lives in, could not do what was asked."""


class CommandRejected(ActorError):
    """`decide` refused the command: nothing was written, and asking again is decided anew."""


class RunConflict(CommandRejected):
    """The thread is busy with another run."""

    def __init__(self, *, thread: str, run: str, status: str, queued: int = 0) -> None:
        self.thread = thread
        self.run = run
        self.status = status
        self.queued = queued
        behind = f"{queued} more wait behind it, the most that may" if queued else "one run owns a thread at a time"
        super().__init__(
            f"{thread}: run {run} is {status}, and {behind}. Wait for it, cancel it, or use another thread."
        )


class BudgetExceeded(CommandRejected):
    """A thread, or an owner over all of their threads, has used all that its agent's budget has for it.

    `scope` is "thread" or "owner" and `name` which one; `what` is "tokens" or "usd", `limit` and `spent` how many of
    them; `per` the period: "all", or a "day" or "month" of UTC. Where `what` is "unpriced", `spent` counts the requests
    whose cost is not known, so that the limit of USD cannot be kept.
    """

    def __init__(
        self, *, scope: str, name: str, what: str, limit: int | Decimal, spent: int | Decimal, per: str = "all"
    ) -> None:
        self.scope = scope
        self.name = name
        self.what = what
        self.limit = limit
        self.spent = spent
        self.per = per
        unit = "tokens" if what == "tokens" else "USD"
        most = f"{Decimal(limit):f} {unit} that this {scope} may use{'' if per == 'all' else f' in a {per} (UTC)'}"
        if what == "unpriced":
            text = f"what {spent} requests cost is not known, of the {most}. Limit tokens instead, or allow_unpriced,"
        else:
            text = f"{Decimal(spent):f} {unit} are spent, of the {most}. Raise the budget"
        later = "." if per == "all" else f", or try again in the next {per}."
        super().__init__(f"{name}: {text} in the definition of the agent{later}")


class UnknownRun(CommandRejected):
    """No run of this name in the thread."""

    def __init__(self, *, thread: str, run: str) -> None:
        self.thread = thread
        self.run = run
        super().__init__(f"{thread}: there is no run {run!r}. List them with `thread.view().runs`.")


class UnknownApproval(CommandRejected):
    """No question of this name in the thread, or it is none of yours."""

    def __init__(self, *, thread: str, approval: str) -> None:
        self.thread = thread
        self.approval = approval
        super().__init__(f"{thread}: there is no approval {approval!r}. List them with `thread.approvals()`.")


class AlreadyDecided(CommandRejected):
    """The approval was decided before, otherwise; a decision is final."""

    def __init__(self, *, thread: str, approval: str, decision: str, by: str | None) -> None:
        self.thread = thread
        self.approval = approval
        self.decision = decision
        self.by = by
        who = f" by {by}" if by is not None else ""
        super().__init__(f"{thread}: approval {approval} is {decision}{who}, and a decision is final. Nothing changed.")


class InvalidDecision(CommandRejected):
    """What was given as a decision is none, so nothing was decided."""

    def __init__(self, *, thread: str, decision: str) -> None:
        self.thread = thread
        self.decision = decision
        super().__init__(f"{thread}: {_shorten(decision)} is no decision. Approve or reject; the approval still waits.")


class InvalidArguments(CommandRejected):
    """The tool does not take the arguments that a call was to be approved with, so nothing was decided."""

    def __init__(self, *, thread: str, approval: str, tool: str, path: str, reason: str) -> None:
        self.thread = thread
        self.approval = approval
        self.tool = tool
        self.path = path
        self.reason = reason
        super().__init__(
            f"{thread}: {tool} does not take these arguments, at {path}: {_shorten(reason)}. "
            f"Correct them; approval {approval} still waits."
        )


class RunEnded(CommandRejected):
    """The run is over, so what arrives late for it is refused."""

    def __init__(self, *, thread: str, run: str, status: str, what: str) -> None:
        self.thread = thread
        self.run = run
        self.status = status
        self.what = what
        super().__init__(f"{thread}: run {run} is {status}; {what} came too late and was not recorded.")


class InvalidMessage(CommandRejected):
    """What another actor sent is no command of this one: nobody knows its name here, or its fields do not fit."""

    def __init__(self, *, stream: str, command: str, reason: str) -> None:
        self.stream = stream
        self.command = command
        self.reason = reason
        super().__init__(
            f"{stream}: the message {_shorten(command)!r} is no command: {reason}. See the `commands` of its kind."
        )


class InvalidSchedule(CommandRejected):
    """What is to be done at a time is malformed, or the time can never come."""

    def __init__(self, *, schedule: str, reason: str) -> None:
        self.schedule = schedule
        self.reason = reason
        super().__init__(f"{schedule}: {reason}")


class UnknownSchedule(CommandRejected):
    """No schedule of this name is there: it never was, has had its time, or was cancelled."""

    def __init__(self, *, schedule: str) -> None:
        self.schedule = schedule
        super().__init__(f"there is no schedule {schedule!r}. List those there are, or set it.")


class TooManySchedules(CommandRejected):
    """The actor has as many schedules as it takes."""

    def __init__(self, *, schedule: str, schedules_max: int) -> None:
        self.schedule = schedule
        self.schedules_max = schedules_max
        super().__init__(
            f"schedule {schedule!r}: there are {schedules_max} already, the most an actor takes. "
            "Cancel one, or set it in another actor."
        )


class UnknownArtifact(ActorError):
    """The thread has no artifact of this id."""

    def __init__(self, *, thread: str, id: str) -> None:  # noqa: A002  (the field's word)
        self.thread = thread
        self.id = id
        super().__init__(f"{thread}: there is no artifact {id!r}. Its id is in the note behind the tool's result.")


class UnknownFunction(ActorError):
    """No function of the application is registered under this name."""

    def __init__(self, *, name: str, known: tuple[str, ...]) -> None:
        self.name = name
        self.known = known
        listed = ", ".join(known) or "none"
        super().__init__(
            f"there is no function {name!r} (there are: {listed}). Give it to ActorSystem(functions=[...])."
        )


class InvalidInput(ActorError):
    """A function of the application does not take these arguments, and was not called."""

    def __init__(self, *, function: str, path: str, reason: str) -> None:
        self.function = function
        self.path = path
        self.reason = reason
        super().__init__(
            f"function {function} does not take these arguments, at {path}: {_shorten(reason)}. Correct them."
        )


class UnknownThread(ActorError):
    """There is no such thread for this caller; someone else's thread looks exactly the same."""

    def __init__(self, *, thread: str) -> None:
        self.thread = thread
        super().__init__(f"{thread}: no such thread. Start one with `run`, and act as its owner.")


class UnknownKind(ActorError, KeyError):
    """Nothing is registered under this name."""

    # A KeyError, because agents are looked up as in a mapping; its own text would be a repr of ours.
    __str__ = Exception.__str__

    def __init__(self, *, name: str, known: tuple[str, ...]) -> None:
        self.name = name
        self.known = known
        listed = ", ".join(known) or "none"
        super().__init__(f"{name!r} is not registered (registered: {listed}). Give it to ActorSystem when opening.")


class NoMemory(ActorError):
    """There is nothing that could remember something for this owner."""

    def __init__(self, *, owner: str | None, reason: str) -> None:
        self.owner = owner
        self.reason = reason
        super().__init__(f"nothing remembers for {'nobody' if owner is None else owner!r}: {reason}")


class MailboxFull(ActorError):
    """The actor has as many messages waiting as it takes."""

    def __init__(self, *, stream: str, size: int) -> None:
        self.stream = stream
        self.size = size
        super().__init__(f"{stream}: {size} messages are waiting, the most it takes. Retry later or send less.")


class ActivationFailed(ActorError):
    """The actor could not be rebuilt from its stream; nothing recorded is lost."""

    def __init__(self, *, stream: str, sequence: int, reason: str) -> None:
        self.stream = stream
        self.sequence = sequence
        self.reason = reason
        super().__init__(
            f"{stream}: could not be activated, at sequence {sequence}: {reason}. "
            "Fix the cause (often an event type that is not registered) and send again."
        )


class ActorQuarantined(ActivationFailed):
    """The actor could not be rebuilt several times in a row, and is not tried again; nothing recorded is lost."""

    def __init__(self, *, stream: str, sequence: int, reason: str, failures: int) -> None:
        super().__init__(stream=stream, sequence=sequence, reason=reason)
        self.failures = failures
        text = (
            f"{stream}: in quarantine after {failures} failed activations, the last at sequence {sequence}: {reason}. "
            "Deploy code that can read it, or mend the cause and call `system.quarantine.release(stream)`."
        )
        self.args = (text,)


class SystemClosed(ActorError):
    """The system is closed or closing; what was acknowledged is safe."""

    def __init__(self, *, stream: str) -> None:
        self.stream = stream
        super().__init__(f"{stream}: the actor system is closed. Open it again and send again with the same id.")


class BlockingAsk(ActorError):
    """A thread that drives actors may not block on one: all of them would wait for it."""

    def __init__(self, *, thread: str) -> None:
        self.thread = thread
        super().__init__(
            f"a blocking wait on {thread}, a thread that actors run on, could stop them all. "
            "Use `await` in async code; in decide and evolve, wait for nothing."
        )


class StepFailed(ActorError):
    """A step raised; the same type, message and step whether it happened now or is replayed."""

    def __init__(self, *, step: str, type: str, message: str) -> None:  # noqa: A002  (the field's word)
        self.step = step
        self.type = type
        self.message = message
        super().__init__(f"{step} failed with {type}: {message}")


class SignalTimedOut(ActorError):
    """No signal of the name came in time."""

    def __init__(self, *, thread: str, run: str, signal: str) -> None:
        self.thread = thread
        self.run = run
        self.signal = signal
        super().__init__(f"{thread}, run {run}: no signal {signal!r} came in time. Go on without it, or wait again.")


class PauseSwallowed(ActorError):
    """A step caught the cancel with which its wait is let go of, and went on; nothing of that is recorded."""

    def __init__(self, *, thread: str, run: str, step: str) -> None:
        self.thread = thread
        self.run = run
        self.step = step
        super().__init__(
            f"{thread}, run {run}: {step} caught the cancel with which its wait is let go of, and went on without an "
            "answer. Nothing of that is recorded, and it runs again once the answer is there. "
            "Let it catch `Exception`, not everything."
        )


class InvalidState(ActorError):
    """The value does not fit the model of the thread's synced state; nothing changed."""

    def __init__(self, *, thread: str, path: str, reason: str) -> None:
        self.thread = thread
        self.path = path
        self.reason = reason
        super().__init__(f"{thread}: the state may not be this, at {path}: {reason}. Set a value that fits its model.")


class ForeignToken(ActorError):
    """What was given as a place in a thread is none of it, so nothing was read."""

    def __init__(self, *, thread: str, token: str) -> None:
        self.thread = thread
        self.token = token
        super().__init__(
            f"{thread}: {_shorten(token)!r} is no place in this thread. Resume with the token of one of its own "
            "events, or from the beginning."
        )


class DeltasLost(ActorError):
    """A listener did not read as fast as the model speaks and was let go; nothing recorded is lost."""

    def __init__(self, *, thread: str, held_max: int) -> None:
        self.thread = thread
        self.held_max = held_max
        super().__init__(
            f"{thread}: more than {held_max} deltas waited for this listener. Read what was said from the thread's "
            "events, and listen again."
        )


class ReplayDivergence(ActorError):
    """The loop asked for something else than the journal recorded."""

    def __init__(
        self, *, stream: str, sequence: int, run: str, step: str, field: str, expected: str, actual: str
    ) -> None:
        self.stream = stream
        self.sequence = sequence
        self.run = run
        self.step = step
        self.field = field
        self.expected = expected
        self.actual = actual
        super().__init__(
            f"{stream}, sequence {sequence}, run {run}, step {step}: {field} differs.\n"
            f"- recorded: {_shorten(expected)}\n+ replayed: {_shorten(actual)}\n"
            "The code that decides changed since this was recorded, or is not deterministic. Nothing was lost."
        )


class RunNotFinished(ActorError):
    """The run ended without an answer."""

    def __init__(self, *, thread: str, run: str, reason: str) -> None:
        self.thread = thread
        self.run = run
        self.reason = reason
        super().__init__(f"{thread}: run {run} {self.verb}: {reason}")

    verb = "did not finish"


class RunFailed(RunNotFinished):
    """The run failed; the thread stays usable."""

    verb = "failed"


class RunCancelled(RunNotFinished):
    """The run was cancelled."""

    verb = "was cancelled"


class RunHalted(RunNotFinished):
    """It is left alone until it is resumed: it went another way than recorded, or its process died of it too often."""

    verb = "is halted"


def _shorten(text: str) -> str:
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}... ({len(text)} characters)"
