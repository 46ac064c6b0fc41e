"""Histories of many streams: in their order, in bounded memory, compressed, and told how far they are."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator
from io import BytesIO
from itertools import count, islice
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.journal import (
    EVENT_BYTES_MAX,
    InvalidHistory,
    Journal,
    MemoryJournal,
    RecordedEvent,
    WrongExpectedSequence,
    import_history,
    iter_history,
    read_history,
    save_history,
    write_history,
)
from clew.journal.contract.subject import append, appended, note
from clew.journal.lmdb import LmdbJournal
from tests.journal.deleting import in_sqlite
from tests.journal.histories import filled, written

DURABLE: dict[str, Any] = {"lmdb": LmdbJournal, "sqlite": in_sqlite}
"""The journals on disk that histories go through."""


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("durable", ["", *DURABLE])
def test_an_import_keeps_the_order_over_all_streams(durable: str, compress: bool, tmp_path: Path) -> None:
    source = filled(events=700)

    with DURABLE[durable](tmp_path / "journal") if durable else MemoryJournal() as journal:
        gained = import_history(journal, written(source.read_all(), compress=compress))

        assert gained == {f"order/{n}": len(appended(source, f"order/{n}")) for n in range(3)}
        assert written(journal.read_all()).getvalue() == written(source.read_all()).getvalue()


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["order/1", "order/ä", "other/1"]),
        st.lists(st.text(max_size=6) | st.sampled_from(["x" * 70_000]), min_size=1, max_size=4),
        st.text(st.characters(blacklist_categories=["Cs"]), max_size=4),
    ),
    max_size=8,
)


@pytest.mark.property
@pytest.mark.parametrize("durable", ["", *DURABLE])
def test_what_goes_out_and_in_and_out_again_is_the_same_bytes(durable: str, tmp_path_factory: Any) -> None:
    @settings(max_examples=25 if durable else 100, deadline=None)
    @given(told=EVENTS, category=st.sampled_from([None, "order"]), compress=st.booleans(), cut=st.integers(0, 20))
    def holds(told: list[tuple[str, list[str], str]], category: str | None, compress: bool, cut: int) -> None:
        source = MemoryJournal(clock=count(5).__next__)
        for stream, texts, cause in told:
            new = [note(text, cause=cause) for text in texts]
            source.append(stream, new, expected=source.head(stream).sequence).wait()
        whole = written(source.read_all(category=category), compress=compress)
        part = written(islice(source.read_all(category=category), cut))

        path = tmp_path_factory.mktemp("journal")
        with DURABLE[durable](path) if durable else MemoryJournal() as journal:
            # One that was interrupted, then two that were not.
            import_history(journal, part)
            import_history(journal, whole)
            assert not any(import_history(journal, BytesIO(whole.getvalue())).values())

            again = written(journal.read_all(category=category), compress=compress)
            assert again.getvalue() == whole.getvalue()
            assert list(journal.streams()) == list(source.streams(category))

    holds()


def test_a_category_is_taken_out_alone() -> None:
    journal = filled()
    append(journal, "other/1", "x")

    assert {event.stream for event in iter_history(written(journal.read_all(category="other")))} == {"other/1"}


def test_a_history_is_read_an_event_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    save_history(filled().read_all(), path)
    with path.open("ab") as file:
        file.write(b"not an event\n")

    events = iter_history(path)

    assert [next(events).sequence for _ in range(12)] == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    with pytest.raises(InvalidHistory, match="line 14"):
        next(events)


def test_an_import_has_a_batch_under_way_at_the_most_however_the_streams_alternate() -> None:
    class Slow(MemoryJournal):
        """A journal that makes nothing durable before somebody waits for it."""

        most = 0

        def append(self, *args: Any, **options: Any) -> Any:
            commit = super().append(*args, **options)
            self.most = max(self.most, len(self._held))
            if len(self._held) == 500:
                self.flush()
            return commit

    journal = Slow(hold=True)
    source = filled(events=1500)

    import_history(journal, written(source.read_all()))

    assert journal.most == 500
    assert list(journal.streams()) == list(source.streams())


def test_an_event_that_is_larger_than_a_batch_is_imported_alone() -> None:
    source, journal = filled(events=2), MemoryJournal()
    for text in ("x" * 9_000_000, "y" * 9_000_000, "z"):
        append(source, "order/0", text)

    import_history(journal, written(source.read_all(), compress=True))

    assert list(journal.streams()) == list(source.streams())


@pytest.mark.parametrize("compress", [False, True])
def test_progress_is_told_in_events_and_bytes(compress: bool) -> None:
    source, out, back = filled(events=2500), list[tuple[int, int]](), list[tuple[int, int]]()

    def told_to(what: list[tuple[int, int]]) -> Callable[[int, int], None]:
        return lambda events, size_bytes: what.append((events, size_bytes))

    file = written(source.read_all(), compress=compress, progress=told_to(out))
    size_bytes = len(gzip.decompress(file.getvalue()) if compress else file.getvalue())

    import_history(MemoryJournal(), file, progress=told_to(back))

    assert [events for events, _ in out] == [1000, 2000, 2500]
    assert [events for events, _ in back] == [1000, 2000, 2500]
    for told in (out, back):
        assert told[-1][1] == size_bytes
        assert [size for _, size in told] == sorted(size for _, size in told)


def test_a_name_that_ends_in_gz_is_compressed_and_the_first_bytes_tell(tmp_path: Path) -> None:
    source, plain, zipped = filled(), tmp_path / "a.jsonl", tmp_path / "a.jsonl.gz"
    for path in (plain, zipped):
        assert save_history(source.read_all(), path) == 12
    with (tmp_path / "b.gz").open("wb") as file:
        write_history(source.read_all(), file)

    assert plain.read_bytes() == gzip.decompress(zipped.read_bytes()) == written(source.read_all()).getvalue()
    assert zipped.read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert len(zipped.read_bytes()) < len(plain.read_bytes())
    renamed = zipped.rename(tmp_path / "plain-by-name.jsonl")
    assert read_history(renamed) == list(source.read_all())
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("cut", [3, 40, -8])
def test_a_compressed_history_that_is_cut_or_damaged_is_refused_and_nothing_of_it_imported(cut: int) -> None:
    file = written(filled(events=300).read_all(), compress=True).getvalue()
    journal = MemoryJournal()
    for wrong in (file[:cut], file[:50] + bytes(4) + file[54:], file[:-8] + bytes(8)):
        with pytest.raises(InvalidHistory) as caught:
            import_history(journal, BytesIO(wrong))
        assert "history, line" in str(caught.value)
    assert list(journal.streams()) == []


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory() -> None:
    start = written(iter(())).getvalue()
    endless = BytesIO(gzip.compress(start + b" " * (EVENT_BYTES_MAX + 200_000)))

    with pytest.raises(InvalidHistory, match="line 2: longer than"):
        read_history(endless)


class Pipe(io.RawIOBase):
    """A history that can be read once."""

    def __init__(self, content: bytes) -> None:
        self._file = BytesIO(content)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._file.readinto(buffer)


def test_a_history_from_a_pipe_is_looked_at_as_a_whole_first() -> None:
    source = filled()
    content = written(source.read_all(), compress=True).getvalue()
    good, bad = (cast("BinaryIO", Pipe(text)) for text in (content, content[:-8]))
    journal = MemoryJournal()

    with pytest.raises(InvalidHistory):
        import_history(journal, bad)
    assert list(journal.streams()) == []
    import_history(journal, good)
    assert list(journal.streams()) == list(source.streams())


def test_an_import_that_loses_a_race_says_so_and_can_be_repeated() -> None:
    class Raced(MemoryJournal):
        raced = False

        def append(self, stream: str, events: Any, **options: Any) -> Any:
            if not self.raced:
                self.raced = True
                append(cast("Journal", self), stream, "first")
            return super().append(stream, events, **options)

    with pytest.raises(WrongExpectedSequence):
        import_history(Raced(), written(filled().read_all()))


def test_a_history_that_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(b"before")

    def fails() -> Iterator[RecordedEvent]:
        yield from filled().read_all()
        raise OSError("the disk")

    with pytest.raises(OSError, match="the disk"):
        save_history(fails(), path)

    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]
