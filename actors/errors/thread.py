"""What can go wrong in conversations and in replaying them."""

from __future__ import annotations

from .base import ActorError, shorten

__all__ = [
    "DeltasLost",
    "ForeignToken",
    "InvalidInput",
    "InvalidState",
    "PauseSwallowed",
    "ReplayDivergence",
    "RunCancelled",
    "RunFailed",
    "RunHalted",
    "RunNotFinished",
    "SignalTimedOut",
    "StepFailed",
    "UnknownArtifact",
    "UnknownFunction",
    "UnknownThread",
]


class UnknownThread(ActorError):
    """There is no such thread for this caller; someone else's thread looks exactly the same."""

    def __init__(self, *, thread: str) -> None:
        self.thread = thread
        super().__init__(f"{thread}: no such thread. Start one with `run`, and act as its owner.")


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
            f"function {function} does not take these arguments, at {path}: {shorten(reason)}. Correct them."
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
            f"{thread}: {shorten(token)!r} is no place in this thread. Resume with the token of one of its own "
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
            f"- recorded: {shorten(expected)}\n+ replayed: {shorten(actual)}\n"
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
