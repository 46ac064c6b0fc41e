"""The books of a small shop, in one SQLite file: who bought what, and the reports about it."""

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS orders (
    id INTEGER PRIMARY KEY,
    customer_id INTEGER NOT NULL REFERENCES customers (id),
    cents INTEGER NOT NULL CHECK (cents > 0)
);
CREATE TABLE IF NOT EXISTS reports (idempotency_key TEXT PRIMARY KEY, title TEXT NOT NULL, cents INTEGER NOT NULL);
"""

_CUSTOMERS: Final = [(1, "Ida", "Graz"), (2, "Otto", "Linz"), (3, "Mira", "Graz")]

_ORDERS: Final = [(1, 1, 1250), (2, 1, 900), (3, 2, 40), (4, 3, 7000), (5, 1, 310), (6, 2, 2560)]


class Books:
    """The books in a file; every call opens it anew, so that any process may ask."""

    def __init__(self, path: Path | str) -> None:
        self._path = path

    def customers(self, city: str) -> list[dict[str, Any]]:
        """Return who lives in a city, in the order of their numbers."""
        return self._rows("SELECT id, name FROM customers WHERE city = ? ORDER BY id", city)

    def orders(self, customer_id: int) -> list[dict[str, Any]]:
        """Return what a customer bought."""
        return self._rows("SELECT id, cents FROM orders WHERE customer_id = ? ORDER BY id", customer_id)

    def publish(self, key: str, title: str, cents: int) -> None:
        """File a report; one key files one, however often it comes."""
        with self.change() as books:
            books.execute("INSERT INTO reports VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (key, title, cents))

    def reports(self) -> list[dict[str, Any]]:
        """Return what was published."""
        return self._rows("SELECT title, cents FROM reports ORDER BY rowid")

    @contextmanager
    def change(self) -> Generator[sqlite3.Connection]:
        """Open the file; what is done to it counts as a whole, or not at all."""
        with closing(sqlite3.connect(self._path, timeout=30)) as books, books:
            books.row_factory = sqlite3.Row
            yield books

    def _rows(self, query: str, *values: object) -> list[dict[str, Any]]:
        with self.change() as books:
            return [dict(row) for row in books.execute(query, values)]


def open_books(path: Path | str) -> Books:
    """Open the books in the file `path`; a new one begins with three customers and six orders."""
    found = Books(path)
    with found.change() as books:
        books.executescript(_SCHEMA)
        books.executemany("INSERT OR IGNORE INTO customers VALUES (?, ?, ?)", _CUSTOMERS)
        books.executemany("INSERT OR IGNORE INTO orders VALUES (?, ?, ?)", _ORDERS)
    return found
