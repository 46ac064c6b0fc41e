"""What the SQL journal makes of rows and bytes that have changed under it: nothing is dropped in silence."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from clew.journal import CorruptRecord, RecordedEvent
from clew.journal.contract.subject import CATALOG, append, appended, note
from clew.journal.sql import SqliteJournal, SqlJournal
from tests.journal.object_storage import ObjectStorage

STREAMS = ("order/1", "order/2", "order/3")
LARGE = "x" * 100_000


@pytest.fixture
def storage() -> ObjectStorage:
    """Three streams with five events each; the fourth of each is large."""
    storage = ObjectStorage()
    journal = SqlJournal(storage, clock=iter(range(1, 100)).__next__)
    for n in range(15):
        event = note(LARGE if n // 3 == 3 else f"#{n // 3 + 1}", cause=f"c{n}")
        journal.append(STREAMS[n % 3], [event], expected=n // 3).wait()
    assert journal.verify().clean
    return storage


def change(storage: ObjectStorage, what: str, sequence: int) -> None:
    """Change the event of order/2 at `sequence`, behind the journal's back."""
    storage.db.execute(
        f"UPDATE clew_events SET {what} WHERE sequence = ? AND stream = "  # noqa: S608  (of the test's own constants)
        "(SELECT number FROM clew_streams WHERE name = 'order/2')",
        (sequence,),
    )


def until_corrupt(events: Iterable[RecordedEvent]) -> tuple[list[tuple[str, int]], str]:
    """Return what can be read, its content too, and what is said of the first that cannot."""
    found: list[tuple[str, int]] = []
    with pytest.raises(CorruptRecord) as caught:
        found.extend((event.stream, event.sequence) for event in events if event.canonical)
    return found, str(caught.value)


@pytest.mark.parametrize(
    "what",
    [
        "body = replace(body, 'note', 'nota')",
        "body = NULLIF(x'', x'00')",
        "body = 'text'",
        "cause = CAST('c8' AS BLOB)",
        "cause = x'ff'",
        "cause = 5",
        "recorded_at = recorded_at + 1",
        "recorded_at = 'never'",
        "digest = zeroblob(16)",
        "digest = digest || x'00'",
        "checksum = checksum + 1",
        "chunked = 1",
    ],
)
def test_whatever_of_an_event_has_changed_is_reported_and_harms_no_other_stream(
    what: str, storage: ObjectStorage
) -> None:
    change(storage, what, 3)
    journal = SqlJournal(storage)

    found, error = until_corrupt(journal.read("order/2"))
    assert found == [("order/2", 1), ("order/2", 2)]
    assert "order/2, sequence 3: the event does not match its checksum" in error
    assert "clew verify" in error
    found, error = until_corrupt(journal.read_all())
    assert found[-1] == ("order/1", 3)
    assert "order/2, sequence 3" in error
    with pytest.raises(CorruptRecord, match="order/2, sequence 3"):
        list(journal.pages("order/2", CATALOG))

    assert [len(text) for text in appended(journal, "order/2", after=3)] == [len(LARGE), 2]
    assert len(appended(journal, "order/1")) == 5
    append(journal, "order/2", "more", expected=5)
    report = journal.verify()
    assert report.problems[0].startswith("order/2, sequence 3: the event does not match")
    assert all("order/2" in problem for problem in report.problems)
    assert (report.events, report.streams) == (16, 3)


def test_a_missing_event_is_reported(storage: ObjectStorage) -> None:
    storage.db.execute("DELETE FROM clew_events WHERE position = 8")
    journal = SqlJournal(storage)

    found, error = until_corrupt(journal.read("order/2"))

    assert found == [("order/2", 1), ("order/2", 2)]
    assert "order/2, sequence 3: it is missing" in error
    assert journal.verify().problems == ["order/2: sequence 3 is missing"]


def test_an_event_in_the_place_of_another_is_reported(storage: ObjectStorage) -> None:
    storage.db.execute("DELETE FROM clew_events WHERE position = 8")
    change(storage, "sequence = 3", 2)
    journal = SqlJournal(storage)

    _, error = until_corrupt(journal.read("order/2", after=2))

    assert "order/2, sequence 3: the event does not match its checksum" in error
    assert journal.verify().problems == [
        "order/2: sequence 2 is missing",
        "order/2, sequence 3: the event does not match its checksum",
        "order/2, sequence 4: its digest does not continue the one before",
    ]


@pytest.mark.parametrize(
    ("what", "said"),
    [("DELETE FROM clew_chunks", "is missing"), ("UPDATE clew_chunks SET content = x'00'", "does not match its name")],
)
def test_a_damaged_chunk_is_reported_when_it_is_asked_for(what: str, said: str, storage: ObjectStorage) -> None:
    storage.db.execute(what)
    journal = SqlJournal(storage)

    found, error = until_corrupt(journal.read("order/2"))

    assert found == [("order/2", n) for n in (1, 2, 3)]
    assert "order/2, sequence 4: its chunk " in error
    assert said in error
    assert [event.sequence for event in journal.read("order/2")] == [1, 2, 3, 4, 5]
    report = journal.verify()
    assert [problem[:19] for problem in report.problems] == [f"{stream}, sequence 4" for stream in STREAMS]


def test_events_of_a_stream_that_has_lost_its_name_are_reported(storage: ObjectStorage) -> None:
    storage.db.execute("DELETE FROM clew_streams WHERE name = 'order/2'")
    journal = SqlJournal(storage)

    found, error = until_corrupt(journal.read_all())

    assert found == [("order/1", 1)]
    assert "position 2: its stream, number 2, has no name" in error
    assert journal.verify().problems == ["5 events from position 2 on belong to no stream"]


def damage_text(path: Path, text: bytes) -> None:
    data = path.read_bytes()
    place = data.index(text)
    path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])


def damage_page(path: Path, text: bytes) -> None:
    data = path.read_bytes()
    start = data.index(text) // 4096 * 4096
    path.write_bytes(data[:start] + b"\xff" * 4096 + data[start + 4096 :])


@pytest.mark.parametrize("damage", [damage_text, damage_page])
def test_damage_of_the_file_is_reported_and_never_raised_by_an_examination(
    damage: Callable[[Path, bytes], None], tmp_path: Path
) -> None:
    path = tmp_path / "journal.db"
    with SqliteJournal(path) as journal:
        append(journal, "order/1", *(f"number {n} of many" for n in range(300)))
    damage(path, b"number 200")

    with SqliteJournal(path, readonly=True) as journal:
        with pytest.raises(CorruptRecord):
            list(journal.read("order/1"))
        assert journal.verify().problems
