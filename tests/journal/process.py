"""Other processes for tests: real ones, which can be killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_name("child.py")


class Refused(Exception):
    """What was raised in the other process; `facts` are the error's name, text and attributes."""

    def __init__(self, facts: dict[str, Any]) -> None:
        super().__init__(facts["text"])
        self.facts = facts


class Process:
    """A process with a journal in it; see `child.py` for what it can be told."""

    def __init__(self, *prefix: str) -> None:
        command = [*prefix, sys.executable, str(SCRIPT)]
        self.popen = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def call(self, command: str, *arguments: object) -> Any:
        """Let it do something, and return its answer; what it raises is raised here as `Refused`."""
        self.send(command, *arguments)
        return self.answer()

    def send(self, command: str, *arguments: object) -> None:
        """Let it do something, without waiting."""
        assert self.popen.stdin
        self.popen.stdin.write(json.dumps([command, arguments]) + "\n")
        self.popen.stdin.flush()

    def answer(self) -> Any:
        """Wait for its next answer."""
        assert self.popen.stdout
        line = self.popen.stdout.readline()
        assert line, f"the process ended with {self.popen.wait()} instead of answering"
        kind, answer = json.loads(line)
        if kind == "raised":
            raise Refused(answer)
        return answer

    def kill(self) -> None:
        """Kill it as a power cut would, without a chance to say anything."""
        self.popen.kill()
        self.popen.wait()


@contextmanager
def process(*prefix: str) -> Generator[Process]:
    """Start a process (behind the command `prefix`), and see to it that it is gone afterwards."""
    started = Process(*prefix)
    try:
        yield started
    finally:
        started.kill()
        for pipe in (started.popen.stdin, started.popen.stdout):
            if pipe:
                pipe.close()
