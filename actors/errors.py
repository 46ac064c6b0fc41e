"""Everything an actor can refuse, and what to do about each.

```
ActorError
├─ CommandRejected         decide said no: nothing was written
│  ├─ RunConflict          the thread is busy with another run
│  ├─ UnknownRun           no such run in this thread
│  └─ RunEnded             the run is over: late results of it are refused
├─ UnknownThread           no such thread, or not yours: the two look the same
├─ UnknownKind             no actor or agent is registered under this name
├─ MailboxFull             the actor is behind: retry later or shed load
├─ ActivationFailed        the actor could not be rebuilt from its stream
│  └─ ActorQuarantined     that happened several times in a row: it is not tried again
├─ SystemClosed            the system is shutting down
├─ BlockingAsk             a blocking wait where it could stop the whole system
├─ StepFailed              a step raised, as recorded
├─ ReplayDivergence        replay asked for something the journal does not have
└─ RunNotFinished          the answer of a run that ended without one
   ├─ RunFailed
   ├─ RunCancelled
   └─ RunHalted
```
"""

from __future__ import annotations

from ..journal import ClewError

__all__ = [
    "ActivationFailed",
    "ActorError",
    "ActorQuarantined",
    "BlockingAsk",
    "CommandRejected",
    "MailboxFull",
    "ReplayDivergence",
    "RunCancelled",
    "RunConflict",
    "RunEnded",
    "RunFailed",
    "RunHalted",
    "RunNotFinished",
    "StepFailed",
    "SystemClosed",
    "UnknownKind",
    "UnknownRun",
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

    def __init__(self, *, thread: str, run: str, status: str) -> None:
        self.thread = thread
        self.run = run
        self.status = status
        super().__init__(
            f"{thread}: run {run} is {status}, and one run owns a thread at a time. "
            "Wait for it, cancel it, or use another thread."
        )


class UnknownRun(CommandRejected):
    """No run of this name in the thread."""

    def __init__(self, *, thread: str, run: str) -> None:
        self.thread = thread
        self.run = run
        super().__init__(f"{thread}: there is no run {run!r}. List them with `thread.view().runs`.")


class RunEnded(CommandRejected):
    """The run is over, so what arrives late for it is refused."""

    def __init__(self, *, thread: str, run: str, status: str, what: str) -> None:
        self.thread = thread
        self.run = run
        self.status = status
        self.what = what
        super().__init__(f"{thread}: run {run} is {status}; {what} came too late and was not recorded.")


class UnknownThread(ActorError):
    """There is no such thread for this caller; someone else's thread looks exactly the same."""

    def __init__(self, *, thread: str) -> None:
        self.thread = thread
        super().__init__(f"{thread}: no such thread. Start one with `run`, and act as its owner.")


class UnknownKind(ActorError):
    """Nothing is registered under this name."""

    def __init__(self, *, name: str, known: tuple[str, ...]) -> None:
        self.name = name
        self.known = known
        listed = ", ".join(known) or "none"
        super().__init__(f"{name!r} is not registered (registered: {listed}). Give it to ActorSystem when opening.")


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
    """Recovery met a divergence and stopped rather than guess; resume it with the code that recorded it."""

    verb = "is halted"


def _shorten(text: str) -> str:
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}... ({len(text)} characters)"
