"""Hot backups: a consistent, compact copy beside a journal that goes on, and the way back."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from ..errors import ForeignJournal
from ..place import sync_folder
from .directory import probe, refusing
from .environment import Environment
from .files import DATA_FILE, check_files

__all__ = ["back_up", "restore"]


def back_up(env: Environment, folder: Path) -> Path:
    """Write a copy of the journal into `folder`; see `LmdbJournal.backup`."""
    if folder.exists():
        raise FileExistsError(f"{folder}: there is something already; a backup goes into a folder of its own")
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        env.copy(scratch)
        _sync(scratch / DATA_FILE)
        scratch.chmod(0o755)
        scratch.rename(folder)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    sync_folder(folder.parent)
    return folder


def restore(backup: Path, path: Path) -> None:
    """Put a backup in the place `path`, where no journal may be; the backup stays as it is.

    Waits until it is durable. The copy is made beside and moved into place, so a crash leaves all of it or nothing.

    Raises:
        FileExistsError: there is a journal at `path`. Move it away first: nothing is ever overwritten.
        ForeignJournal: what is at `backup` is not a journal; NewerJournal: a newer version wrote it.
        OSError: it could not be read or written.
    """
    if not (backup / DATA_FILE).exists():
        raise ForeignJournal(path=str(backup), reason="there is no backup of a journal here")
    with refusing(backup):
        check_files(backup)
        probe(backup)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise FileExistsError(f"{path}: there is something already; move it away, or restore to another place")
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        shutil.copyfile(backup / DATA_FILE, scratch / DATA_FILE)
        _sync(scratch / DATA_FILE)
        scratch.chmod(0o755)
        if path.exists():
            path.rmdir()
        scratch.rename(path)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    sync_folder(path.parent)


def _sync(file: Path) -> None:
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
    sync_folder(file.parent)
