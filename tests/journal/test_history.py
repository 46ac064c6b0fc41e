"""Histories: what goes out comes in, and what was changed on the way is refused."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from clew.journal import (
    GENESIS,
    CellWrite,
    InvalidHistory,
    MemoryJournal,
    NewEvent,
    WrongExpectedSequence,
    chain,
    import_history,
    open_mark,
    read_history,
    write_history,
)
from clew.journal.contract.subject import append, appended, note
from clew.journal.lmdb import LmdbJournal


def filled(*, events: int = 6) -> MemoryJournal:
    journal = MemoryJournal(clock=iter(range(100, 10_000)).__next__)
    for n in range(events):
        new = note(f"text {n} é", cause=f"command-{n}")
        journal.append(f"order/{n % 2}", [new], expected=n // 2).wait()
    return journal


def history(journal: MemoryJournal, *, after: int = 0) -> BytesIO:
    file = BytesIO()
    write_history(journal.read_all(after=after), file)
    file.seek(0)
    return file


def test_a_history_is_these_lines_for_ever() -> None:
    journal = MemoryJournal(clock=lambda: 1_700_000_000_000_000_000)
    journal.append("order/ä", [NewEvent(b'{"event":"a.b","version":1,"data":{}}', "c1")], expected=0)

    file = history(journal)

    assert file.getvalue().decode() == (
        '{"clew_history":1}\n'
        '{"stream":"order/ä","sequence":1,"recorded_at":1700000000000000000,"cause":"c1",'
        '"digest":"40be6fff609fcf86bb902b765fb582cb","record":{"event":"a.b","version":1,"data":{}}}\n'
    )
    assert read_history(file) == list(journal.read_all())


def test_what_is_written_is_read_with_its_times_causes_and_digests(tmp_path: Path) -> None:
    journal = filled()
    file = tmp_path / "history.jsonl"
    with file.open("wb") as out:
        assert write_history(journal.read_all(), out) == 6

    assert read_history(file) == list(journal.read_all())
    assert read_history(str(file)) == list(journal.read_all())


@pytest.mark.parametrize("durable", [False, True])
def test_an_import_continues_what_is_there_in_part(durable: bool, tmp_path: Path) -> None:
    source = filled(events=20)
    with LmdbJournal(tmp_path) if durable else MemoryJournal() as journal:
        # As an import leaves it that was interrupted: one stream whole, one begun.
        for stream, count in (("order/0", 10), ("order/1", 3)):
            part = [NewEvent(e.canonical, e.cause, e.recorded_at) for e in source.read(stream)][:count]
            journal.append(stream, part, expected=0).wait()

        assert import_history(journal, history(source)) == {"order/0": 0, "order/1": 7}
        assert import_history(journal, history(source)) == {"order/0": 0, "order/1": 0}

        for stream in ("order/0", "order/1"):
            found = [(e.sequence, e.recorded_at, e.cause, e.digest, e.canonical) for e in journal.read(stream)]
            assert found == [(e.sequence, e.recorded_at, e.cause, e.digest, e.canonical) for e in source.read(stream)]
        # Every stream that gained something has its mark, so that somebody looks at it.
        assert journal.cells.get(open_mark("order/1")) == b"order/1"


def test_a_stream_with_more_than_the_history_is_left_alone() -> None:
    source = filled()
    journal = MemoryJournal()
    import_history(journal, history(source))
    append(journal, "order/0", "more")

    assert import_history(journal, history(source)) == {"order/0": 0, "order/1": 0}
    assert len(appended(journal, "order/0")) == 4


def test_another_version_of_a_stream_is_refused_and_nothing_of_any_stream_is_imported() -> None:
    journal = MemoryJournal()
    append(journal, "order/1", "something else")

    with pytest.raises(WrongExpectedSequence) as caught:
        import_history(journal, history(filled()))

    assert caught.value.stream == "order/1"
    assert appended(journal, "order/0") == []


def test_a_history_that_begins_in_the_middle_continues_its_own_stream_only() -> None:
    source = filled(events=8)
    own, other, empty = MemoryJournal(), MemoryJournal(), MemoryJournal()
    import_history(own, BytesIO(b"".join(history(source).readlines()[:5])))
    for n in range(4):
        append(other, f"order/{n % 2}", f"something else {n}")
    late = b"".join(line for n, line in enumerate(history(source)) if not 1 <= n <= 4)

    assert import_history(own, BytesIO(late)) == {"order/0": 2, "order/1": 2}
    assert list(own.streams()) == list(source.streams())
    for wrong in (other, empty):
        with pytest.raises(WrongExpectedSequence):
            import_history(wrong, BytesIO(late))
    assert len(appended(other, "order/0")) == 2


def test_large_events_are_imported_in_appends_of_bounded_size(tmp_path: Path) -> None:
    source = MemoryJournal()
    source.append("order/1", [note("x" * 3_000_000)] * 5, expected=0)
    seen: list[int] = []
    with LmdbJournal(tmp_path) as journal:
        journal.watch(lambda: seen.append(journal.head("order/1").sequence), stream="order/1")
        assert import_history(journal, history(source)) == {"order/1": 5}
        assert journal.head("order/1").digest == source.head("order/1").digest

    assert seen[0] < 5


def replace(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    def change(text: bytes) -> bytes:
        assert old in text
        return text.replace(old, new, 1)

    return change


def without_line(number: int) -> Callable[[bytes], bytes]:
    return lambda text: b"".join(line for n, line in enumerate(text.splitlines(keepends=True), 1) if n != number)


CHANGES: dict[str, tuple[Callable[[bytes], bytes], int, str]] = {
    "emptied": (lambda _: b"", 1, "the file is empty"),
    "another file": (lambda _: b"notes\n", 1, "not a clew history"),
    "newer": (replace(b'"clew_history":1', b'"clew_history":9'), 1, "written by a newer version (history format 9"),
    "edited": (replace(b"text 2", b"text 9"), 4, "order/0, sequence 2: the digest does not match"),
    "spaced": (replace(b'{"text":"text 2', b'{ "text":"text 2'), 4, "so the event was changed"),
    "a line lost": (without_line(4), 5, "order/0: sequence 3 follows 1"),
    "a line twice": (lambda text: text + text.splitlines(keepends=True)[1], 8, "order/0: sequence 1 follows 3"),
    "cut": (lambda text: text[:-30], 7, "not an event of a history"),
    "sequence 0": (replace(b'"sequence":1', b'"sequence":0'), 2, "not an event of a history"),
    "sequence -1": (replace(b'"sequence":1', b'"sequence":-1'), 2, "not an event of a history"),
    "before time": (replace(b'"recorded_at":', b'"recorded_at":-'), 2, "not an event of a history"),
    "no digest": (replace(b'"digest":"', b'"digest":"zz'), 2, "not an event of a history"),
    "no stream": (replace(b'"stream":"order/0"', b'"stream":"Order 0"'), 2, "is not a valid name"),
    "no cause": (replace(b'"cause":"command-0",', b""), 2, "not an event of a history"),
}


@pytest.mark.parametrize(("change", "line", "reason"), CHANGES.values(), ids=CHANGES)
def test_a_history_that_was_changed_is_refused_with_its_first_bad_line(
    change: Callable[[bytes], bytes], line: int, reason: str, tmp_path: Path
) -> None:
    file = tmp_path / "history.jsonl"
    file.write_bytes(change(history(filled()).getvalue()))
    journal = MemoryJournal()

    with pytest.raises(InvalidHistory) as caught:
        import_history(journal, file)

    assert caught.value.line == line
    assert caught.value.source == str(file)
    assert reason in str(caught.value)
    assert list(journal.streams()) == []


def test_an_empty_line_at_the_end_does_no_harm() -> None:
    source = filled()

    assert read_history(BytesIO(history(source).getvalue() + b"\n\n")) == list(source.read_all())


def test_a_file_that_cannot_be_read_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_history(tmp_path / "nothing.jsonl")


def test_the_mark_of_open_work_fits_a_cell_whatever_the_stream_is_called() -> None:
    longest = "order/" + "é" * 1021
    journal = MemoryJournal()

    for stream in ("order/1", longest, longest[:-1] + "x"):
        journal.cells.write([CellWrite(open_mark(stream), stream.encode())]).wait()

    assert [value.decode() for _, value in journal.cells.scan(b"open/")].count(longest) == 1
    assert len(list(journal.cells.scan(b"open/"))) == 3
    assert chain(GENESIS, b"") != GENESIS
