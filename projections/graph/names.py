"""When two spellings are one name, and which names a text may hold."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from hashlib import sha256

__all__ = ["WORDS_MAX", "candidates", "match_key", "name_id", "normal", "shown"]

WORDS_MAX = 5
"""The words of the longest name that is looked for in a text."""


def normal(name: str) -> str:
    """Return what a name is known by: without regard to case, width, composition and white space (NFKC, case folded).

    Two things that are called the same are one; tell them apart by their names.
    """
    # Folding the case of what was composed may leave what is not; doing it twice ends there.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return " ".join(folded.split())


def shown(name: str) -> str:
    """Return a name as it is shown: as it was spelled, but for white space."""
    return " ".join(name.split())


def match_key(name: str) -> str:
    """Return the words by which a name is found in a text."""
    return " ".join(_words(name))


def candidates(text: str, *, words_max: int = 1000) -> Iterator[str]:
    """Yield what may be a name in a text, the longest first, then in the order of the text; each once."""
    words = _words(text)[:words_max]
    seen: set[str] = set()
    for length in range(min(WORDS_MAX, len(words)), 0, -1):
        for start in range(len(words) - length + 1):
            candidate = " ".join(words[start : start + length])
            if candidate not in seen:
                seen.add(candidate)
                yield candidate


def name_id(*parts: str) -> str:
    """Return a short id for something with these parts, none of which holds a NUL."""
    return sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:16]


def _words(text: str) -> list[str]:
    bare = (_bare(word) for word in normal(text).split(" "))
    return [word for word in bare if word]


def _bare(word: str) -> str:
    """Return a word without the punctuation around it; `c++` and `c#` keep theirs."""
    bare = _trimmed(word)
    for possessive in ("'s", "’s"):
        if bare.endswith(possessive):
            return _trimmed(bare.removesuffix(possessive))
    return bare


def _trimmed(word: str) -> str:
    start, end = 0, len(word)
    while start < end and unicodedata.category(word[start])[0] in "PZ":
        start += 1
    while end > start and unicodedata.category(word[end - 1])[0] in "PZ" and word[end - 1] != "#":
        end -= 1
    return word[start:end]
