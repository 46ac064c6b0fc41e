"""The shop's books: orders, parcels, refunds and filed answers in one SQLite file."""

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Final

REFUND_CENTS_MAX: Final = 10_000
"""The desk may give back this much for one order by itself; more needs a person."""

CARRIER_DELAY_S: Final = 3.0
"""How long the carrier takes to answer, unless told otherwise."""

_BUSY_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Order:
    """What a customer bought, and how far it got."""

    id: str
    email: str
    item: str
    total_cents: int
    status: str
    placed_on: str

    @property
    def sent(self) -> bool:
        """Whether it left the shop."""
        return self.status in {"shipped", "delivered"}


@dataclass(frozen=True, slots=True)
class Shipment:
    """What the carrier says about the parcel of an order."""

    order_id: str
    carrier: str
    parcel: str
    status: str
    due_on: str


@dataclass(frozen=True, slots=True)
class Refund:
    """Money given back, once for each idempotency key."""

    idempotency_key: str
    order_id: str
    cents: int
    reason: str


@dataclass(frozen=True, slots=True)
class RefundRefused:
    """Why no money was given back; nothing was written."""

    order_id: str
    why: str


@dataclass(frozen=True, slots=True)
class FiledAnswer:
    """A mail to a customer, filed once for each idempotency key."""

    idempotency_key: str
    recipient: str
    subject: str
    body: str


def open_shop(path: Path | str, *, carrier_delay_s: float = CARRIER_DELAY_S) -> "Shop":
    """Give the shop kept in the file `path`, with its orders loaded if the file is new.

    Opening again, or from several processes at once, loads them once. A crash while loading leaves none.
    """
    script = Path(__file__).with_name("orders.sql").read_text(encoding="utf-8")
    with closing(sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)) as books:
        # SQLite does not wait for another process that is making this very change; once made, it stays.
        with suppress(sqlite3.OperationalError):
            books.execute("PRAGMA journal_mode = WAL")
        if books.execute("PRAGMA user_version").fetchone() == (0,):
            books.executescript(script)
    return Shop(path, carrier_delay_s=carrier_delay_s)


@dataclass(frozen=True, slots=True)
class Shop:
    """The books in the file `path`, opened anew for each call, so that any thread or process may call.

    What a method wrote is on disk when it returns. Waits up to half a minute for others who are writing.
    `carrier_delay_s` is how long the carrier keeps waiting whoever asks it.
    """

    path: Path | str
    _: KW_ONLY
    carrier_delay_s: float = CARRIER_DELAY_S

    def find_order(self, order_id: str) -> Order | None:
        """Find an order by its number, in capitals or not."""
        with self._open() as books:
            row = books.execute(f"{_ORDERS} WHERE id = ?", (order_id.strip(),)).fetchone()
        return Order(*row) if row else None

    def orders_of(self, email: str, *, orders_max: int = 20) -> list[Order]:
        """List the latest orders placed with a mail address, newest first."""
        with self._open() as books:
            rows = books.execute(
                f"{_ORDERS} WHERE email = ? ORDER BY placed_on DESC, id DESC LIMIT ?",
                (email.strip(), orders_max),
            ).fetchall()
        return [Order(*row) for row in rows]

    def find_shipment(self, order_id: str) -> Shipment | None:
        """Find the parcel of an order; there is none before it was sent."""
        with self._open() as books:
            row = books.execute(
                "SELECT order_id, carrier, parcel, status, due_on FROM shipments WHERE order_id = ?",
                (order_id.strip(),),
            ).fetchone()
        return Shipment(*row) if row else None

    def refund(self, key: str, *, order_id: str, cents: int, reason: str) -> Refund | RefundRefused:
        """Give money back for an order, once for each `key`; a repeated key gets the first refund again.

        Refused when there is no such order, when more would be given back than was paid, or when it is more
        than the desk may give.
        """
        with self._change() as books:
            if done := books.execute(f"{_REFUNDS} WHERE idempotency_key = ?", (key,)).fetchone():
                return Refund(*done)
            order = books.execute(f"{_ORDERS} WHERE id = ?", (order_id.strip(),)).fetchone()
            if order is None:
                return RefundRefused(order_id, f"There is no order {order_id}.")
            found = Order(*order)
            if why := _why_not(found, cents, _given_back(books, found.id)):
                return RefundRefused(found.id, why)
            books.execute("INSERT INTO refunds VALUES (?, ?, ?, ?)", (key, found.id, cents, reason))
        return Refund(key, found.id, cents, reason)

    def file_answer(self, key: str, *, recipient: str, subject: str, body: str) -> FiledAnswer:
        """File an answer, once for each `key`; a repeated key is answered with the answer first filed."""
        with self._change() as books:
            books.execute(
                "INSERT INTO answers VALUES (?, ?, ?, ?) ON CONFLICT (idempotency_key) DO NOTHING",
                (key, recipient, subject, body),
            )
            return FiledAnswer(*books.execute(f"{_ANSWERS} WHERE idempotency_key = ?", (key,)).fetchone())

    def refunds(self) -> list[Refund]:
        """List all refunds, in the order they were given."""
        with self._open() as books:
            return [Refund(*row) for row in books.execute(f"{_REFUNDS} ORDER BY rowid")]

    def answers(self) -> list[FiledAnswer]:
        """List all filed answers, in the order they were filed."""
        with self._open() as books:
            return [FiledAnswer(*row) for row in books.execute(f"{_ANSWERS} ORDER BY rowid")]

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection, None, None]:
        # `mode=rw` refuses a file that is not there, where the default would make an empty one.
        uri = f"{Path(self.path).absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_TIMEOUT_S, isolation_level=None)) as books:
            yield books

    @contextmanager
    def _change(self) -> Generator[sqlite3.Connection, None, None]:
        with self._open() as books:
            # Some builds of SQLite do not sync a commit in WAL mode by default, and money needs it.
            books.execute("PRAGMA synchronous = FULL")
            # Take the write lock before reading: a check made without it may be stale when the write comes.
            books.execute("BEGIN IMMEDIATE")
            yield books
            books.execute("COMMIT")


_ORDERS: Final = "SELECT id, email, item, total_cents, status, placed_on FROM orders"
_REFUNDS: Final = "SELECT idempotency_key, order_id, cents, reason FROM refunds"
_ANSWERS: Final = "SELECT idempotency_key, recipient, subject, body FROM answers"


def _given_back(books: sqlite3.Connection, order_id: str) -> int:
    rows = books.execute("SELECT cents FROM refunds WHERE order_id = ?", (order_id,))
    return sum(int(cents) for (cents,) in rows)


def _why_not(order: Order, cents: int, given_back_cents: int) -> str | None:
    if cents <= 0:
        return "A refund must be more than nothing."
    if given_back_cents + cents > order.total_cents:
        return f"{given_back_cents} of {order.total_cents} cents for {order.id} were already given back."
    if given_back_cents + cents > REFUND_CENTS_MAX:
        return f"The desk may give back {REFUND_CENTS_MAX} cents for an order; more needs a person."
    return None
