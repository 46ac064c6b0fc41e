"""A history as a file that is whole or not there, and that a power cut does not take away."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from .event import RecordedEvent
from .history import Progress, write_history
from .history.writing import compressed

__all__ = ["make_folder", "save_history", "sync_folder"]


def save_history(events: Iterable[RecordedEvent], path: str | Path, *, progress: Progress | None = None) -> int:
    """Write `events` as the history `path`; return how many there were when the file would survive power loss.

    It is written beside and then takes its name, so a half-written history never bears it; what had the name before
    is replaced. A name that ends in `.gz` is compressed.

    Raises:
        OSError: it cannot be written; what was there before is there still.
    """
    target = Path(path)
    number, name = tempfile.mkstemp(dir=target.parent, prefix=".history.")
    draft = Path(name)
    try:
        with os.fdopen(number, "wb") as file:
            count = write_history(events, file, compress=compressed(target.name), progress=progress)
            file.flush()
            os.fsync(file.fileno())
        draft.chmod(0o644)
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)
    return count


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, that would survive power loss."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder would survive power loss."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
