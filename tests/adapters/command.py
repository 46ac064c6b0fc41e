"""The `clew` command as a user starts it: a process of its own, in a project's directory."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

# An agent as a user's module declares it. It says which tools it calls in the prompt, one a turn: "a b" calls `a`,
# then `b`. Each call leaves a line in started.txt; the tool `gate` waits until there is a file `open`.
DESK = """
import asyncio
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import FunctionModel

from clew.actors.agent import AgentDefinition, tool_step


def think(messages, info):
    parts = [part for message in messages for part in message.parts]
    start = max(n for n, part in enumerate(parts) if isinstance(part, UserPromptPart))
    asked, done = parts[start].content.split(), sum(isinstance(part, ToolReturnPart) for part in parts[start:])
    if "fail" in asked:
        raise ValueError("the model is out\\nfor lunch")
    if done < len(asked) and asked[done] in ("look", "gate"):
        call_id = f"call_{start}_{done}"
        return ModelResponse(parts=[ToolCallPart(asked[done], {"text": "caf\\u00e9"}, tool_call_id=call_id)])
    return ModelResponse(parts=[TextPart(f"{done} calls made\\nfor {parts[start].content}")])


agent = Agent(FunctionModel(think, model_name="rules"), name="desk", instructions="Do as you are told.")


@agent.tool_plain
async def look(text: str) -> dict[str, str]:
    begin()
    return {"seen": text}


@agent.tool_plain
async def gate(text: str) -> str:
    begin()
    while not Path("open").exists():
        await asyncio.sleep(0.01)
    return text


def begin():
    with Path("started.txt").open("a") as file:
        file.write(f"{tool_step().name}\\n")


def make():
    return AgentDefinition(agent=agent)


def broken():
    raise RuntimeError("no\\nluck")


def picky(name):
    return agent


async def later():
    return agent


number = 3
"""


class Finished:
    """What a command wrote, and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    def __repr__(self) -> str:
        return f"<{self.code}\n{self.out}\n{self.err}>"

    @property
    def json(self) -> Any:
        """The one JSON value that it wrote."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The JSON values that it wrote, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> str:
        """The one line that says what went wrong."""
        [line] = [line for line in self.err.splitlines() if line.startswith("clew: error: ")]
        assert "Traceback" not in self.err
        return line.removeprefix("clew: error: ")


class Clew:
    """Starts the command in one directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *args: str, stdin: str | bytes = "", env: Mapping[str, str] | None = None) -> Finished:
        """Run it to its end."""
        given = stdin.encode() if isinstance(stdin, str) else stdin
        with self.started(*args, env=env) as process:
            out, err = process.communicate(given)
        return Finished(process.returncode, out.decode(), err.decode())

    def on_terminal(self, *args: str) -> Finished:
        """Run it with its errors and progress on a terminal."""
        ours, theirs = pty.openpty()
        with os.fdopen(ours, "rb", buffering=0) as terminal, self.started(*args, stderr=theirs) as process:
            os.close(theirs)
            shown = _drain(terminal)
            assert process.stdout is not None
            out = process.stdout.read()
            process.wait()
        return Finished(process.returncode, out.decode(), shown.decode())

    @contextmanager
    def started(
        self, *args: str, env: Mapping[str, str] | None = None, stderr: int = subprocess.PIPE
    ) -> Generator[subprocess.Popen[bytes]]:
        """Start it; it does not outlive the block."""
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", "clew.adapters.cli", *args]
        whole = {**os.environ, "PYTHONUTF8": "1", **(env or {})}
        with subprocess.Popen(
            command,
            cwd=self.folder,
            stdin=pipe,
            stdout=pipe,
            stderr=stderr,
            env=whole,
            preexec_fn=_hear_ctrl_c,  # noqa: PLW1509  (it takes no lock that a thread could hold)
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def calls(self) -> list[str]:
        """The tool calls that began, by the names of their steps."""
        path = self.folder / "started.txt"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def open_gate(self) -> None:
        """Let the tool `gate` go on."""
        (self.folder / "open").touch()


def _drain(terminal: IO[bytes]) -> bytes:
    """Read what is shown until the last process has closed it, which Linux tells as an error."""
    shown = b""
    while True:
        try:
            some = terminal.read(65536)
        except OSError:
            return shown
        if not some:
            return shown
        shown += some


def read_until(stream: IO[bytes] | None, is_there: Callable[[str], bool]) -> list[str]:
    """Read lines until one is as wanted; fails when the stream ends first."""
    assert stream is not None
    lines: list[str] = []
    for line in stream:
        lines.append(line.decode())
        if is_there(lines[-1]):
            return lines
    raise AssertionError("".join(lines))


def _hear_ctrl_c() -> None:
    """Let Ctrl-C end what is started, also where the tests are told to ignore it, as a job in the background is."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
