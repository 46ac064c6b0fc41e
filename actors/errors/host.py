"""What the system that hosts actors cannot do."""

from __future__ import annotations

from .base import ActorError

__all__ = [
    "ActivationFailed",
    "ActorQuarantined",
    "BlockingAsk",
    "MailboxFull",
    "NoMemory",
    "SystemClosed",
    "UnknownKind",
]


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
