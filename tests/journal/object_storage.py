"""The SQL of a Durable Object, as far as its limits go: SQLite that refuses what the platform refuses."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from clew.journal.sql.execute import Row, Value

T = TypeVar("T")

VALUE_BYTES_MAX = 2_000_000
PARAMETERS_MAX = 100
EXACT_IN_JAVASCRIPT = 2**53


class ObjectStorage:
    """Outlives the journals that are opened on it, as an object's storage outlives the object in memory."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        # JavaScript puts something in the place of what is not UTF-8, too.
        self.db.text_factory = partial(str, encoding="utf-8", errors="replace")
        for limit, most in (
            (sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX),
            (sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, PARAMETERS_MAX),
            (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 100_000),
            (sqlite3.SQLITE_LIMIT_COLUMN, 100),
            (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 5),
            (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 100),
            (sqlite3.SQLITE_LIMIT_FUNCTION_ARG, 32),
            (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
        ):
            self.db.setlimit(limit, most)
        # An object has one thread; where the contract brings more, they take turns.
        self._turn = threading.RLock()
        self.failure: Exception | None = None
        """What the next transaction ends with, rolled back."""
        self.transactions = 0
        self.statements = 0
        self.parameters = 0
        """The most parameters that a statement had."""
        self.value_bytes = 0
        """The largest value that went in or came out."""

    @property
    def name(self) -> str:
        return "the storage of an object"

    def execute(self, sql: str, *params: Value) -> list[Row]:
        with self._turn:
            assert not re.search(r"\b(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|PRAGMA|ATTACH|VACUUM)\b", sql), sql
            rows = self.db.execute(sql, params).fetchall()
            self.statements += 1
            self.parameters = max(self.parameters, len(params))
            for value in (*params, *(value for row in rows for value in row)):
                assert isinstance(value, bytes | str | int | None)
                if isinstance(value, int):
                    assert abs(value) <= EXACT_IN_JAVASCRIPT, sql
                elif value is not None:
                    self.value_bytes = max(self.value_bytes, len(value if isinstance(value, bytes) else value.encode()))
            return rows

    def atomically(self, work: Callable[[], T]) -> T:
        with self._turn:
            self.db.execute("BEGIN")
            try:
                done = work()
                failure, self.failure = self.failure, None
                if failure is not None:
                    raise failure
            except BaseException:
                self.db.execute("ROLLBACK")
                raise
            self.db.execute("COMMIT")
            self.transactions += 1
            return done
