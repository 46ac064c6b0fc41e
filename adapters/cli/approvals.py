"""`clew approvals`, `clew approve` and `clew reject`: what waits for people, and what they say to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, cast

import msgspec
import typer

from ...actors import UnknownApproval
from ...journal import RecordedEvent
from ...projections import PendingApproval, approvals_inbox, fold_rows, pending_approvals, view_of
from .exits import Refused
from .facts import call_text
from .opening import AsJson, ExistingJournal, check_there, open_journal
from .render import Column, console, one_line, safe, shorten, time_of, write_json, write_table
from .standing import approval_id, stream_of

if TYPE_CHECKING:
    from ...actors.agent import Approvals, DecidedApproval
    from ...actors.reply import Reply

__all__ = ["approvals", "approve", "reject"]

_COLUMNS = (Column("ID"), Column("OWNER", cut=2), Column("AGENT", cut=1), Column("UNTIL"), Column("CALL", cut=3))
_CALL_LENGTH = 200

_Id = Annotated[str, typer.Argument(metavar="ID", help="What `clew approvals` calls it.")]
_By = Annotated[str | None, typer.Option(metavar="NAME", help="Who decides; the thread's owner unless told otherwise.")]
_Agent = Annotated[
    str | None,
    typer.Option("--agent", metavar="MODULE:AGENT", help="Decide by this agent's own rules; needed for --arguments."),
]


class _Row(msgspec.Struct, frozen=True):
    """A tool call that waits, for programs; times are nanoseconds since the epoch."""

    id: str
    thread: str
    owner: str | None
    run: str
    agent: str
    tool: str
    arguments: msgspec.Raw
    fingerprint: str
    principal: str
    asked_at: int
    expires_at: int

    @classmethod
    def of(cls, asked: PendingApproval) -> _Row:
        return cls(
            approval_id(asked.thread, asked.id),
            asked.thread.partition("/")[2],
            asked.owner,
            asked.run,
            asked.agent,
            asked.tool,
            asked.arguments,
            asked.fingerprint,
            asked.principal,
            asked.asked_at,
            asked.expires_at,
        )


def approvals(
    journal: ExistingJournal,
    *,
    owner: Annotated[str | None, typer.Option(metavar="OWNER", help="Only in the threads of this owner.")] = None,
    as_json: AsJson = False,
) -> int:
    """List the tool calls that wait for a decision.

    Over all conversations; works while another process has the journal open.
    """
    now = time.time_ns()
    with open_journal(journal, readonly=True) as opened:
        pending = pending_approvals(fold_rows(opened, approvals_inbox))
        rows = [_Row.of(asked) for asked in pending if asked.expires_at > now and owner in (None, asked.owner)]
    if as_json:
        write_json(rows)
    elif rows:
        write_table(console(), _COLUMNS, [_cells(row) for row in rows])
    return 0


def approve(
    journal: ExistingJournal,
    id_: _Id,
    *,
    by: _By = None,
    arguments: Annotated[
        str | None, typer.Option(metavar="JSON", help="Let the call be made with these arguments instead of its own.")
    ] = None,
    agent: _Agent = None,
    as_json: AsJson = False,
) -> int:
    """Let a tool call be made.

    Records the decision, which is final, and calls nothing: the run goes on when its agent's process opens the journal
    next. No other process may have it open now.
    """
    edited = None if arguments is None else _object(arguments)
    if edited is not None and agent is None:
        raise Refused("--arguments must fit the tool, so name its agent too: --agent MODULE:AGENT")
    return _decide(journal, id_, by, agent, lambda asked: asked.approve(id_, arguments=edited), as_json=as_json)


def reject(
    journal: ExistingJournal,
    id_: _Id,
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; the model is told.")],
    by: _By = None,
    agent: _Agent = None,
    as_json: AsJson = False,
) -> int:
    """Refuse a tool call.

    Records the decision, which is final; the model is told of it when its agent's process opens the journal next. No
    other process may have it open now.
    """
    return _decide(journal, id_, by, agent, lambda asked: asked.reject(id_, reason), as_json=as_json)


def _decide(
    journal: str,
    id_: str,
    by: str | None,
    agent: str | None,
    decide: Callable[[Approvals], Reply[DecidedApproval]],
    *,
    as_json: bool,
) -> int:
    check_there(journal)
    with _recording(journal, id_, by, agent) as asked:
        try:
            decided = decide(asked).get()
        except UnknownApproval as error:
            raise Refused(
                f"{one_line(id_)}: this is not for {by or 'its owner'} to decide; say who does: --by"
            ) from error
    if as_json:
        write_json(decided)
        return 0
    who = f" by {decided.by}" if decided.by is not None else ""
    why = f": {decided.reason}" if decided.reason else ""
    out = console()
    out.print(one_line(f"{decided.decision}{who}{why}"), soft_wrap=True)
    if decided.outcome in (None, "rejected"):
        out.print(one_line(f"run {decided.run} of {decided.thread} goes on when its agent opens the journal again"))
    return 0


@contextmanager
def _recording(journal: str, id_: str, by: str | None, agent: str | None) -> Generator[Approvals]:
    """Open the journal to write to it, and give what waits there to whoever decides; nothing is called."""
    from .approvals_system import RecordingSystem, stand_in  # noqa: PLC0415  (pydantic-ai takes a second to import)
    from .load import load_agent  # noqa: PLC0415  (as above)

    given = None if agent is None else load_agent(agent)
    with open_journal(journal, readonly=False) as opened:
        stream = stream_of(id_)
        if stream is None or not opened.head(stream).sequence:
            raise Refused(f"{one_line(id_)}: no such approval in {journal}. `clew approvals` lists them.")
        asked_of = _agent_of(list(opened.read(stream)), id_)
        if given is not None and asked_of.agent != given.name:
            raise Refused(f"{one_line(id_)} belongs to agent {asked_of.agent!r}, not {given.name!r}")
        with RecordingSystem(opened, agents=[given or stand_in(asked_of.agent)], recover=False) as system:
            yield system.approvals(by=asked_of.owner if by is None else by)


class _Asked(msgspec.Struct, frozen=True):
    agent: str
    owner: str | None


def _agent_of(events: list[RecordedEvent], id_: str) -> _Asked:
    view = view_of(events)
    for asked in view.approvals:
        if approval_id(view.stream, asked.id) == id_:
            return _Asked(view.known_run(asked.run).agent, view.owner)
    raise Refused(f"{one_line(id_)}: no such approval in {view.stream}. `clew approvals` lists them.")


def _object(text: str) -> dict[str, Any]:
    try:
        value: object = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Refused(f"--arguments is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise Refused("--arguments is a JSON object: the tool's arguments by name")
    return cast("dict[str, Any]", value)


def _cells(row: _Row) -> list[str]:
    call = call_text({"tool_name": row.tool, "args": msgspec.json.decode(row.arguments)})
    until = time_of(row.expires_at)[:16]
    return [safe(row.id), safe(row.owner or "-"), safe(row.agent), until, shorten(call, _CALL_LENGTH)]
