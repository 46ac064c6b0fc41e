"""Where a long text is cut."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from clew.actors.agent.artifact_text import end_at

CLUSTERS = [
    "a",
    " ",
    "é",
    "e\u0301",
    "\r\n",
    "🇳🇴",
    "🇩🇪",
    "👩‍👩‍👧",
    "👍🏽",
    "☺️",
    "न\u093fम",
    "\u1100\u1161",
    "🏴\U000e0067\U000e0062\U000e007f",
]


@given(st.lists(st.sampled_from(CLUSTERS), min_size=2, max_size=60), st.data())
def test_a_text_is_never_cut_within_what_a_reader_sees_as_one_character(
    clusters: list[str], data: st.DataObject
) -> None:
    text = "".join(clusters)
    start = 0
    pieces: list[str] = []
    while start < len(text):
        end = end_at(text, start, start + data.draw(st.integers(8, 16)))
        pieces.append(text[start:end])
        start = end

    assert "".join(pieces) == text
    for before, after in pairwise(pieces):
        assert not before.endswith(("\r", "\u200d")) or not after.startswith(("\n", "👩", "👧"))
        assert not unicodedata.category(after[0]).startswith("M")
        assert after[0] not in "\u200d\U0001f3fd\U000e0067\U000e0062\U000e007f"
        assert _flags(before) % 2 == 0


def _flags(text: str) -> int:
    """How many halves of flags a text ends with."""
    count = 0
    while count < len(text) and "\U0001f1e6" <= text[-1 - count] <= "\U0001f1ff":
        count += 1
    return count


def test_a_cut_goes_on_where_a_cluster_never_ends() -> None:
    assert end_at("e" + "\u0301" * 500, 0, 100) == 100
    assert end_at("abc", 1, 1) == 2
