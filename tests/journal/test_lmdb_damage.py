"""What the LMDB journal makes of bytes that have changed under it: nothing is dropped in silence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from struct import pack_into, unpack_from
from zlib import crc32

import lmdb
import pytest

from clew.journal import CorruptRecord, ForeignJournal, WrongExpectedSequence
from clew.journal.contract.subject import append, appended, note
from clew.journal.lmdb import LmdbJournal

STREAMS = ("order/1", "order/2", "order/3")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal of three streams with five events each; every event lies in a commit of its own."""
    with LmdbJournal(tmp_path) as journal:
        for n in range(15):
            append(journal, STREAMS[n % 3], f"{STREAMS[n % 3]} #{n // 3 + 1}")
        assert journal.verify().clean
    return tmp_path


def flip(path: Path, text: bytes, at: int = 0) -> None:
    """Flip a bit of the data file where it says `text`."""
    data = bytearray((path / "data.mdb").read_bytes())
    places = [place for place in range(len(data)) if data.startswith(text, place)]
    assert places
    for place in places:
        # Older versions of a page may lie about; whichever is the live one, it is hit.
        data[place + at] ^= 1
    (path / "data.mdb").write_bytes(data)


def change_log(path: Path, change: Callable[[lmdb.Transaction[bytes], bytes, bytearray], None], position: int) -> None:
    """Change the commit at `position` with LMDB's own means."""
    with lmdb.open(str(path), max_dbs=9, lib_version=0) as env:
        log = env.open_db(b"log", create=False)
        with env.begin(write=True, db=log) as txn:
            key = position.to_bytes(8, "big")
            change(txn, key, bytearray(txn.get(key) or b""))


def until_corrupt(journal: LmdbJournal, stream: str) -> tuple[list[int], str]:
    """Return the sequences that can be read, and what is said of the first that cannot."""
    sequences: list[int] = []
    with pytest.raises(CorruptRecord) as caught:
        sequences.extend(event.sequence for event in journal.read(stream))
    return sequences, str(caught.value)


def test_a_flipped_bit_is_reported_with_stream_and_sequence_and_harms_no_other_stream(path: Path) -> None:
    flip(path, b"order/2 #3")

    with LmdbJournal(path) as journal:
        sequences, error = until_corrupt(journal, "order/2")
        assert sequences == [1, 2]
        assert "order/2, sequence 3: the event does not match its checksum" in error
        assert "clew verify" in error
        assert [text[-1] for text in appended(journal, "order/2", after=3)] == ["4", "5"]
        assert len(appended(journal, "order/1")) == 5
        append(journal, "order/1", "more", expected=5)
        append(journal, "order/2", "more", expected=5)

        report = journal.verify()
        assert not report.clean
        assert [problem[: len("order/2, sequence 3")] for problem in report.problems] == ["order/2, sequence 3"] * len(
            report.problems
        )
        assert (report.events, report.streams) == (17, 3)


def test_reading_everything_stops_at_the_damage_and_says_where(path: Path) -> None:
    flip(path, b"order/2 #3")

    with LmdbJournal(path, readonly=True) as journal:
        positions: list[int] = []
        with pytest.raises(CorruptRecord) as caught:
            positions.extend(event.position for event in journal.read_all())

        assert positions == [1, 2, 3, 4, 5, 6, 7]
        assert "position 8: order/2, sequence 3" in str(caught.value)
        assert [event.position for event in journal.read_all(after=8)] == [9, 10, 11, 12, 13, 14, 15]


def test_nothing_is_appended_behind_a_last_event_that_is_damaged(path: Path) -> None:
    flip(path, b"order/2 #5")

    with LmdbJournal(path) as journal:
        for expected in (4, 5):
            with pytest.raises(CorruptRecord, match="order/2, sequence 5: the last event does not match"):
                append(journal, "order/2", "more", expected=expected)
        append(journal, "order/1", "more", expected=5)
        with pytest.raises(WrongExpectedSequence):
            append(journal, "order/1", "more", expected=5)


def lose(txn: lmdb.Transaction[bytes], key: bytes, _: bytearray) -> None:
    txn.delete(key)


def cut(txn: lmdb.Transaction[bytes], key: bytes, value: bytearray) -> None:
    txn.put(key, bytes(value[:-3]))


def cut_to_the_head(txn: lmdb.Transaction[bytes], key: bytes, value: bytearray) -> None:
    txn.put(key, bytes(value[:5]))


def change_the_magic(txn: lmdb.Transaction[bytes], key: bytes, value: bytearray) -> None:
    value[0] ^= 1
    txn.put(key, bytes(value))


def change_the_count(txn: lmdb.Transaction[bytes], key: bytes, value: bytearray) -> None:
    value[4] += 1
    txn.put(key, bytes(value))


