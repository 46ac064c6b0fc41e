"""What the demo found, and whether each promise was kept."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.console import Console

from .render import counted, safe

__all__ = ["Outcome", "Promise", "show_outcome", "show_promises"]

Promise = tuple[bool, str, str]
"""Whether it was kept, what it is, and the numbers that say so."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of one demo."""

    mails: int
    runs: int
    answered: int
    steps: int
    recorded_before_kill: int
    interrupted: int
    recovered: int
    ran_again: int
    only_interrupted_ran_again: bool
    replay_model_calls: int
    replay_tool_calls: int
    digests_equal: bool
    journal_bytes: int
    answers: int
    refunds: int
    duplicates: int
    killed_in: str
    model: str
    seconds: float

    @property
    def promises(self) -> list[Promise]:
        """Each promise: whether it was kept, what it is, and the numbers that say so."""
        calls = f"{self.replay_model_calls} model calls, {self.replay_tool_calls} tool calls"
        return [
            (
                self.recovered > 0,
                "an open run goes on unasked",
                f"{self.recovered} recovered on opening the journal",
            ),
            (
                self.runs == self.answered == self.mails,
                "every mail is answered",
                f"{counted(self.mails, 'mail')}, {counted(self.runs, 'run')}, {self.answered} answered",
            ),
            (
                self.only_interrupted_ran_again and self.ran_again <= self.interrupted,
                "only the interrupted ran again",
                f"{self.steps} steps, {self.recorded_before_kill} before the kill, {self.ran_again} ran again",
            ),
            (
                self.duplicates == 0,
                "nothing reached the shop twice",
                f"{counted(self.answers, 'answer')}, {counted(self.refunds, 'refund')}, {self.duplicates} duplicates",
            ),
            (self.replay_model_calls == self.replay_tool_calls == 0, "replay calls nothing", calls),
            (self.digests_equal, "replay ends in the same digests", "equal" if self.digests_equal else "DIFFERENT"),
        ]

    @property
    def kept(self) -> bool:
        """Whether all promises were kept."""
        return all(kept for kept, _, _ in self.promises)


def show_outcome(outcome: Outcome, out: Console) -> None:
    """Print the promises and what was found."""
    show_promises(outcome.promises, out)
    size = f"{outcome.journal_bytes:,} bytes of journal"
    out.print()
    out.print(safe(f"{size}, {outcome.seconds:.1f} s, thinking by {outcome.model}"))


def show_promises(promises: Sequence[Promise], out: Console) -> None:
    """Print each promise, whether it was kept, and what says so."""
    out.print()
    width = max(len(promise) for _, promise, _ in promises)
    for kept, promise, found in promises:
        out.print("kept  " if kept else "BROKEN", style="green" if kept else "bold red", end="")
        out.print(f"  {promise:<{width}}  {found}", soft_wrap=True)
