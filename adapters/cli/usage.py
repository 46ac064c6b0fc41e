"""`clew usage`: what models used and what that cost, by owner, agent or model."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Annotated

import msgspec
import typer

from ...projections import ByModel, Spending, Usage, spending_rows
from .opening import DEFAULT_JOURNAL, AsJson, JournalArgument, open_journal
from .render import Column, console, safe, write_json, write_table

__all__ = ["usage"]

_COUNTS = (
    Column("RUNS", number=True),
    Column("REQUESTS", number=True),
    Column("TOKENS IN", number=True),
    Column("OUT", number=True),
    Column("USD", number=True),
    Column("UNPRICED", number=True),
)


class _By(Enum):
    """What there is a line for."""

    OWNER = "owner"
    AGENT = "agent"
    MODEL = "model"


class _Row(msgspec.Struct):
    """A line; only what it is for is named."""

    owner: str | None = None
    agent: str | None = None
    model: str | None = None
    runs: int = 0
    usage: Usage = msgspec.field(default_factory=Usage)


def usage(
    journal: JournalArgument = DEFAULT_JOURNAL,
    *,
    by: Annotated[_By | None, typer.Option(help="One line for each; by default one for each owner and agent.")] = None,
    owner: Annotated[str | None, typer.Option(metavar="OWNER", help="Only what this owner used.")] = None,
    as_json: AsJson = False,
) -> int:
    """Show what models used: requests, tokens, and what they cost.

    UNPRICED are requests whose cost is not known, so that USD is not the whole of it; "-" is none that is known. A
    run counts for each model it asked, and the runs that a tool asked another agent for count there.
    """
    with open_journal(journal, readonly=True) as opened:
        found = [row for row in spending_rows(opened) if owner is None or row.owner == owner]
    rows = _rows(found, by)
    if as_json:
        write_json(rows)
        return 0
    named = [name for name in ("owner", "agent", "model") if name in _names(by)]
    columns = [*(Column(name.upper(), cut=place) for place, name in enumerate(named, 1)), *_COUNTS]
    write_table(console(), columns, (_cells(row, named) for row in rows))
    return 0


def _names(by: _By | None) -> tuple[str, ...]:
    return ("owner", "agent") if by is None else (by.value,)


def _rows(found: Iterable[Spending], by: _By | None) -> list[_Row]:
    """Return the lines, in the order of their names."""
    rows: dict[tuple[str, ...], _Row] = {}
    for spending in found:
        used = spending.models if by is _By.MODEL else {"": ByModel(spending.runs, spending.usage)}
        for model, part in used.items():
            known = {"owner": spending.owner, "agent": spending.agent, "model": model}
            owner, agent, named = (known[name] if name in _names(by) else None for name in ("owner", "agent", "model"))
            row = rows.setdefault((owner or "", agent or "", named or ""), _Row(owner, agent, named))
            row.runs += part.runs
            row.usage.add(part.usage)
    return [row for _, row in sorted(rows.items())]


def _cells(row: _Row, named: list[str]) -> list[str]:
    used = row.usage
    counts = (row.runs, used.requests, used.input_tokens, used.output_tokens)
    usd = "-" if used.cost_usd is None else f"{used.cost_usd:f}"
    return [*(safe(getattr(row, name) or "-") for name in named), *map(str, counts), usd, str(used.unpriced)]
