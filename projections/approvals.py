"""The inbox: one row for each tool call that waits for a decision, over all threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol, TypeAlias, cast

import msgspec

from ..journal import Catalog, RecordedEvent
from ..journal.facts import ApprovalRequested, ApprovalResolved, RunStarted, ThreadOpened
from .rows import RowProjection, Rows

__all__ = ["InboxRow", "InboxThread", "PendingApproval", "approvals_inbox", "pending_approvals"]


class PendingApproval(msgspec.Struct, frozen=True, tag="approval"):
    """A tool call that waits for a decision until `expires_at`.

    `thread` is its stream, and `id` what it is resolved by there, `RUN/STEP`. `arguments` are sealed where the agent
    has a key.
    """

    thread: str
    owner: str | None
    run: str
    step: str
    agent: str
    tool: str
    call: str
    arguments: msgspec.Raw
    fingerprint: str
    principal: str
    asked_at: int
    expires_at: int

    @property
    def id(self) -> str:
        """What it is resolved by within its thread."""
        return f"{self.run}/{self.step}"


class InboxThread(msgspec.Struct, frozen=True, tag="thread"):
    """What the inbox has to remember of a thread: whose it is, and which agent was begun in it last."""

    owner: str | None
    agent: str = ""


InboxRow: TypeAlias = PendingApproval | InboxThread

InboxEvent: TypeAlias = ThreadOpened | RunStarted | ApprovalRequested | ApprovalResolved

_END: Final = "\0"
"""Ends a stream and a run id in a key: neither can hold it, and both may look like the beginning of another."""


class _Scanned(Protocol):
    def scan(self, prefix: str = "", *, after: str = "") -> Iterator[tuple[str, InboxRow]]:
        """See `Rows.scan`."""
        ...


def pending_approvals(rows: _Scanned, *, thread: str | None = None) -> Iterator[PendingApproval]:
    """Yield what waits for a decision, by thread, run and step: in all threads, or in the stream `thread`.

    `rows` are `LiveRows(journal, approvals_inbox)`, or `fold_rows(journal, approvals_inbox)` for all up to now. Whoever
    shows them has to look at `owner`: the inbox is that of all owners.

    Raises:
        ProjectionFailed: as for `LiveRows.scan`.
    """
    for _, row in rows.scan("thread/" if thread is None else thread + _END):
        if isinstance(row, PendingApproval):
            yield row


def _apply(rows: Rows[InboxRow], event: InboxEvent, recorded: RecordedEvent) -> None:
    # Each event sets or removes what is there or not, so it makes no difference when one comes a second time.
    match event:
        case ThreadOpened():
            rows.set(_thread_key(recorded.stream), InboxThread(event.owner))
        case RunStarted():
            thread = _thread(rows, recorded.stream)
            if thread.agent != event.agent:
                rows.set(_thread_key(recorded.stream), InboxThread(thread.owner, event.agent))
        case ApprovalRequested():
            rows.set(_key(recorded.stream, event), _pending(_thread(rows, recorded.stream), event, recorded.stream))
        case ApprovalResolved():
            # A run that ends resolves what it asked for, too.
            rows.delete(_key(recorded.stream, event))


def _pending(thread: InboxThread, event: ApprovalRequested, stream: str) -> PendingApproval:
    return PendingApproval(
        thread=stream,
        owner=thread.owner,
        run=event.run,
        step=event.step,
        agent=thread.agent,
        tool=event.tool,
        call=event.call,
        arguments=event.arguments,
        fingerprint=event.fingerprint,
        principal=event.principal,
        asked_at=event.at,
        expires_at=event.expires_at,
    )


def _thread(rows: Rows[InboxRow], stream: str) -> InboxThread:
    row = rows.get(_thread_key(stream))
    return row if isinstance(row, InboxThread) else InboxThread(None)


def _thread_key(stream: str) -> str:
    # No stream begins with a slash.
    return f"/{stream}"


def _key(stream: str, event: ApprovalRequested | ApprovalResolved) -> str:
    return f"{stream}{_END}{event.run}{_END}{event.step}"


approvals_inbox: RowProjection[InboxRow, InboxEvent] = RowProjection(
    name="approvals",
    version=1,
    catalog=Catalog(ThreadOpened, RunStarted, ApprovalRequested, ApprovalResolved),
    row=cast("type[InboxRow]", PendingApproval | InboxThread),
    apply=_apply,
    category="thread",
)
"""Every tool call that waits for a decision; see `pending_approvals`."""
