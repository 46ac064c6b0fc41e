"""What `clew demo approvals` found: each movement of money against what was approved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from ...journal import RecordedEvent
from ...journal.facts import ApprovalResolved, StepSettled
from .facts import CATALOG
from .outcome import Promise
from .render import counted

__all__ = ["Decided", "MoneyOutcome", "Moved", "decided", "moved"]


class Moved(msgspec.Struct, frozen=True):
    """The movements against the cents that were approved for each order."""

    movements: int
    duplicates: int
    lost: int
    not_approved: int
    cents: int
    cents_approved: int


class Decided(msgspec.Struct, frozen=True):
    """The decisions in a journal, and how many steps in doubt somebody settled."""

    approved: int
    rejected: int
    settled: int


class MoneyOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of one demo of approvals."""

    kills: int
    killed: dict[str, int]
    processes: int
    runs: int
    finished: int
    decisions: int
    rejected: int
    movements: int
    duplicates: int
    lost: int
    not_approved: int
    cents: int
    cents_approved: int
    ran_again: int
    settled: int
    digests_equal: bool
    journal_bytes: int
    seconds: float

    @property
    def promises(self) -> list[Promise]:
        """Each promise: whether it was kept, what it is, and the numbers that say so."""
        return [
            (
                self.finished == self.runs,
                "every run is finished",
                f"{counted(self.kills, 'kill')}, {counted(self.runs, 'run')}, {self.finished} finished",
            ),
            (
                self.decisions == self.runs,
                "every call is decided once",
                f"{counted(self.decisions, 'decision')}, {self.rejected} of them rejected",
            ),
            (
                self.not_approved == 0,
                "nothing moves unapproved",
                f"{counted(self.movements, 'movement')}, {self.not_approved} not as approved",
            ),
            (
                self.duplicates == 0,
                "nothing moves twice",
                f"{counted(self.duplicates, 'duplicate')}, {self.ran_again} ran again, {self.settled} settled",
            ),
            (
                self.lost == 0 and self.cents == self.cents_approved,
                "nothing approved is lost",
                f"{self.lost} lost, {self.cents} of {self.cents_approved} cents",
            ),
            (
                self.digests_equal,
                "replay ends in the same digests",
                "equal" if self.digests_equal else "DIFFERENT",
            ),
        ]

    @property
    def kept(self) -> bool:
        """Whether all promises were kept."""
        return all(kept for kept, _, _ in self.promises)


def moved(approved: Mapping[str, int], movements: Iterable[tuple[str, int]]) -> Moved:
    """Compare movements (order, cents) with the cents that were approved by order; 0 where nothing was."""
    happened = list(movements)
    times = Counter(order for order, _ in happened)
    return Moved(
        movements=len(happened),
        duplicates=sum(count - 1 for count in times.values()),
        lost=sum(1 for order, cents in approved.items() if cents and not times[order]),
        not_approved=sum(1 for order, cents in happened if approved.get(order, 0) != cents),
        cents=sum(cents for _, cents in happened),
        cents_approved=sum(approved.values()),
    )


def decided(events: Iterable[RecordedEvent]) -> Decided:
    """Count what people said."""
    said = Counter[str]()
    for event in events:
        match CATALOG.decode(event):
            case ApprovalResolved() as resolved:
                said[resolved.decision] += 1
            case StepSettled():
                said["settled"] += 1
            case _:
                pass
    return Decided(said["approved"], said["rejected"], said["settled"])
