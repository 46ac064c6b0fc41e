"""`clew demo approvals`: a refund desk is killed around every approval, and each movement of money happens once."""

from __future__ import annotations

import multiprocessing
import signal
import tempfile
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from ...journal.lmdb import LmdbJournal
from .demo_movements import MoneyOutcome, decided, moved
from .exits import ExitCode, Refused
from .opening import AsJson
from .outcome import show_promises
from .render import console, counted, one_line, safe, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .demo_refunds import Case

__all__ = ["demo_approvals"]

_PATIENCE_S: Final = 60.0
"""How long a process may take; they take about a second."""

_INTRODUCTION: Final = """\
A refund desk moves money in a ledger, only when a manager has approved it.
Its process is killed (SIGKILL) around every approval, and started again.
`refund` has an idempotency key, so it may run again. `pay_cash` has none: it
runs once at the most, and where nobody knows whether it did, the manager
looks into the ledger and settles it.
No language model is used: the desk follows written rules.
"""


def demo_approvals(
    *,
    keep: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep everything in this new directory.")] = None,
    as_json: AsJson = False,
) -> int:
    """See money approved by a person, and moved once.

    A refund desk is killed before the decision, between decision and tool, inside the tool and after it. Exits with 1
    if anything moved twice, was lost, or moved without an approval.
    """
    if keep is not None and keep.exists() and not (keep.is_dir() and not any(keep.iterdir())):
        raise Refused(f"{keep} is there already and not an empty directory; name a new one")
    with nullcontext(str(keep)) if keep is not None else tempfile.TemporaryDirectory(prefix="clew-demo-") as name:
        folder = Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        out = Console(quiet=True) if as_json else console()
        outcome = _Demo(folder, out).run()
    if as_json:
        write_json(outcome)
    else:
        show_promises(outcome.promises, out)
        out.print(safe(f"\n{outcome.journal_bytes:,} bytes of journal, {outcome.seconds:.1f} s", lines=True))
        if keep is not None:
            out.print(safe(f"kept in {keep}; look around with: clew threads --journal {folder / 'journal'}"))
    return ExitCode.OK if outcome.kept else ExitCode.NO_ANSWER


class _Demo:
    """The story, told as it happens."""

    def __init__(self, folder: Path, out: Console) -> None:
        self._folder = folder
        self._out = out

    def run(self) -> MoneyOutcome:
        # The processes are copies of this one, so it imports what they need, once.
        from .demo_refunds import CASES  # noqa: PLC0415  (pydantic-ai takes a second to import)

        begun_at = time.monotonic()
        self._say(_INTRODUCTION)
        killed = Counter[str]()
        to_die = [case for case in CASES if case.point is not None]
        left: list[Case] = []
        for case in to_die:
            self._kill(left, case)
            killed[case.point or ""] += 1
            left = [case]
        undisturbed = CASES[len(to_die) :]
        self._finish([*left, *undisturbed])
        return self._outcome(CASES, killed, begun_at)

    def _kill(self, left: Sequence[Case], case: Case) -> None:
        """Have a process carry on what the one before left, and die in this case."""
        from .demo_refunds import POINTS, ledger_of  # noqa: PLC0415  (as above)

        code = self._process([*left, case])
        if code != -signal.SIGKILL:
            raise Refused(f"the process was to be killed {POINTS[case.point or '']}, but ended{self._last_words(code)}")
        where, there = POINTS[case.point or ""], len(ledger_of(self._folder).movements(case.order_id))
        self._say(f"killed  {case.order_id}  {case.way:<8}  {where:<31}  {counted(there, 'movement')} so far")

    def _finish(self, cases: Sequence[Case]) -> None:
        code = self._process(cases)
        if code != 0:
            raise Refused(f"the last process failed{self._last_words(code)}")
        for case in cases[1:]:
            said = f"approves {case.approved} of {case.cents} cents" if case.approved else "rejects it"
            self._say(f"served  {case.order_id}  {case.way:<8}  the manager {said}")

    def _process(self, cases: Sequence[Case]) -> int | None:
        """Run a process to its end; return its exit code, None where it had to be stopped."""
        from .demo_refunds import carry_on  # noqa: PLC0415  (as above)

        process = multiprocessing.get_context("fork").Process(target=carry_on, args=(self._folder, cases))
        process.start()
        process.join(_PATIENCE_S)
        if process.is_alive():
            process.kill()
            process.join()
            return None
        return process.exitcode

    def _last_words(self, code: int | None) -> str:
        words = (self._folder / "process.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        how = f" not within {_PATIENCE_S:.0f} s" if code is None else f" with {code}"
        return f"{how}: {one_line(words[-1])}" if words else how

    def _outcome(self, cases: Sequence[Case], killed: Counter[str], begun_at: float) -> MoneyOutcome:
        from ...actors.agent import replay  # noqa: PLC0415  (as above)
        from .demo_refunds import begun, desk_over, journal_of, ledger_of  # noqa: PLC0415  (as above)

        with LmdbJournal(journal_of(self._folder), readonly=True) as opened:
            events, size_bytes = list(opened.read_all()), opened.stats().bytes_on_disk
        ledger, said, began = ledger_of(self._folder), decided(events), begun(self._folder)
        money = moved(
            {case.order_id: case.approved for case in cases},
            [(movement.order_id, movement.cents) for movement in ledger.movements()],
        )
        replayed = replay(events, desk_over(ledger))
        untouched = len(ledger.movements()) == money.movements and len(begun(self._folder)) == len(began)
        kills = sum(killed.values())
        return MoneyOutcome(
            kills=kills,
            killed=dict(killed),
            processes=kills + 1,
            runs=len(cases),
            finished=sum(run.ended == "done" for run in replayed.runs),
            decisions=said.approved + said.rejected,
            rejected=said.rejected,
            movements=money.movements,
            duplicates=money.duplicates,
            lost=money.lost,
            not_approved=money.not_approved,
            cents=money.cents,
            cents_approved=money.cents_approved,
            ran_again=len(began) - len(set(began)),
            settled=said.settled,
            digests_equal=replayed.digests_equal and untouched,
            journal_bytes=size_bytes,
            seconds=round(time.monotonic() - begun_at, 2),
        )

    def _say(self, text: str) -> None:
        self._out.print(safe(text, lines=True))
