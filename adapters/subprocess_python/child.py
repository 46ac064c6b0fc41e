"""What runs in the other process: it limits itself, runs the script, and tells what comes of it, a line for each fact.

This file is read as text and given to `python -I -c`; it imports nothing of ours. A fact is `[kind, value]` as JSON:
`log`, `more` (further lines are not told), and at last `result` or `failed`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import signal
import sys
import traceback
from typing import Any

ERROR_LENGTH_MAX = 2000
FRAMES_MAX = 5


class Lines(io.TextIOBase):
    """What the script prints, told line by line."""

    def __init__(self, pipe: int, lines_max: int, chars_max: int) -> None:
        """Tell at most `lines_max` lines, each cut at `chars_max`."""
        self._pipe = pipe
        self._left = lines_max
        self._chars_max = chars_max
        self._open = ""

    def writable(self) -> bool:
        """Return that it may be written to."""
        return True

    def write(self, text: str, /) -> int:
        """Tell the lines that are whole; of one that goes on, no more is kept than will be told."""
        *whole, rest = (self._open + text).split("\n")
        self._open = rest[: self._chars_max]
        for line in whole:
            self._tell(line)
        return len(text)

    def finish(self) -> None:
        """Tell the last line, if it was not ended."""
        if self._open:
            self._tell(self._open)

    def _tell(self, line: str) -> None:
        self._left -= 1
        if self._left >= 0:
            tell(self._pipe, "log", line[: self._chars_max].encode("utf-8", "replace").decode())
        elif self._left == -1:
            tell(self._pipe, "more", None)


def tell(pipe: int, kind: str, value: object) -> None:
    """Write one fact to the process that waits for it."""
    data = json.dumps([kind, value], allow_nan=False, ensure_ascii=False).encode() + b"\n"
    while data:
        data = data[os.write(pipe, data) :]


def limit(limits: dict[str, Any]) -> None:
    """Limit this process for good: a hard limit cannot be raised again."""
    cpu_s = limits["cpu_ms"] / 1000
    for what, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_AS, limits["memory_bytes_max"]),
        # It counts whole seconds, and is for a script that takes the timer off.
        (resource.RLIMIT_CPU, int(cpu_s) + 2),
    ):
        hard = resource.getrlimit(what)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (least, least))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, cpu_s)


def run(pipe: int, asked: dict[str, Any]) -> None:
    """Run the script within its limits, and tell what it printed and what its `result` is."""
    limits = asked["limits"]
    lines = Lines(pipe, limits["log_lines_max"], limits["log_chars_max"])
    scope: dict[str, Any] = {"__name__": "__main__", "data": asked["data"], "result": None}
    failed: str | None = None
    with contextlib.redirect_stdout(lines), contextlib.redirect_stderr(lines):
        try:
            limit(limits)
            exec(compile(asked["code"], "<script>", "exec"), scope)  # noqa: S102  (it is what this process is for)
        except BaseException as error:  # noqa: BLE001  (whatever it is, it is how the script ended)
            failed = described(error)
    lines.finish()
    try:
        if failed is None:
            tell(pipe, "result", scope["result"])
    except (TypeError, ValueError, RecursionError, MemoryError) as error:
        failed = f"`result` has no JSON form: {error}"
    if failed is not None:
        tell(pipe, "failed", failed.encode("utf-8", "replace").decode())


def described(error: BaseException) -> str:
    """Return an error with the lines of the script that it went through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<script>"]
    where = [f"line {frame.lineno} in {frame.name}" for frame in frames[-FRAMES_MAX:]]
    return f"{type(error).__name__}: {error}"[:ERROR_LENGTH_MAX] + (f" ({', '.join(where)})" if where else "")


if __name__ == "__main__":
    wanted = json.load(sys.stdin)
    # What the script writes past `print` goes nowhere, and there is nothing to read.
    told, nowhere = os.dup(1), os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nowhere, standard)
    run(told, wanted)
