"""How many bytes does an event take, before and after it is sealed?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from .journal_dataset import Built, Compacted, Datasets, Shape
from .journal_section import Section

__all__ = ["QUESTION", "measure_sizes"]

QUESTION: Final = "How many bytes does an event take, before and after it is sealed?"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One journal; sizes are bytes per event. Used is what lies in pages that are not free.

    The file does not become smaller by itself; shrunk is what `shrink` leaves of it.
    """

    streams: int
    events: int
    canonical: float
    log_used: float
    log_file: float
    sealed_used: float
    sealed_file: float
    shrunk_file: float
    canonical_to_sealed: float
    seal_per_s: float


def measure_sizes(datasets: Datasets, shapes: Sequence[Shape]) -> Section[Row]:
    """Build and seal a journal of each shape."""
    return Section(QUESTION, [_row(*datasets.compacted(shape)) for shape in shapes])


def _row(built: Built, compacted: Compacted) -> Row:
    events, log, sealed = built.events, built.footprint, compacted.footprint
    return Row(
        streams=built.streams,
        events=events,
        canonical=built.canonical_bytes / events,
        log_used=log.used_bytes / events,
        log_file=log.file_bytes / events,
        sealed_used=sealed.used_bytes / events,
        sealed_file=sealed.file_bytes / events,
        shrunk_file=compacted.shrunk_bytes / events,
        canonical_to_sealed=built.canonical_bytes / sealed.used_bytes,
        seal_per_s=events / compacted.seconds,
    )
