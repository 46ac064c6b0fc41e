"""What happened in an owner's runs, in a sentence each: a table over all memories, the newest last."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from typing import Final, Protocol, TypeAlias, cast

import msgspec

from ..journal import Catalog, RecordedEvent
from ..journal.facts.memory import (
    EpisodeRepeated,
    EpisodesMerged,
    EpisodeTold,
    MemoryNoted,
    MemoryPruned,
    SourcesUndone,
)
from .graph.rows import owner_id
from .rows import RowProjection, Rows

__all__ = ["RECALL_MAX", "Episode", "EpisodeRow", "Episodes", "episodes"]

RECALL_MAX: Final = 20
"""How many episodes are recalled at the most."""


class Episode(msgspec.Struct, tag="episode"):
    """Something that happened: `kind` is `run`, `note` (a tool had it remembered) or `merged` (several became one).

    `seen` counts how often just this was told, last at `last_at`; `of` are the sources that were merged into it.
    `gone_at` is when it became part of another one itself; it is kept for who looks back.
    """

    source: str
    text: str
    kind: str
    scope: str | None
    at: int
    seen: int = 1
    last_at: int = 0
    of: list[str] = []
    gone_at: int | None = None


class EpisodePlace(msgspec.Struct, tag="place"):
    """Where the episode of a source is."""

    key: str


class EpisodesOf(msgspec.Struct, tag="owner"):
    """Whose episodes they are, and the last event that counts."""

    owner: str
    sequence: int = 0
    count: int = 0


EpisodeRow: TypeAlias = Episode | EpisodePlace | EpisodesOf

EpisodeEvent: TypeAlias = MemoryNoted | EpisodeTold | EpisodeRepeated | EpisodesMerged | MemoryPruned | SourcesUndone


class _Read(Protocol):
    def get(self, key: str) -> EpisodeRow | None:
        """See `Rows.get`."""
        ...

    def scan(self, prefix: str = "", *, after: str = "") -> Iterator[tuple[str, EpisodeRow]]:
        """See `Rows.scan`."""
        ...


class Episodes:
    """The episodes of one owner. `rows` are `LiveRows(journal, episodes)`, or `fold_rows(...)` for all up to now.

    With a `scope`, an agent's own episodes are recalled beside the owner's; without one, the owner's alone. With `at`,
    those that were kept at that time, in nanoseconds since the epoch, UTC.
    """

    def __init__(self, rows: _Read, owner: str, *, scope: str | None = None, at: int | None = None) -> None:
        self._rows = rows
        self._owner = owner
        self._scopes = (None, scope)
        self._at = at

    def recall(self, count: int = 5) -> list[Episode]:
        """Return what happened last, at most `count` (up to 20), the oldest first; each says something else."""
        return list(islice(self._newest(), max(0, min(count, RECALL_MAX))))[::-1]

    def all(self) -> list[Episode]:
        """Return all episodes that are kept, the oldest first."""
        return list(self._newest())[::-1]

    def digest(self) -> str:
        """Return a digest of all that is kept of the owner: the same after a rebuild from nothing."""
        hashed = sha256()
        for letter in "eop":
            for key, row in self._rows.scan(f"{letter}/{owner_id(self._owner)}"):
                hashed.update(key.encode() + b"\0" + msgspec.json.encode(row, order="deterministic") + b"\n")
        return hashed.hexdigest()[:32]

    def _newest(self) -> Iterator[Episode]:
        for _, row in self._rows.scan(f"e/{owner_id(self._owner)}/"):
            if isinstance(row, Episode) and row.scope in self._scopes and self._is_kept(row):
                yield row

    def _is_kept(self, episode: Episode) -> bool:
        if self._at is None:
            return episode.gone_at is None
        return episode.at <= self._at and (episode.gone_at is None or self._at < episode.gone_at)


class _Book:
    """The rows of one owner, to be changed by one event."""

    def __init__(self, rows: Rows[EpisodeRow], recorded: RecordedEvent) -> None:
        owner = recorded.stream.partition("/")[2]
        self._rows, self._of, self._sequence = rows, owner_id(owner), recorded.sequence
        found = rows.get(f"o/{self._of}")
        self.owner = found if isinstance(found, EpisodesOf) else EpisodesOf(owner)

    @property
    def counts(self) -> bool:
        """Whether the event is new; one of a stream that came back from its archive is folded again."""
        return self._sequence > self.owner.sequence

    def close(self) -> None:
        """Note that the event counts."""
        self.owner.sequence = self._sequence
        self._rows.set(f"o/{self._of}", self.owner)

    def keep(self, episode: Episode, *, beside: str = "") -> None:
        """Keep an episode as the newest, or just behind the one with the key `beside`."""
        # Keys count down, so that the newest comes first.
        key = f"{beside}m" if beside else f"e/{self._of}/{10**16 - self._sequence:017d}"
        self._rows.set(key, episode)
        self._rows.set(self._place(episode.source), EpisodePlace(key))
        self.owner.count += 1

    def repeat(self, event: EpisodeRepeated) -> None:
        """Count an episode again, which makes it the newest."""
        if (found := self._find(event.of)) is None or found[1].gone_at is not None:
            return
        key, episode = found
        self._rows.delete(key)
        self.owner.count -= 1
        self.keep(msgspec.structs.replace(episode, seen=episode.seen + 1, last_at=event.at))

    def merge(self, event: EpisodesMerged) -> None:
        """Put one episode in the place of several; those are kept for who looks back."""
        keys, seen, of = list[str](), 0, list[str]()
        for source in event.merged:
            if (found := self._find(source)) is not None:
                key, episode = found
                keys.append(key)
                seen += episode.seen
                of += [source, *episode.of]
                self._rows.set(key, msgspec.structs.replace(episode, gone_at=event.at))
                self.owner.count -= 1
        if keys:
            merged = Episode(event.source, event.text, "merged", event.scope, event.at, seen, event.at, of)
            self.keep(merged, beside=min(keys))
            for source in event.merged:
                self._rows.set(self._place(source, "merged"), EpisodePlace(self._place(event.source)))

    def forget(self, source: str) -> None:
        """Take an episode out, and what it was merged into."""
        if (found := self._find(source)) is not None:
            key, episode = found
            self._rows.delete(key)
            self._rows.delete(self._place(source))
            self.owner.count -= episode.gone_at is None
        into = self._rows.get(self._place(source, "merged"))
        if isinstance(into, EpisodePlace):
            self._rows.delete(self._place(source, "merged"))
            place = self._rows.get(into.key)
            merged = self._rows.get(place.key) if isinstance(place, EpisodePlace) else None
            if isinstance(merged, Episode):
                self.forget(merged.source)

    def _find(self, source: str) -> tuple[str, Episode] | None:
        place = self._rows.get(self._place(source))
        episode = self._rows.get(place.key) if isinstance(place, EpisodePlace) else None
        return (place.key, episode) if isinstance(place, EpisodePlace) and isinstance(episode, Episode) else None

    def _place(self, source: str, what: str = "") -> str:
        return f"p/{self._of}/{sha256(source.encode(errors='surrogatepass')).hexdigest()[:16]}{what}"


def _apply(rows: Rows[EpisodeRow], event: EpisodeEvent, recorded: RecordedEvent) -> None:
    book = _Book(rows, recorded)
    if not book.counts:
        return
    match event:
        case MemoryNoted():
            book.keep(Episode(event.source, event.text, "note", event.scope, event.at, last_at=event.at))
        case EpisodeTold():
            book.keep(Episode(event.source, event.text, "run", event.scope, event.at, last_at=event.at))
        case EpisodeRepeated():
            book.repeat(event)
        case EpisodesMerged():
            book.merge(event)
        case MemoryPruned():
            for source in event.episodes:
                book.forget(source)
        case SourcesUndone():
            for source in event.sources:
                book.forget(source)
    book.close()


episodes: RowProjection[EpisodeRow, EpisodeEvent] = RowProjection(
    name="memory-episodes",
    version=1,
    catalog=Catalog(MemoryNoted, EpisodeTold, EpisodeRepeated, EpisodesMerged, MemoryPruned, SourcesUndone),
    row=cast("type[EpisodeRow]", Episode | EpisodePlace | EpisodesOf),
    apply=_apply,
    category="memory",
)
"""What happened, by owner, the newest first; see `Episodes`."""
