"""Has damaged journals examined in a process of its own, which may crash or hang on them."""

from __future__ import annotations

import select
import subprocess
import sys
from pathlib import Path
from typing import Final, Self

import msgspec

from .torture_truth import Examined

__all__ = ["Examiner"]

_PATIENCE_S: Final = 30.0


class Examiner:
    """Examines damaged copies of the journal at `sound`, one after the other; begins anew after a crash."""

    def __init__(self, sound: Path) -> None:
        self._sound = sound
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """End the process at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._end()

    def examine(self, path: Path) -> Examined:
        """Return what becomes of the journal at `path`: a crash and a hang of the process are among it."""
        process = self._process or self._begin()
        if process.stdin is None:
            raise AssertionError("the process was started with pipes")
        process.stdin.write(f"{path}\n".encode())
        process.stdin.flush()
        line = self._line(process)
        if line:
            return msgspec.json.decode(line, type=Examined)
        code = self._end()
        return Examined(escaped="it hangs" if line is None else f"the interpreter ended with {code}")

    def _begin(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "clew.adapters.cli.torture_examine", str(self._sound)]
        pipe = subprocess.PIPE
        process = self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe)  # noqa: S603  (ours)
        if self._line(process) != b"ready\n":
            raise AssertionError(f"{self._sound}: the sound journal cannot be read")
        return process

    def _line(self, process: subprocess.Popen[bytes]) -> bytes | None:
        """Return the next line; nothing when the process has ended, None when it does not answer."""
        if process.stdout is None:
            raise AssertionError("the process was started with pipes")
        ready, _, _ = select.select([process.stdout], [], [], _PATIENCE_S)
        return process.stdout.readline() if ready else None

    def _end(self) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        try:
            # Who has crashed is not killed, so that it says how it ended.
            code = process.wait(0.2)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        return code
