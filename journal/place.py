"""Where a journal on disk lies: on a file system that can hold it, and under a name that survives power loss."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Final

__all__ = ["MOUNTS", "NetworkFilesystemWarning", "sync_folder", "warn_of_network"]

MOUNTS: Final = Path("/proc/self/mounts")

_NETWORK: Final = frozenset(
    {"nfs", "nfs3", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "9p", "afs", "ceph", "fuse.sshfs"}
)


class NetworkFilesystemWarning(UserWarning):
    """The journal lies on a network file system, whose locks and syncs may not hold what a journal needs."""


def warn_of_network(path: Path, *, mounts: Path = MOUNTS, stacklevel: int = 4) -> None:
    """Warn about a place whose locks may not exclude and whose syncs may not last."""
    kind = _filesystem(path, mounts)
    if kind in _NETWORK:
        warnings.warn(
            f"{path}: on a network file system ({kind}), where a lock may not exclude and a sync may not last. "
            "Keep the journal on a local disk.",
            NetworkFilesystemWarning,
            stacklevel=stacklevel,
        )


def sync_folder(path: Path) -> None:
    """Make the names in a directory survive power loss."""
    if sys.platform == "win32":
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _filesystem(path: Path, mounts: Path) -> str:
    """Return the type of the file system that holds `path`, where the system tells."""
    try:
        lines = mounts.read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    if not any(line.split(" ")[2] in _NETWORK for line in lines):
        return ""
    real = path.resolve()
    kind, depth = "", -1
    for line in lines:
        _, place, found, *_ = line.split(" ")
        # Spaces in a mount point are written as \040.
        point = Path(place.replace("\\040", " "))
        if len(point.parts) > depth and real.is_relative_to(point):
            kind, depth = found, len(point.parts)
    return kind
