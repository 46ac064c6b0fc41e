"""What the journal holds of the steps of a run that is driven, and whether what is asked now is what was asked then."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ...journal.facts import StepCompleted, StepFailed, ThreadEvent
from ..errors import ReplayDivergence
from .meaning import same_meaning
from .recorded import NOT_RECORDED, Asked, StepEvents
from .recording import Recording

__all__ = ["Record"]


class Record:
    """The recorded steps of one run by name, those asked for so far, and the facts that were decided again."""

    def __init__(self, stream: str, run: str, steps: Mapping[str, StepEvents], recording: Recording) -> None:
        self.replayed: list[str] = []
        self.rebuilt: dict[int, ThreadEvent] = {}
        self._stream = stream
        self._run = run
        self._steps = dict(steps)
        self._recording = recording

    def find(self, name: str) -> StepEvents:
        """Return what is recorded of a step."""
        return self._steps.get(name, NOT_RECORDED)

    def is_settled(self, name: str) -> bool:
        """Whether the journal has the outcome of a step."""
        return self.find(name).settled is not None

    def note_within(self, name: str, known: StepEvents) -> None:
        """Note what is recorded of a step within another one: when that is tried again, it comes to it again."""
        if "/" in name:
            self._steps[name] = known

    def failure_ahead(self) -> bool:
        """Whether the journal holds the failure of a tool that was not asked for yet."""
        return any(
            isinstance(events.settled, StepFailed) and name.startswith("tool:") and name not in self.replayed
            for name, events in self._steps.items()
        )

    def check_complete(self, *, failed: bool) -> None:
        """Refuse an end at which recorded steps were not asked for.

        When a tool failed, the loop may not have come to those beside it, so only turns count.

        Raises:
            ReplayDivergence: names the first of them.
        """
        for name, events in self._steps.items():
            counts = events.settled is not None and "/" not in name and (name.startswith("llm:") or not failed)
            if counts and name not in self.replayed:
                raise self._diverged(name, events.sequence, "step", expected=name, actual="(not asked for)")

    def replay(self, asked: Asked, event: StepCompleted | StepFailed, sequence: int) -> None:
        """Note that a recorded step is asked for, if what is asked is what was asked then.

        Raises:
            ReplayDivergence: it is not; names the field.
        """
        name, request = asked.name, asked.request
        # A later version may take other digests; those that both have must be equal.
        for field in sorted(event.request.keys() & request.keys()):
            then, now = event.request[field], request[field]
            if then != now:
                raise self._diverged(name, sequence, f"request.{field}", expected=then, actual=now)
        if not same_meaning(event.tail, asked.tail):
            then, now = _text(event.tail), _text(asked.tail)
            raise self._diverged(name, sequence, "messages since the last response", expected=then, actual=now)
        self.replayed.append(name)
        self.rebuilt[sequence] = msgspec.structs.replace(event, run=self._run, step=name)

    def loaded(self, name: str, result: msgspec.Raw, then: msgspec.Raw) -> None:
        """Compare what a replayed result becomes when it is encoded again with what it was `then`.

        Raises:
            ReplayDivergence: the types it passes through no longer keep it.
        """
        found = self.find(name)
        if isinstance(found.settled, StepCompleted) and not same_meaning(then, result):
            expected, actual = _text(then), _text(result)
            raise self._diverged(name, found.sequence, "result", expected=expected, actual=actual)

    def _diverged(self, name: str, sequence: int, field: str, *, expected: str, actual: str) -> ReplayDivergence:
        divergence = ReplayDivergence(
            stream=self._stream,
            sequence=sequence,
            run=self._run,
            step=name,
            field=field,
            expected=expected,
            actual=actual,
        )
        self._recording.stopped_by = divergence
        return divergence


def _text(raw: msgspec.Raw) -> str:
    return bytes(raw).decode()
