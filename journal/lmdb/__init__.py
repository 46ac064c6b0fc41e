"""The journal on one machine, kept in LMDB."""

from .files import NetworkFilesystemWarning
from .journal import LmdbJournal, Stats
from .report import Report

__all__ = ["LmdbJournal", "NetworkFilesystemWarning", "Report", "Stats"]