def change_the_length(txn: lmdb.Transaction[bytes], key: bytes, value: bytearray) -> None:
    value[12 + 1] ^= 1
    txn.put(key, bytes(value))


def change_the_stream(txn: lmdb.Transaction[bytes], key: bytes, value: bytearray) -> None:
    value[16] = 77
    txn.put(key, bytes(value))


def add_bytes(txn: lmdb.Transaction[bytes], key: bytes, value: bytearray) -> None:
    txn.put(key, bytes(value) + b"more")


@pytest.mark.parametrize(
    "change",
    [lose, cut, cut_to_the_head, change_the_magic, change_the_count, change_the_length, change_the_stream, add_bytes],
)
def test_a_log_that_lacks_something_is_opened_for_reading_only(
    change: Callable[[lmdb.Transaction[bytes], bytes, bytearray], None], path: Path
) -> None:
    change_log(path, change, 8)

    with pytest.raises(CorruptRecord, match="readonly=True opens it for reading"):
        LmdbJournal(path)
    with LmdbJournal(path, readonly=True) as journal:
        assert journal.verify().problems
        assert len(appended(journal, "order/1")) == 5
        assert len(appended(journal, "order/3")) == 5
        assert [event.position for event in journal.read_all(after=8)][-1] == 15


def test_an_event_that_is_gone_is_missed_by_name(path: Path) -> None:
    change_log(path, lose, 8)

    with LmdbJournal(path, readonly=True) as journal:
        sequences, error = until_corrupt(journal, "order/2")
        assert sequences == [1, 2]
        assert "order/2, sequence 3: the event is missing from the log" in error
        assert journal.head("order/2").sequence == 5
        problems = "\n".join(journal.verify().problems)
        assert "positions 8 to 8 are missing" in problems
        assert "order/2, sequence 4 (position 11): follows sequence 2" in problems


def test_names_that_do_not_match_their_checksum_are_not_guessed(path: Path) -> None:
    flip(path, b"\x07\x00order/3", at=3)

    with pytest.raises(CorruptRecord, match="names of streams do not match"):
        LmdbJournal(path)
    with LmdbJournal(path, readonly=True) as journal:
        assert [head.stream for head in journal.streams()] == ["order/1", "order/2"]
        assert any("the stream has no name" in problem for problem in journal.verify().problems)


def test_verify_finds_an_event_that_was_changed_with_its_checksum(path: Path) -> None:
    def forge(txn: lmdb.Transaction[bytes], key: bytes, value: bytearray) -> None:
        # Only the chain of digests knows: the checksum is made to fit.
        place = value.index(b"order/2 #3")
        value[place : place + 10] = b"order/2 #9"
        pack_into("<I", value, 8, crc32(value[12:]))
        txn.put(key, bytes(value))

    change_log(path, forge, 8)

    with LmdbJournal(path) as journal:
        assert appended(journal, "order/2")[2] == "order/2 #9"
        assert journal.verify().problems == [
            "order/2, sequence 3 (position 8): its digest does not continue the one before"
        ]


def test_verify_finds_a_time_that_falls(path: Path) -> None:
    def set_back(txn: lmdb.Transaction[bytes], key: bytes, value: bytearray) -> None:
        (time,) = unpack_from("<Q", value, 28)
        pack_into("<Q", value, 28, time - 10**18)
        pack_into("<I", value, 8, crc32(value[12:]))
        txn.put(key, bytes(value))

    change_log(path, set_back, 8)

    with LmdbJournal(path) as journal:
        assert journal.verify().problems == ["order/2, sequence 3 (position 8): recorded before sequence 2"]


def test_verify_lists_a_bounded_number_of_problems(tmp_path: Path) -> None:
    with LmdbJournal(tmp_path, seal_after=None) as journal:
        journal.append("order/1", [note("the text")] * 1500, expected=0).wait()
    flip(tmp_path, b"the text")

    with LmdbJournal(tmp_path, readonly=True) as journal:
        report = journal.verify()

    assert (report.events, len(report.problems)) == (1500, 1000)
    assert report.unlisted >= 500


def test_a_page_that_lmdb_refuses_is_reported_as_damage(tmp_path: Path) -> None:
    with LmdbJournal(tmp_path) as journal:
        for n in range(300):
            append(journal, f"order/{n}", "x" * 300)
    data = bytearray((tmp_path / "data.mdb").read_bytes())
    # The heads of all pages but the first two, which say what the file is, and the newest roots.
    for page in range(4096 * 4, len(data) - 4096 * 12, 4096):
        data[page : page + 16] = b"\xff" * 16
    (tmp_path / "data.mdb").write_bytes(data)

    for readonly in (True, False):
        with pytest.raises((CorruptRecord, ForeignJournal)):
            LmdbJournal(tmp_path, readonly=readonly)
