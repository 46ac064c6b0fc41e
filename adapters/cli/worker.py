"""A process of the demo that answers mails: `python -m clew.adapters.cli.worker DIR --mails N [--kill] [--model NAME]`.

With `--kill` it takes one mail after the other and kills itself in the middle of a tool call. Without, it asks for all
mails: those that were asked for before are not started again. It writes how many threads it woke on opening, then a
line for each mail that is done.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import Final

from ...actors import ActorSystem, RunNotFinished
from ...actors.agent import Run
from ...examples.support_desk import SLOW_TOOL, Answer, Mail, prompt_of
from .desk import Begin, Desk, open_desk, read_mails

__all__ = ["main"]

_AT_ONCE: Final = 8


def main() -> None:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(prog="worker")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mails", type=int, required=True)
    parser.add_argument("--model")
    parser.add_argument("--kill", action="store_true")
    arguments = parser.parse_args()
    mails = read_mails(arguments.mails)
    end = _End(len(mails)) if arguments.kill else None
    desk = open_desk(arguments.folder, model=arguments.model, begin=_noting(arguments.folder / "started.txt", end))
    with ActorSystem(arguments.folder / "journal", agents=[desk]) as system:
        # Nobody has asked for anything yet: who is awake has open work.
        _tell(f"recovered {system.live}")
        at_once = 1 if end else _AT_ONCE
        for start in range(0, len(mails), at_once):
            if end:
                end.mail = start
            _answer(system, desk, mails[start : start + at_once])


class _End:
    """Decides where the process ends: inside the slow tool, in the second half of the box.

    In its last mail, a tool that changes something does too; a short box may have no other.
    """

    def __init__(self, mails: int) -> None:
        self.mail = 0
        self._mails = mails

    def is_here(self, call: str) -> bool:
        tool = call.rpartition("/")[2].split(":")
        if tool[0] != "tool":
            return False
        if self.mail == self._mails - 1:
            return tool[1] in {SLOW_TOOL, "refund", "file_answer"}
        return tool[1] == SLOW_TOOL and self.mail >= self._mails // 2


def _noting(path: Path, end: _End | None) -> Begin:
    # One write for each line, so that what was written stays when the process is killed.
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def begin(call: str) -> None:
        os.write(file, f"{call}\n".encode())
        if end is not None and end.is_here(call):
            os.kill(os.getpid(), signal.SIGKILL)

    return begin


def _answer(system: ActorSystem, desk: Desk, mails: list[Mail]) -> None:
    """Ask for the mails and wait for them; the mail's id makes asking again safe."""
    runs: list[Run[Answer]] = [
        system.thread(desk, mail.id, title=mail.subject).run(prompt_of(mail), run_id=mail.id) for mail in mails
    ]
    for run in runs:
        try:
            _tell(f"{run.id} {run.result().output.action}")
        except RunNotFinished as error:
            _tell(f"{run.id} {error.verb}")
            sys.stderr.write(f"{error}\n")


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
