"""How a command ends: its exit code, and at most one line on stderr."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from enum import IntEnum
from typing import Protocol, runtime_checkable

from ...actors import ReplayDivergence, RunHalted, RunNotFinished
from ...journal import (
    AppendUnknown,
    ClewError,
    CorruptRecord,
    ForeignJournal,
    JournalClosed,
    JournalError,
    JournalForked,
    JournalFull,
    JournalLocked,
    OutdatedJournal,
    ReadOnlyJournal,
)
from .render import one_line

__all__ = ["EPILOG", "ExitCode", "Refused", "drop_unread", "fail"]

EPILOG = """\b
Exit codes:
  0    ok
  1    no answer: the run failed, was cancelled, or ran out of turns or time
  2    wrong usage or input
  3    replay or recovery met something else than was recorded
  4    the journal is damaged
  5    the journal is in use by another process, or cannot be opened
  6    the run waits: for a decision, a signal, another conversation, or to be resumed
  130  interrupted
  141  whoever read the output stopped reading

CLEW_DEBUG=1 shows where an error comes from."""


class ExitCode(IntEnum):
    """What a script can tell apart."""

    OK = 0
    NO_ANSWER = 1
    USAGE = 2
    DIVERGED = 3
    DAMAGED = 4
    NOT_OPENED = 5
    WAITS = 6
    INTERRUPTED = 130
    UNREAD = 141


class Refused(Exception):
    """The command cannot do what was asked; the text is what the user reads."""

    def __init__(self, text: str, *, code: ExitCode = ExitCode.USAGE) -> None:
        self.code = code
        super().__init__(text)


@runtime_checkable
class _UsageError(Protocol):
    """What typer raises for wrong usage; where its class lives differs between its versions."""

    exit_code: int

    def format_message(self) -> str: ...


def fail(error: Exception) -> ExitCode:
    """Say on stderr, in one line, what went wrong; return the exit code that says it too."""
    if isinstance(error, BrokenPipeError):
        # `head` has seen enough: there is nothing wrong, and nobody to be told.
        return ExitCode.UNREAD
    if os.environ.get("CLEW_DEBUG"):
        traceback.print_exception(error)
    if isinstance(error, _UsageError):
        text = f"{error.format_message()} ({_help_hint(error)})"
    elif isinstance(error, Refused | ClewError | OSError):
        text = str(error)
    else:
        text = f"{type(error).__name__}: {error} (this should not happen; CLEW_DEBUG=1 shows where)"
    with suppress(BrokenPipeError):
        sys.stderr.write(f"clew: error: {one_line(text)}\n")
    return _code_of(error)


def drop_unread() -> None:
    """Let go of output that cannot be written, so that the end of the process does not try again."""
    # The real ones: what typer puts in their place keeps a broken pipe to itself.
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is None:
            continue
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def _code_of(error: Exception) -> ExitCode:
    if isinstance(error, _UsageError):
        return ExitCode.USAGE
    match error:
        case Refused():
            return error.code
        case ReplayDivergence() | RunHalted():
            return ExitCode.DIVERGED
        case RunNotFinished():
            return ExitCode.NO_ANSWER
        case CorruptRecord():
            return ExitCode.DAMAGED
        case JournalLocked() | ForeignJournal() | OutdatedJournal() | JournalForked() | ReadOnlyJournal():
            return ExitCode.NOT_OPENED
        case JournalClosed() | JournalFull() | AppendUnknown():
            return ExitCode.NOT_OPENED
        case JournalError() if type(error) is JournalError:
            # The system or the library refused, and it is nothing that was asked for in a wrong way.
            return ExitCode.NOT_OPENED
        case ClewError() | OSError():
            return ExitCode.USAGE
        case _:
            return ExitCode.NO_ANSWER


def _help_hint(error: _UsageError) -> str:
    command = getattr(getattr(error, "ctx", None), "command_path", "clew")
    return f"see {command} --help"
