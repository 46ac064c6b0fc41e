"""The tool: a script in, its result and its log out, within limits."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any, cast

from pydantic_ai import Tool

from ...actors.agent import tool_options
from .process import Ended, run_script

__all__ = ["Limits", "python_tool"]

_MOST = {
    "cpu_ms": 600_000,
    "wall_s": 3600.0,
    "memory_bytes_max": 64 * 1024**3,
    "result_bytes_max": 16 * 1024**2,
    "log_lines_max": 10_000,
    "log_chars_max": 100_000,
}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a script may use: milliseconds of CPU, seconds, bytes of memory, and how much of it is told.

    Of its log the first `log_lines_max` lines are told, each cut at `log_chars_max` characters. A result of more than
    `result_bytes_max` bytes of JSON is an error.

    Raises:
        ValueError: one is out of range; names it.
    """

    cpu_ms: int = 1000
    wall_s: float = 30.0
    memory_bytes_max: int = 256 * 1024 * 1024
    result_bytes_max: int = 256 * 1024
    log_lines_max: int = 100
    log_chars_max: int = 2000

    def __post_init__(self) -> None:
        """Check them where they are declared."""
        for option in fields(self):
            value, most = getattr(self, option.name), _MOST[option.name]
            if not 0 < value <= most:
                raise ValueError(f"{option.name} is more than 0 and at most {most}, not {value}")


def python_tool(
    *,
    name: str = "run_python",
    limits: Limits | None = None,
    needs_approval: bool | Callable[[dict[str, Any]], bool] = True,
) -> Tool[Any]:
    """Return a tool that runs Python which the model wrote, in a process of its own with limits.

    **It is no sandbox.** The process has an empty environment, a folder of its own and hard limits on CPU, memory, time
    and open files, and cannot write into files. But it runs as the same user: it can read whatever that user can, use
    the network, and end other processes. So people approve each script by default (`needs_approval`); let others
    run unseen only where the whole program is in a container that you would hand to a stranger.

    The script finds its input in `data`, and sets `result` to JSON values; what it prints is the log. No tool can be
    called from it. The step is tried once; after a crash in the middle the script runs again.

    Raises:
        ValueError, TypeError: an option is out of range.
        RuntimeError: this is no POSIX system, so that nothing could be limited.
    """
    if os.name != "posix":
        raise RuntimeError("python_tool limits a process by what POSIX systems have, and this is none")
    within = Limits() if limits is None else limits

    async def run_python(code: str, data: Any = None) -> dict[str, Any]:  # noqa: ANN401  (any JSON)
        asked = json.dumps({"code": code, "data": data, "limits": asdict(within)}).encode()
        # A line of the log may take six bytes a character in JSON.
        logged = within.log_lines_max * (6 * within.log_chars_max + 64)
        ended = await run_script(asked, wall_s=within.wall_s, bytes_max=2 * within.result_bytes_max + logged)
        return _answer(ended, within)

    return Tool(
        run_python,
        name=name,
        description=(
            "Run a Python script, which can call no tools and write no files. It finds the input in `data` and sets "
            f"`result` to JSON values; what it prints is returned as logs. It may use {within.cpu_ms} ms of CPU."
        ),
        metadata=tool_options(attempts=1, needs_approval=needs_approval),
    )


def _answer(ended: Ended, limits: Limits) -> dict[str, Any]:
    """Return what the model is told of a script."""
    logs: list[str] = []
    said: dict[str, Any] = {}
    for line in ended.told.split(b"\n")[:-1]:
        match cast("Any", _fact(line)):
            case ["log", str(text)] if len(logs) < limits.log_lines_max:
                logs.append(text[: limits.log_chars_max])
            case ["more", None]:
                said["logs_cut"] = True
            case ["failed", str(text)]:
                said["error"] = text
            case ["result", result]:
                size = len(line) - len(b'["result", ]')
                if size > limits.result_bytes_max:
                    said["error"] = (
                        f"`result` is {size} bytes of JSON, and at most {limits.result_bytes_max} are allowed"
                    )
                else:
                    said["result"] = result
            case _:
                # Not told by our part of the process; a script that gets at its pipe speaks for itself alone.
                pass
    if "result" not in said and "error" not in said:
        said["error"] = _why(ended, limits)
    return {"status": "failed" if "error" in said else "done", **said, "logs": logs}


def _fact(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _why(ended: Ended, limits: Limits) -> str:
    """Return why a script came to no end of its own."""
    if ended.cut is not None:
        return f"the script was ended: {ended.cut}"
    if -ended.code in (signal.SIGPROF, signal.SIGXCPU):
        return f"the script was ended: it used more than {limits.cpu_ms} ms of CPU"
    if ended.code < 0:
        return f"the script was ended by signal {-ended.code}, as when it uses too much"
    return f"the script ended its process by itself (exit code {ended.code})"
