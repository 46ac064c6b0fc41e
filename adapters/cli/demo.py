"""`clew demo`: a support desk is killed in the middle of a tool call, carried on, and replayed without a call."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from ...journal import RecordedEvent
from ...journal.lmdb import LmdbJournal
from .exits import ExitCode, Refused
from .opening import AsJson
from .outcome import Outcome, show_outcome
from .render import console, counted, one_line, safe, write_json

if TYPE_CHECKING:
    from .tally import Recorded

__all__ = ["demo"]

_MAILS: Final = 30

_INTRODUCTION: Final = """\
A support desk answers {mails}. Each mail is a thread; each turn of the
model and each tool call is a step that is on disk before the next tool starts.
{thinking}"""
_OFFLINE: Final = "No language model is used: the desk follows written rules. (--model NAME uses one.)"


def demo(
    context: typer.Context,
    *,
    mails: Annotated[int, typer.Option(metavar="N", min=1, max=_MAILS, help="How many mails of the box.")] = _MAILS,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Think with this model, such as openai:gpt-5; needs its key.")
    ] = None,
    keep: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep everything in this new directory.")] = None,
    as_json: AsJson = False,
) -> int:
    """See a run killed and carried on.

    A support desk answers a box of mails. Its process is killed in the middle of a tool call, a second one carries
    on, and everything is replayed without calling anything. Exits with 1 if anything was lost, repeated or different.
    `clew demo approvals` is about calls that a person approves.
    """
    if context.invoked_subcommand is not None:
        return ExitCode.OK
    if keep is not None and keep.exists() and not (keep.is_dir() and not any(keep.iterdir())):
        raise Refused(f"{keep} is there already and not an empty directory; name a new one")
    with nullcontext(str(keep)) if keep is not None else tempfile.TemporaryDirectory(prefix="clew-demo-") as name:
        folder = Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        out = Console(quiet=True) if as_json else console()
        outcome = _Demo(folder, mails, model, out).run()
    if as_json:
        write_json(outcome)
    else:
        show_outcome(outcome, out)
        if keep is not None:
            out.print(safe(f"kept in {keep}; look around with: clew threads --journal {folder / 'journal'}"))
    return ExitCode.OK if outcome.kept else ExitCode.NO_ANSWER


@dataclass(frozen=True)
class _Killed:
    """Where the first process ended, and what was recorded by then."""

    before: Recorded
    under_way: list[str]

    @property
    def call(self) -> str:
        """The call inside which it ended."""
        return self.under_way[-1]

    @property
    def run_steps(self) -> int:
        """How many steps of the interrupted run were recorded."""
        run = self.call.rpartition("/")[0]
        return sum(step.startswith(f"{run}/") for step in self.before.steps)


@dataclass(frozen=True)
class _CarriedOn:
    """What the second process found and did."""

    recovered: int
    after: Recorded
    again: list[str]


class _Demo:
    """The story, told as it happens."""

    def __init__(self, folder: Path, mails: int, model: str | None, out: Console) -> None:
        self._folder = folder
        self._journal = folder / "journal"
        self._mails = mails
        self._model = model
        self._out = out

    def run(self) -> Outcome:
        begun_at = time.monotonic()
        thinking = _OFFLINE if self._model is None else f"It thinks with {self._model}."
        self._say(_INTRODUCTION.format(mails=counted(self._mails, "customer mail"), thinking=thinking))
        killed = self._kill_one()
        carried = self._carry_on(killed)
        calls, equal = self._replay(len(carried.after.threads))
        return self._outcome(killed, carried, calls, equal=equal, seconds=time.monotonic() - begun_at)

    def _kill_one(self) -> _Killed:
        self._say("\n1. A process answers the mails, one after the other.")
        code, _ = self._work("--kill")
        if code != -signal.SIGKILL:
            raise Refused(f"the first process was to be killed in a tool, but ended by itself{self._last_words()}")
        before, started = self._recorded(), self._started()
        killed = _Killed(before, [call for call in started if call not in before.steps])
        if not killed.under_way:
            raise Refused("the first process was killed by somebody else, between two calls; try again")
        _, key, _, step = killed.call.split("/", 3)
        self._say(
            f"   Killed (SIGKILL) inside {_tool(killed.call)}, in mail {before.runs}: {key}\n"
            f"   at its step {step}, after {counted(killed.run_steps, 'recorded step')}.\n"
            f"   Done by then: {counted(before.done, 'mail')}, {counted(len(before.steps), 'step')}. "
            f"Under way: {len(killed.under_way)}."
        )
        return killed

    def _carry_on(self, killed: _Killed) -> _CarriedOn:
        self._say("\n2. A second process opens the same journal, then asks for all the mails again.")
        code, recovered = self._work()
        if code != 0:
            raise Refused(f"the second process failed{self._last_words()}")
        after, started = self._recorded(), self._started()
        again = [call for call, times in started.items() if times > max(1, after.attempts[call])]
        self._say(
            f"   {counted(recovered, 'open run')} went on unasked, after its recorded steps.\n"
            f"   Ran again, with the same idempotency key: {', '.join(map(_tool, again)) or 'nothing'}.\n"
            f"   Done now: {counted(after.done, 'mail')}, {counted(len(after.steps), 'step')}."
        )
        return _CarriedOn(recovered, after, again)

    def _replay(self, threads: int) -> tuple[list[str], bool]:
        from ...actors.agent import replay  # noqa: PLC0415  (pydantic-ai takes a second to import)
        from .desk import open_desk  # noqa: PLC0415  (as above)

        self._say(f"\n3. This process replays all {threads} threads from the journal.")
        calls: list[str] = []
        replayed = replay(self._events(), open_desk(self._folder, model=self._model, begin=calls.append))
        steps = sum(len(run.steps) for run in replayed.runs)
        self._say(
            f"   Decided again: {counted(len(replayed.runs), 'run')}, {counted(steps, 'step')}. "
            f"Calls of the model or a tool: {len(calls)}."
        )
        return calls, replayed.digests_equal

    def _outcome(
        self, killed: _Killed, carried: _CarriedOn, calls: list[str], *, equal: bool, seconds: float
    ) -> Outcome:
        from .tally import filed  # noqa: PLC0415  (it imports the example, and with it pydantic-ai)

        at_shop, after = filed(self._folder), carried.after
        with LmdbJournal(self._journal, readonly=True) as opened:
            size_bytes = opened.stats().bytes_on_disk
        models = sum(_tool(call).startswith("llm:") for call in calls)
        return Outcome(
            mails=self._mails,
            runs=after.runs,
            answered=after.done,
            steps=len(after.steps),
            recorded_before_kill=len(killed.before.steps),
            interrupted=len(killed.under_way),
            recovered=carried.recovered,
            ran_again=len(carried.again),
            only_interrupted_ran_again=set(carried.again) <= set(killed.under_way),
            replay_model_calls=models,
            replay_tool_calls=len(calls) - models,
            digests_equal=equal,
            journal_bytes=size_bytes,
            answers=at_shop.answers,
            refunds=at_shop.refunds,
            duplicates=at_shop.duplicates,
            killed_in=killed.call,
            model=self._model or "offline rules",
            seconds=round(seconds, 2),
        )

    def _work(self, *options: str) -> tuple[int, int]:
        """Run a worker to its end; return its exit code, and how many threads it woke on opening."""
        command = [sys.executable, "-m", "clew.adapters.cli.worker", str(self._folder), "--mails", str(self._mails)]
        command += [*options, *(["--model", self._model] if self._model is not None else [])]
        recovered = 0
        with (
            (self._folder / "worker.log").open("wb") as words,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=words, text=True) as worker,  # noqa: S603  (ours)
            self._out.status("starting") as status,
        ):
            try:
                for done, line in enumerate(worker.stdout or ()):
                    recovered = int(line.split()[1]) if done == 0 else recovered
                    status.update(f"{done} of {self._mails} mails")
            except BaseException:
                worker.kill()
                raise
        return worker.returncode, recovered

    def _last_words(self) -> str:
        lines = (self._folder / "worker.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f": {one_line(lines[-1])}" if lines else ""

    def _events(self) -> list[RecordedEvent]:
        with LmdbJournal(self._journal, readonly=True) as opened:
            return list(opened.read_all())

    def _recorded(self) -> Recorded:
        from .tally import recorded  # noqa: PLC0415  (as above)

        return recorded(self._events())

    def _started(self) -> dict[str, int]:
        from .tally import started  # noqa: PLC0415  (as above)

        return started(self._folder / "started.txt")

    def _say(self, text: str) -> None:
        self._out.print(safe(text, lines=True))


def _tool(call: str) -> str:
    """Return the tool of a call, or the turn of the model that it is."""
    step = call.split("/", 3)[-1]
    return step.split(":")[1] if step.startswith("tool:") else step
