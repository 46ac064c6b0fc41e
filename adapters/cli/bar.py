"""A bar on a terminal while many events go in or out."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TaskID, TextColumn

from ...journal.history import Progress as Told
from .render import console, counted, size_of

__all__ = ["bar_of_bytes", "bar_of_events"]


@contextmanager
def bar_of_events(what: str, total: int) -> Generator[Told | None]:
    """Show how many of so many events are done; yields whom to tell, or None where nobody looks at a terminal."""
    with _bar(what, total) as (bar, task):
        yield bar and (lambda events, size_bytes: bar.update(task, completed=events, done=_done(events, size_bytes)))


@contextmanager
def bar_of_bytes(what: str, total: int | None) -> Generator[Told | None]:
    """Show how many of so many bytes are done, as `bar_of_events` does; None is an unknown number."""
    with _bar(what, total) as (bar, task):
        yield bar and (
            lambda events, size_bytes: bar.update(task, completed=size_bytes, done=_done(events, size_bytes))
        )


@contextmanager
def _bar(what: str, total: int | None) -> Generator[tuple[Progress | None, TaskID]]:
    # Not in the middle of what is written to the same terminal, and never into a file or a log.
    if not sys.stderr.isatty():
        yield None, TaskID(0)
        return
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[done]}")
    with Progress(
        *columns, console=console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
    ) as bar:
        yield bar, bar.add_task(what, total=total, done="")


def _done(events: int, size_bytes: int) -> str:
    return f"{counted(events, 'event')}, {size_of(size_bytes)}"
