"""The ledger: every movement of money, in one SQLite file."""

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_BUSY_TIMEOUT_S: Final = 30.0

_TABLE: Final = """
CREATE TABLE IF NOT EXISTS movements (
    number INTEGER PRIMARY KEY,
    idempotency_key TEXT UNIQUE,
    order_id TEXT NOT NULL,
    cents INTEGER NOT NULL CHECK (cents > 0)
)"""


@dataclass(frozen=True, slots=True)
class Movement:
    """Money that went out; one that was paid in cash has no key."""

    idempotency_key: str | None
    order_id: str
    cents: int


def open_ledger(path: Path | str) -> "Ledger":
    """Give the ledger kept in the file `path`, which is made if needed."""
    ledger = Ledger(path)
    with ledger.change() as books:
        books.execute(_TABLE)
    return ledger


@dataclass(frozen=True, slots=True)
class Ledger:
    """The movements in the file `path`, opened anew for each call; what a method wrote is on disk when it returns."""

    path: Path | str

    def refund(self, key: str, order_id: str, cents: int) -> Movement:
        """Give money back, once for each `key`; a repeated key gets the first movement again."""
        with self.change() as books:
            books.execute(
                "INSERT INTO movements (idempotency_key, order_id, cents) VALUES (?, ?, ?) "
                "ON CONFLICT (idempotency_key) DO NOTHING",
                (key, order_id, cents),
            )
            row = books.execute(
                "SELECT idempotency_key, order_id, cents FROM movements WHERE idempotency_key = ?", (key,)
            ).fetchone()
        return Movement(*row)

    def pay_cash(self, order_id: str, cents: int) -> Movement:
        """Hand out cash: each call is another movement, for a drawer knows no keys."""
        with self.change() as books:
            books.execute("INSERT INTO movements (order_id, cents) VALUES (?, ?)", (order_id, cents))
        return Movement(None, order_id, cents)

    def movements(self, order_id: str | None = None) -> list[Movement]:
        """List all movements, or those of one order, in the order in which they happened."""
        with self.change() as books:
            rows = books.execute(
                "SELECT idempotency_key, order_id, cents FROM movements "
                "WHERE :order_id IS NULL OR order_id = :order_id ORDER BY number",
                {"order_id": order_id},
            ).fetchall()
        return [Movement(*row) for row in rows]

    @contextmanager
    def change(self) -> Generator[sqlite3.Connection, None, None]:
        """Open the file for one transaction; nothing of it stays when the block raises."""
        with closing(sqlite3.connect(self.path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)) as books:
            # Some builds of SQLite sync less by default, and money needs it.
            books.execute("PRAGMA synchronous = FULL")
            books.execute("BEGIN IMMEDIATE")
            yield books
            books.execute("COMMIT")
