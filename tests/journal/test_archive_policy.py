"""A policy takes what is idle, and leaves what may have work."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from clew.journal import CellWrite, Journal, MemoryJournal, RecordedEvent, open_mark
from clew.journal.archive import RetentionPolicy, archive
from clew.journal.contract.subject import append, appended
from tests.journal.deleting import OPENERS, SECOND, ticking


@pytest.fixture(params=OPENERS)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    with OPENERS[request.param](tmp_path / "journal", clock=ticking()) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "archives" / "of this journal"


def policy(**options: Any) -> RetentionPolicy:
    given: dict[str, Any] = {"category": "order", "idle_for": timedelta(seconds=3), **options}
    return RetentionPolicy(**given)


def chosen(journal: Journal, now: int, **options: Any) -> list[str]:
    return [head.stream for head in policy(**options).choose(journal, now=now * SECOND)]


def test_a_policy_takes_what_was_idle_for_long_enough(journal: Journal) -> None:
    for stream in ("order/b", "order/a", "other/1", "order/c", "order/b"):
        append(journal, stream, "x")  # at 100 s, 101 s and so on

    assert chosen(journal, 103) == []
    assert chosen(journal, 104) == ["order/a"]
    assert chosen(journal, 107) == ["order/a", "order/c", "order/b"]
    assert chosen(journal, 107, keep_last=1) == ["order/a", "order/c"]
    assert chosen(journal, 107, keep_last=9) == []
    assert chosen(journal, 107, category="other") == ["other/1"]
    assert chosen(journal, 104, idle_for=timedelta(0)) == ["order/a", "order/c", "order/b"]
    assert chosen(journal, 104, idle_for=timedelta(microseconds=3_000_001)) == []


def test_a_policy_never_takes_a_stream_with_open_work_or_one_that_is_gone(journal: Journal, folder: Path) -> None:
    for stream in ("order/1", "order/2", "order/3"):
        append(journal, stream, "x")
    journal.cells.write([CellWrite(open_mark("order/2"), b"order/2")]).wait()

    report = archive(journal, policy(), folder, now=200 * SECOND)

    assert [one.stream for one in report.archived] == ["order/1", "order/3"]
    assert chosen(journal, 200) == []
    assert archive(journal, policy(), folder, now=200 * SECOND).archived == []
    assert appended(journal, "order/2") == ["x"]


def test_only_the_last_event_of_a_stream_is_read_to_choose_it() -> None:
    class Counting(MemoryJournal):
        handed_out = 0

        def read(self, stream: str, *, after: int = 0) -> Iterator[RecordedEvent]:
            for event in super().read(stream, after=after):
                self.handed_out += 1
                yield event

    journal = Counting(clock=ticking())
    for n in range(3):
        append(journal, f"order/{n}", *["x"] * 500)

    assert len(chosen(journal, 9999)) == 3
    assert journal.handed_out == 3


def test_a_stream_that_grew_since_the_policy_chose_it_is_left_alone(folder: Path) -> None:
    class GrowsWhenChosen(MemoryJournal):
        """A journal whose second stream grows as the last event of the first one is read."""

        grown = False

        def read(self, stream: str, *, after: int = 0) -> Iterator[RecordedEvent]:
            if stream == "order/2" and not self.grown:
                self.grown = True
                append(self, "order/1", "more")
            return super().read(stream, after=after)

    journal = GrowsWhenChosen(clock=ticking())
    append(journal, "order/1", "a")
    append(journal, "order/2", "b")

    report = archive(journal, policy(), folder, now=9999 * SECOND)

    assert [one.stream for one in report.archived] == ["order/2"]
    assert list(report.left) == ["order/1"]
    assert [path.name for path in folder.iterdir()] == [Path(report.archived[0].file).name]


def test_a_policy_is_asked_as_of_a_time(folder: Path) -> None:
    with pytest.raises(ValueError, match="give now="):
        archive(MemoryJournal(), policy(), folder)


@pytest.mark.parametrize("wrong", [{"idle_for": timedelta(seconds=-1)}, {"keep_last": -1}])
def test_a_policy_that_cannot_be_meant_is_refused_at_the_call(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="is not below 0"):
        policy(**wrong)
