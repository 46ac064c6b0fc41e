"""What the dictionary is trained on: the support desk's own threads, and threads made of our own documents.

Nothing here is anybody else's text, and what would be different in every journal (ids, digests, times) is different
in every sample, so that the dictionary learns the form and not the values.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

from benchmarks.journal_threads import Source, Tool, data_of, encode_thread
from clew.actors import ActorSystem
from clew.actors.agent import AgentDefinition
from clew.examples.support_desk import Shop, build_agent, default_mailbox, open_shop, prompt_of, read_mailbox

__all__ = ["Body", "bodies", "desk_threads", "made_threads"]

_ROOT: Final = Path(__file__).parents[1]
_PAGES: Final = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/durability.md", "docs/testing.md")

Body: TypeAlias = "bytes | bytearray | memoryview"
"""What a segment holds before it is compressed: the fields of some consecutive events of a stream."""


def desk_threads() -> list[list[bytes]]:
    """Let the support desk answer its mailbox by its written rules; return what that left in each thread."""
    random = Random("desk")  # noqa: S311  (the same samples each time)
    with tempfile.TemporaryDirectory() as folder:
        shop = Path(folder) / "shop.sqlite"
        open_shop(shop)
        desk = AgentDefinition(agent=build_agent(), deps=Shop(shop, carrier_delay_s=0))
        with ActorSystem("memory:", agents=[desk]) as system:
            for mail in read_mailbox(default_mailbox()):
                system.thread(desk, mail.id, title=mail.subject).run(prompt_of(mail), run_id=mail.id).result()
            streams = [head.stream for head in system.journal.streams()]
            threads = [[data_of(event.canonical) for event in system.journal.read(stream)] for stream in streams]
    return [list(_disguised(random, _in_order(events))) for events in threads]


def made_threads(*, count: int, runs: int) -> list[list[bytes]]:
    """Return so many made up threads, with our own documents for prose and made up tools."""
    random = Random("made")  # noqa: S311  (as above)
    source = Source(_own_prose(), _tools())
    made = (encode_thread(random, source, runs=runs) for _ in range(count))
    return [[data_of(new.canonical) for new in events] for events in made]


def bodies(events: Sequence[bytes], *, events_max: int, random: Random) -> Iterator[Body]:
    """Cut a thread into bodies of one to `events_max` events."""
    done = 0
    while done < len(events):
        size = random.randint(1, events_max)
        yield b"".join(events[done : done + size])
        done += size


def _in_order(events: Sequence[bytes]) -> Iterator[bytes]:
    """Put the tools of one turn, which run side by side, into an order that is the same each time."""
    for tool, group in groupby(events, lambda data: b'"step":"tool:' in data[:200]):
        turn = list(group)
        yield from sorted(turn) if tool else turn


def _disguised(random: Random, events: Iterator[bytes]) -> Iterator[bytes]:
    """Replace the run's id, the digests and the times: a thread keeps its own, no two threads share any."""
    known: dict[bytes, bytes] = {}
    at = random.randint(1_700_000_000, 1_900_000_000) * 1_000_000_000

    def digest(found: re.Match[bytes]) -> bytes:
        return known.setdefault(found[0], b'"%016x"' % random.getrandbits(64))

    def run(found: re.Match[bytes]) -> bytes:
        return b'"run":' + known.setdefault(found[1], b'"run-%012x"' % random.getrandbits(48))

    def moment(_: re.Match[bytes]) -> bytes:
        return b'"at":%d' % (at + random.randrange(1_000_000_000))

    def stamp(_: re.Match[bytes]) -> bytes:
        time = b"%02d:%02d:%02d.%06d" % (*(random.randrange(n) for n in (24, 60, 60)), random.randrange(1_000_000))
        return b'"timestamp":"20%02d-%02d-%02dT%bZ"' % (
            random.randint(24, 30),
            random.randint(1, 12),
            random.randint(1, 28),
            time,
        )

    changes: tuple[tuple[bytes, Callable[[re.Match[bytes]], bytes]], ...] = (
        (rb'"[0-9a-f]{16}"', digest),
        (rb'"run":("(?:[^"\\]|\\.)*")', run),
        (rb'"at":\d+', moment),
        (rb'"timestamp":"[^"]*"', stamp),
    )
    for data in events:
        at += random.randint(1_000_000, 4_000_000_000)
        changed = data
        for pattern, change in changes:
            changed = re.sub(pattern, change, changed)
        yield changed


def _own_prose() -> list[str]:
    text = "\n\n".join((_ROOT / page).read_text(encoding="utf-8") for page in _PAGES)
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    prose += "\n\n".join("\n\n" + mail.text for mail in read_mailbox(default_mailbox()))
    paragraphs = (" ".join(part.split()) for part in prose.split("\n\n"))
    return [part[:900] for part in paragraphs if len(part) >= 60 and part[0].isalpha()]  # noqa: PLR2004  (too short to be prose)


def _tools() -> dict[str, Tool]:
    prose = _own_prose()

    def search(random: Random) -> tuple[dict[str, Any], Any]:
        hits = [
            {"title": random.choice(prose)[:40], "score": round(random.random(), 4), "text": random.choice(prose)[:200]}
            for _ in range(random.randint(1, 5))
        ]
        return {"query": random.choice(prose)[:30], "limit": 5}, {"results": hits, "total": len(hits)}

    def fetch(random: Random) -> tuple[dict[str, Any], Any]:
        url = f"https://example.com/{random.choice(prose).split()[0].lower()}/{random.randint(1, 9999)}"
        return {"url": url}, {"status": 200, "url": url, "content_type": "text/html", "text": random.choice(prose)}

    def query(random: Random) -> tuple[dict[str, Any], Any]:
        rows = [
            {"id": random.randint(1, 99_999), "name": random.choice(prose)[:20], "amount": random.randint(1, 9999)}
            for _ in range(random.randint(1, 8))
        ]
        return {"sql": "SELECT id, name, amount FROM items WHERE amount > 0 ORDER BY id"}, {
            "rows": rows,
            "count": len(rows),
        }

    def write(random: Random) -> tuple[dict[str, Any], Any]:
        text = random.choice(prose)
        return {"path": f"notes/{random.randint(1, 99)}.md", "content": text}, f"Wrote {len(text)} bytes."

    def price(random: Random) -> tuple[dict[str, Any], Any]:
        value = {"value": random.randint(100, 99_999) / 100, "currency": "EUR", "updated_at": "2026-03-02T08:14:11Z"}
        return {"id": f"item-{random.randint(1, 9999)}", "date": "2026-03-02"}, {**value, "status": "ok", "error": None}

    return {"search": search, "fetch": fetch, "query": query, "write_file": write, "get_price": price}
