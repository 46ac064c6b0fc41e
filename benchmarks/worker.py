"""A contender in a process of its own, which measures whenever it is told to.

So one contender's memory, threads and garbage are never another's, and their rounds can take turns.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Generic, Self, TypeVar

import msgspec

from .report import ROOT

__all__ = ["Worker", "serve"]

S = TypeVar("S", bound=msgspec.Struct)


class Worker(Generic[S]):
    """A process that runs `python -m MODULE --worker ARGUMENTS`, which must end up in `serve`."""

    def __init__(self, module: str, *arguments: str, sample: type[S]) -> None:
        self._name = " ".join((module, *arguments))
        self._sample = sample
        command = [sys.executable, "-m", module, "--worker", *arguments]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Self:
        """End the process at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Tell it that there is nothing more to measure, and wait for its end."""
        self._process.communicate()

    def measure(self) -> S:
        """Let it measure once, and wait for what it found.

        Raises:
            RuntimeError: the process ended instead; its standard error says why.
        """
        told, answers = self._process.stdin, self._process.stdout
        assert told is not None
        assert answers is not None
        with suppress(BrokenPipeError):
            told.write(b"measure\n")
            told.flush()
        line = answers.readline()
        if not line:
            raise RuntimeError(f"{self._name} ended without a measurement; see its traceback above.")
        return msgspec.json.decode(line, type=self._sample)


def serve(measure: Callable[[], msgspec.Struct]) -> None:
    """Measure each time a line arrives on standard input, and print what was found."""
    for _ in sys.stdin:
        print(msgspec.json.encode(measure()).decode(), flush=True)
