"""`clew run`: ask an agent, see each step as it becomes durable, and go on where a run was left."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from ...actors import ActorSystem
from ...projections import RunView, thread_list
from .exits import ExitCode, Refused, fail
from .opening import DEFAULT_JOURNAL, AsJson, JournalPath, open_journal, thread_stream
from .progress import Ending, JsonProgress, Progress, TextProgress
from .render import counted, one_line
from .standing import how_to_decide
from .watching import WAITS, Watch

if TYPE_CHECKING:
    from ...actors.agent import AgentDefinition, Thread

__all__ = ["run"]

CLOSE_TIMEOUT_S = 5.0

_CODES = {
    "done": ExitCode.OK,
    "halted": ExitCode.DIVERGED,
    "interrupted": ExitCode.INTERRUPTED,
    **dict.fromkeys(WAITS, ExitCode.WAITS),
}


def run(
    agent: Annotated[str, typer.Argument(metavar="MODULE:AGENT", help="The agent, or a function that returns it.")],
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT|-", help="What to ask; - reads it from standard input.")
    ] = None,
    *,
    thread: Annotated[str, typer.Option("--thread", metavar="KEY", help="The conversation.")],
    owner: Annotated[str | None, typer.Option(metavar="OWNER", help="Who is acting; fixed by the first run.")] = None,
    title: Annotated[str | None, typer.Option(metavar="TITLE", help="The title of a new conversation.")] = None,
    run_id: Annotated[
        str | None, typer.Option("--run-id", metavar="ID", help="Makes asking twice safe: one run for each id.")
    ] = None,
    max_wait_s: Annotated[
        float | None, typer.Option("--max-wait", metavar="SECONDS", min=0, help="Leave the run after this time.")
    ] = None,
    journal: JournalPath = DEFAULT_JOURNAL,
    as_json: AsJson = False,
) -> int:
    """Ask an agent, or resume a run that was left.

    Steps go to stderr, the answer to stdout. Ctrl-C, a crash or --max-wait leave a run that can go on: the same
    command without TEXT resumes it after its recorded steps. With a TEXT, an open run is finished first.
    """
    from .load import load_agent  # noqa: PLC0415  (pydantic-ai takes a second to import)

    prompt = _prompt(text)
    definition = load_agent(agent)
    deadline = None if max_wait_s is None else time.monotonic() + max_wait_s
    with open_journal(journal, readonly=False) as opened, _Interrupts() as interrupts:
        stream = thread_stream(opened, thread)
        system = ActorSystem(opened, agents=[definition], projections=[thread_list], recover=False)
        code = ExitCode.NO_ANSWER
        try:
            watch = Watch(system, stream, deadline=deadline, interrupted=interrupts.seen)
            code = _Work(
                thread=system.thread(definition, stream.partition("/")[2], owner=owner, title=title),
                definition=definition,
                watch=watch,
                progress=JsonProgress() if as_json else TextProgress(),
                hint=_hint(agent, thread, owner, journal),
                journal=journal,
            ).do(prompt, run_id)
        except Exception as error:  # noqa: BLE001  (said in one line; the code goes on to the exit)
            code = fail(error)
        finally:
            _close(system, code)
        return code


class _Work:
    """What one command does to a thread."""

    def __init__(
        self,
        *,
        thread: Thread[Any],
        definition: AgentDefinition[Any, Any],
        watch: Watch,
        progress: Progress,
        hint: str,
        journal: str,
    ) -> None:
        self._thread = thread
        self._definition = definition
        self._watch = watch
        self._progress = progress
        self._hint = hint
        self._journal = journal

    def do(self, prompt: str | None, run_id: str | None) -> ExitCode:
        """Finish the run that is open, then start the one that is asked for."""
        open_run = self._open_run()
        if open_run is None and prompt is None:
            raise Refused(f"{self._thread.stream} has no open run to resume; give a TEXT to start one")
        if open_run is not None:
            code = self._resume(open_run)
            still_open = self._open_run()
            if prompt is None or open_run.run == run_id:
                return code
            if still_open is not None:
                sys.stderr.write(one_line(f"clew: TEXT was not asked, for run {still_open.run} is open") + "\n")
                return code
        return self._start(prompt or "", run_id)

    def _open_run(self) -> RunView | None:
        if not self._sequence():
            return None
        # Whoever is not the owner is refused here.
        return self._thread.view().open_run

    def _resume(self, open_run: RunView) -> ExitCode:
        if open_run.agent != self._definition.name:
            raise Refused(
                f"{self._thread.stream}: run {open_run.run} is open and belongs to agent {open_run.agent!r}, not "
                f"{self._definition.name!r}; resume it with that agent first"
            )
        recorded = counted(open_run.steps, "recorded step")
        self._progress.note(f"resuming run {open_run.run} of {self._thread.key} after {recorded}")
        after = self._sequence()
        self._thread.resume(open_run.run).get()
        for child in self._thread.view().children:
            if child.status == "running":
                self._watch.wake(child.thread)
        return self._end(self._watch.until_end(open_run.run, after, self._progress))

    def _start(self, prompt: str, run_id: str | None) -> ExitCode:
        after = self._sequence()
        asked = self._thread.run(prompt, run_id=run_id)
        asked.started()
        if self._sequence() == after:
            self._progress.note(f"run {asked.id} was asked for before; this is what came of it")
        else:
            self._progress.note(f"run {asked.id} of {self._thread.key} with {self._definition.name}")
        return self._end(self._watch.until_end(asked.id, after, self._progress))

    def _end(self, ending: Ending) -> ExitCode:
        self._progress.end(ending)
        if ending.status in ("interrupted", "late"):
            kept = f"run {ending.run} is kept with {counted(ending.steps, 'recorded step')}"
            sys.stderr.write(f"clew: {ending.error}: {kept}. Resume it: {self._hint}\n")
        elif ending.status in WAITS:
            self._say_what_it_waits_for(ending)
        elif ending.status == "running":
            # The cause was logged when it happened.
            sys.stderr.write(f"clew: error: run {ending.run} is kept, but cannot go on here\n")
        elif ending.error is not None:
            sys.stderr.write(one_line(f"clew: error: run {ending.run} {ending.error}") + "\n")
        if ending.status == "done" and ending.error is not None:
            return ExitCode.NO_ANSWER
        return _CODES.get(ending.status, ExitCode.NO_ANSWER)

    def _say_what_it_waits_for(self, ending: Ending) -> None:
        view, status = self._thread.view(), ending.status.replace("_", " ")
        lines = [f"run {ending.run} is {status}: {ending.error}"]
        lines += [f"decide: {line}" for line in how_to_decide(view, view.known_run(ending.run), self._journal)]
        for line in (*lines, f"then let it go on: {self._hint}"):
            sys.stderr.write(one_line(f"clew: {line}") + "\n")

    def _sequence(self) -> int:
        return self._thread.journal.head(self._thread.stream).sequence


class _Interrupts:
    """Notes Ctrl-C, so that a run is left between two steps of ours; a second one ends the process at once."""

    def __init__(self) -> None:
        self._seen = False

    def seen(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._seen

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _note(self, *_: object) -> None:
        if self._seen:
            # What is recorded is durable, so nothing is lost by leaving now.
            os._exit(ExitCode.INTERRUPTED)
        self._seen = True


def _close(system: ActorSystem, code: ExitCode) -> None:
    """Close the system; when a tool cannot be stopped, end the process without waiting for it."""
    closing = threading.Thread(target=system.close, daemon=True)
    closing.start()
    closing.join(CLOSE_TIMEOUT_S)
    if closing.is_alive():
        # What is recorded is durable, and what is not runs again: leaving is safe, and waiting may never end.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _hint(agent: str, thread: str, owner: str | None, journal: str) -> str:
    """Return the command that resumes."""
    words = ["clew", "run", agent, "--thread", thread]
    if owner is not None:
        words += ["--owner", owner]
    if journal != DEFAULT_JOURNAL:
        words += ["--journal", journal]
    return shlex.join(words)


def _prompt(text: str | None) -> str | None:
    if text == "-":
        try:
            text = sys.stdin.buffer.read().decode()
        except UnicodeDecodeError as error:
            raise Refused(f"standard input is not UTF-8 text: {error}") from error
    if text is not None and not text.strip():
        raise Refused("the text is empty; leave it out to resume an open run")
    return text
