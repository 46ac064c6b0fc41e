"""What a run shows while it goes on: lines for people on stderr, or JSON for programs on stdout."""

from __future__ import annotations

import sys
from typing import Final, Protocol

import msgspec

from ...journal import RecordedEvent
from ...journal.facts import StepCompleted, StepFailed
from ...projections import Usage
from .facts import line_of, value_text, words_of
from .render import console, safe, shorten, write_json

__all__ = ["Ending", "JsonProgress", "Progress", "TextProgress"]

_LINE_WIDTH: Final = 120
_NAME_WIDTH: Final = 30


class Ending(msgspec.Struct, frozen=True):
    """How a run ended, or why it was left: `status` is also `interrupted` or `late`, after which it can go on."""

    thread: str
    run: str
    status: str
    steps: int
    usage: Usage
    stopped: str | None = None
    output: msgspec.Raw | None = None
    error: str | None = None


class Progress(Protocol):
    """Whoever watches a run."""

    def note(self, text: str) -> None:
        """Something about the run that is no event of it."""
        ...

    def event(self, recorded: RecordedEvent, fact: msgspec.Struct, elapsed_ns: int) -> None:
        """An event became durable, so long after the one before."""
        ...

    def end(self, ending: Ending) -> None:
        """The run is over, or left alone."""
        ...


class TextProgress:
    """For people: a line for each step on stderr, the answer on stdout."""

    def __init__(self) -> None:
        self._err = console(stderr=True)
        self._width = self._err.width if self._err.is_terminal else _LINE_WIDTH

    def note(self, text: str) -> None:
        """Write it to stderr."""
        self._err.print(safe(text), style="bold", soft_wrap=True)

    def event(self, recorded: RecordedEvent, fact: msgspec.Struct, elapsed_ns: int) -> None:
        """Write a line about a step; what else happens shows in its consequences."""
        if not isinstance(fact, StepCompleted | StepFailed):
            return
        name = safe(fact.step)
        start = f"{elapsed_ns // 1_000_000:>7} ms  {name:<{_NAME_WIDTH}}  "
        words = shorten(words_of(fact), max(20, self._width - len(start) - 1))
        style = "red" if isinstance(fact, StepFailed) else None
        self._err.print(start + words, style=style, soft_wrap=True)

    def end(self, ending: Ending) -> None:
        """Write the answer to stdout, if there is one."""
        if ending.output is None:
            return
        value: object = msgspec.json.decode(ending.output)
        if self._err.is_terminal:
            self._err.print()
        text = value if isinstance(value, str) else msgspec.json.format(value_text(value), indent=2)
        # What goes to a file or a program is the answer itself; only a terminal must not be steered by it.
        sys.stdout.write((safe(text, lines=True) if sys.stdout.isatty() else text) + "\n")
        sys.stdout.flush()


class JsonProgress:
    """For programs: one JSON object a line on stdout, each event and at last the ending."""

    def note(self, text: str) -> None:
        """Say nothing: it can be told from the events."""

    def event(self, recorded: RecordedEvent, fact: msgspec.Struct, elapsed_ns: int) -> None:
        """Write the event."""
        write_json(line_of(recorded))

    def end(self, ending: Ending) -> None:
        """Write the ending."""
        write_json(ending)
