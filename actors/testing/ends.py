"""What is true at the end of a scenario, without the ids and times that differ each time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import msgspec

from ...journal import Journal, category_of
from ...projections import messages, view_of
from ..decider import EventSourcedActor
from ..recovery import recover

__all__ = ["difference", "ends_of", "timeless"]

DROPPED: Final = frozenset({"at", "timestamp", "run_id", "conversation_id", "recoveries"})
"""Fields that say when something was, which id chance gave it, or how often its process died."""


def ends_of(journal: Journal, kinds: Iterable[EventSourcedActor[Any, Any, Any, Any]]) -> dict[str, Any]:
    """Return how every stream ended: the runs, messages and state of a thread, the state of any other actor."""
    known = {kind.category: kind for kind in kinds}
    ends: dict[str, Any] = {}
    for head in journal.streams():
        category = category_of(head.stream)
        if category == "thread":
            ends[head.stream] = _thread(journal, head.stream)
        elif (kind := known.get(category)) is not None:
            ends[head.stream] = timeless(recover(kind, head.stream, journal).state)
    return ends


def _thread(journal: Journal, stream: str) -> dict[str, Any]:
    events = list(journal.read(stream))
    view = view_of(events)
    return {
        "owner": view.owner,
        "runs": {run.run: {"status": run.status, "stopped": run.stopped, "error": run.error} for run in view.runs},
        "messages": timeless(messages(events)),
        "state": msgspec.json.decode(view.state),
    }


def timeless(value: object) -> Any:  # noqa: ANN401  (plain values of any type)
    """Return a value in plain form, without fields that hold times or chance ids: `at`, `..._at`, `timestamp`."""
    return _without(msgspec.to_builtins(value, str_keys=True, enc_hook=repr))


def _without(value: object) -> object:
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
        return {key: _without(item) for key, item in items if key not in DROPPED and not key.endswith("_at")}
    if isinstance(value, list):
        return [_without(item) for item in cast("list[object]", value)]
    return value


def difference(expected: object, actual: object, path: str = "") -> str | None:
    """Return the first place where two plain values differ, and what is there in each; None when they are equal."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        was, now = cast("Mapping[str, object]", expected), cast("Mapping[str, object]", actual)
        pairs = [(str(key), was.get(key, _MISSING), now.get(key, _MISSING)) for key in {**was, **now}]
    elif isinstance(expected, list) and isinstance(actual, list):
        first, second = cast("list[object]", expected), cast("list[object]", actual)
        length = max(len(first), len(second))
        pairs = [(str(at), _item(first, at), _item(second, at)) for at in range(length)]
    else:
        return None if expected == actual else f"{path or 'the end'}: {expected!r} became {actual!r}"
    found = (difference(was, now, f"{path}/{key}") for key, was, now in pairs)
    return next((one for one in found if one is not None), None)


def _item(values: list[object], at: int) -> object:
    return values[at] if at < len(values) else _MISSING


class _Missing:
    def __repr__(self) -> str:
        return "(nothing)"


_MISSING = _Missing()
