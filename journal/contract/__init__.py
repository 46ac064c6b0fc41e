"""The contract of a journal as code that any backend can run: each clause proves one sentence of the protocols.

A clause is a function of an opener: what opens the journal under test, at the same place each time, with the clock it
is given. In a test of your own backend:

    @pytest.mark.parametrize("clause", CLAUSES)
    def test_my_journal_keeps_the_contract(clause, tmp_path):
        clause(partial(MyJournal, tmp_path / "journal"))

`DURABLE_CLAUSES` are for journals that outlive their handle. A clause that fails raises an `AssertionError` that says
what was expected and what was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from . import appending, cells, pages, reading, retiring, reviving, surviving
from .subject import Clause, Opener

__all__ = ["CLAUSES", "DURABLE_CLAUSES", "Clause", "Opener", "check"]

CLAUSES: tuple[Clause, ...] = (
    *appending.CLAUSES,
    *reading.CLAUSES,
    *pages.CLAUSES,
    *retiring.CLAUSES,
    *reviving.CLAUSES,
    *cells.CLAUSES,
)
"""What every journal must keep."""

DURABLE_CLAUSES: tuple[Clause, ...] = (*surviving.CLAUSES, *reviving.DURABLE_CLAUSES)
"""What a journal must keep that is opened again."""


def check(new: Callable[[], Opener], *, durable: bool = True) -> None:
    """Run every clause against a journal; `new()` gives the opener of an empty one each time.

    Raises:
        AssertionError: naming the first clause that does not hold.
    """
    for clause in _clauses(durable=durable):
        try:
            clause(new())
        except Exception as error:
            raise AssertionError(f"{clause.__name__.replace('_', ' ')}: {error!r}") from error


def _clauses(*, durable: bool) -> Iterator[Clause]:
    yield from CLAUSES
    if durable:
        yield from DURABLE_CLAUSES
