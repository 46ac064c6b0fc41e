"""The tables of a SQL journal, and every statement on them.

Names have a prefix, since in a Durable Object a user's own tables may stand beside them. Times in nanoseconds are over
2**53, which JavaScript cannot hold: they cross as text, and the column's type makes integers of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Final

from .execute import PARAMETERS_MAX, Execute, Value

__all__ = [
    "CELL",
    "CELLS",
    "CHUNK",
    "DELETE_CELLS",
    "DELETE_CHUNKS",
    "DELETE_EVENTS",
    "DELETE_PIECES",
    "DELETE_STREAM",
    "DELETE_USES",
    "END_STREAM",
    "EVENTS",
    "EVENTS_OF_CATEGORY",
    "EVENTS_OF_STREAM",
    "HEAD",
    "HEADS",
    "INSERT_CELLS",
    "INSERT_CHUNK",
    "INSERT_EVENTS",
    "INSERT_LAYOUT",
    "INSERT_STREAM",
    "INSERT_USES",
    "LAST_NUMBER",
    "LAST_POSITION",
    "LAYOUT",
    "META",
    "STRAY_EVENTS",
    "TABLES",
    "TALLY",
    "TOUCHED",
    "insert",
    "with_keys",
]

META: Final = "CREATE TABLE IF NOT EXISTS clew_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"

TABLES: Final = (
    # What is left of a deleted stream is its row, with the position at which it was deleted.
    """CREATE TABLE clew_streams (
        number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
        deleted_position INTEGER, deleted_sequence INTEGER, deleted_digest BLOB)""",
    "CREATE INDEX clew_deleted ON clew_streams (deleted_position) WHERE deleted_position IS NOT NULL",
    # `body` is the canonical form; with `chunked`, the names of its chunks and what is between them.
    """CREATE TABLE clew_events (
        position INTEGER PRIMARY KEY, stream INTEGER NOT NULL, sequence INTEGER NOT NULL,
        recorded_at INTEGER NOT NULL, cause BLOB NOT NULL, digest BLOB NOT NULL,
        checksum INTEGER NOT NULL, chunked INTEGER NOT NULL, body BLOB NOT NULL,
        UNIQUE (stream, sequence))""",
    "CREATE TABLE clew_chunks (digest BLOB NOT NULL PRIMARY KEY, content BLOB NOT NULL)",
    # Which streams name a chunk: with the last of them it goes.
    """CREATE TABLE clew_uses (
        stream INTEGER NOT NULL, digest BLOB NOT NULL, PRIMARY KEY (stream, digest)) WITHOUT ROWID""",
    "CREATE INDEX clew_uses_of_chunk ON clew_uses (digest)",
    # A value is cut into pieces, so that a row never comes near the 2 MB that a Durable Object takes.
    """CREATE TABLE clew_cells (
        key BLOB NOT NULL, piece INTEGER NOT NULL, value BLOB NOT NULL, PRIMARY KEY (key, piece)) WITHOUT ROWID""",
)
LAYOUT: Final = "SELECT value FROM clew_meta WHERE key = 'layout'"
INSERT_LAYOUT: Final = "INSERT INTO clew_meta (key, value) VALUES ('layout', ?)"

LAST_NUMBER: Final = "SELECT coalesce(max(number), 0) FROM clew_streams"
LAST_POSITION: Final = """SELECT max(
    coalesce((SELECT max(position) FROM clew_events), 0),
    coalesce((SELECT max(deleted_position) FROM clew_streams WHERE deleted_position IS NOT NULL), 0))"""
TALLY: Final = "SELECT (SELECT count(*) FROM clew_events), count(*) FROM clew_streams WHERE deleted_position IS NULL"

_HEADS: Final = """SELECT s.name, s.number, s.deleted_sequence, s.deleted_digest,
    e.sequence, e.digest, CAST(e.recorded_at AS TEXT)
    FROM clew_streams AS s LEFT JOIN clew_events AS e ON e.stream = s.number
    AND e.sequence = (SELECT max(sequence) FROM clew_events WHERE stream = s.number)"""
HEAD: Final = f"{_HEADS} WHERE s.name = ?"
HEADS: Final = f"{_HEADS} WHERE s.name >= ? AND s.name < ? ORDER BY s.name"

_EVENT: Final = "e.position, e.sequence, CAST(e.recorded_at AS TEXT), e.cause, e.digest, e.checksum, e.chunked, e.body"
EVENTS_OF_STREAM: Final = f"""SELECT {_EVENT} FROM clew_events AS e
    WHERE e.stream = ? AND e.sequence > ? AND e.sequence <= ? ORDER BY e.sequence LIMIT ?"""  # noqa: S608  (of constants)
# Joined from the left, so that an event whose stream has lost its row is seen.
EVENTS: Final = f"""SELECT {_EVENT}, e.stream, s.name FROM clew_events AS e
    LEFT JOIN clew_streams AS s ON s.number = e.stream
    WHERE e.position > ? AND e.position <= ? ORDER BY e.position LIMIT ?"""  # noqa: S608  (of constants)
# The cross join keeps the order of the tables: to go through the streams first would mean to sort for every page.
EVENTS_OF_CATEGORY: Final = f"""SELECT {_EVENT}, e.stream, s.name FROM clew_events AS e
    CROSS JOIN clew_streams AS s ON s.number = e.stream
    WHERE e.position > ? AND e.position <= ? AND s.name >= ? AND s.name < ? ORDER BY e.position LIMIT ?"""  # noqa: S608  (of constants)
STRAY_EVENTS: Final = """SELECT count(*), min(position) FROM clew_events
    WHERE stream NOT IN (SELECT number FROM clew_streams WHERE deleted_position IS NULL)"""
TOUCHED: Final = """SELECT name FROM clew_streams
    WHERE number IN (SELECT stream FROM clew_events WHERE position > ?) OR deleted_position > ?"""
CHUNK: Final = "SELECT content FROM clew_chunks WHERE digest = ?"

INSERT_STREAM: Final = "INSERT INTO clew_streams (number, name) VALUES (?, ?)"
INSERT_EVENTS: Final = """INSERT INTO clew_events
    (position, stream, sequence, recorded_at, cause, digest, checksum, chunked, body) VALUES """
INSERT_CHUNK: Final = "INSERT OR IGNORE INTO clew_chunks (digest, content) VALUES (?, ?)"
INSERT_USES: Final = "INSERT OR IGNORE INTO clew_uses (stream, digest) VALUES "

DELETE_STREAM: Final = "DELETE FROM clew_streams WHERE number = ?"
END_STREAM: Final = """UPDATE clew_streams
    SET deleted_position = ?, deleted_sequence = ?, deleted_digest = ? WHERE number = ?"""
DELETE_EVENTS: Final = "DELETE FROM clew_events WHERE stream = ?"
DELETE_CHUNKS: Final = """DELETE FROM clew_chunks WHERE digest IN (
    SELECT mine.digest FROM clew_uses AS mine WHERE mine.stream = ?1 AND NOT EXISTS (
        SELECT 1 FROM clew_uses AS other WHERE other.digest = mine.digest AND other.stream <> ?1))"""
DELETE_USES: Final = "DELETE FROM clew_uses WHERE stream = ?"

CELL: Final = "SELECT value FROM clew_cells WHERE key = ? ORDER BY piece"
# A large value is not read with the others: of one in pieces, the pieces must be of one moment.
CELLS: Final = """SELECT key, CASE WHEN length(value) <= ? THEN value END FROM clew_cells
    WHERE key >= ? AND key > ? AND key < ? AND piece = 0 ORDER BY key LIMIT ?"""
INSERT_CELLS: Final = "INSERT OR REPLACE INTO clew_cells (key, piece, value) VALUES "
DELETE_CELLS: Final = "DELETE FROM clew_cells WHERE key IN "
DELETE_PIECES: Final = "DELETE FROM clew_cells WHERE piece > 0 AND key IN "


def insert(database: Execute, sql: str, rows: Sequence[Sequence[Value]]) -> None:
    """Execute an insertion of rows of equal width, as many in one statement as may be."""
    if rows:
        width = len(rows[0])
        at_once = PARAMETERS_MAX // width
        for start in range(0, len(rows), at_once):
            some = rows[start : start + at_once]
            database.execute(sql + _places(len(some), width), *chain.from_iterable(some))


def with_keys(database: Execute, sql: str, keys: Sequence[bytes]) -> None:
    """Execute a statement that ends in a set of keys, with as many of them as may be."""
    for start in range(0, len(keys), PARAMETERS_MAX):
        some = keys[start : start + PARAMETERS_MAX]
        database.execute(sql + _places(1, len(some)), *some)


@cache
def _places(rows: int, width: int) -> str:
    return ", ".join([f"({', '.join('?' * width)})"] * rows)
