"""Who wants to be told when a stream grew."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

__all__ = ["Watchers"]

_log = logging.getLogger(__name__)


class Watchers:
    """The watches of a journal, by stream; None watches every stream."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_stream: dict[str | None, dict[int, Callable[[], None]]] = {}
        self._next = 0

    def add(self, notify: Callable[[], None], stream: str | None) -> Callable[[], None]:
        """Start a watch; return what ends it."""
        with self._lock:
            number, self._next = self._next, self._next + 1
            self._by_stream.setdefault(stream, {})[number] = notify

        def stop() -> None:
            with self._lock:
                watches = self._by_stream.get(stream, {})
                watches.pop(number, None)
                if not watches:
                    self._by_stream.pop(stream, None)

        return stop

    def notify(self, streams: Iterable[str]) -> None:
        """Tell those who watch one of `streams`, each once, and those who watch all."""
        if not self._by_stream:
            return
        with self._lock:
            touched = {stream for stream in streams if stream}
            found = {
                number: notify
                for stream in (*touched, *((None,) if touched else ()))
                for number, notify in self._by_stream.get(stream, {}).items()
            }
        _call(found.values())

    def notify_all(self) -> None:
        """Tell everybody: the journal closes."""
        with self._lock:
            found = [notify for watches in self._by_stream.values() for notify in watches.values()]
        _call(found)


def _call(watches: Iterable[Callable[[], None]]) -> None:
    for notify in watches:
        try:
            notify()
        except Exception:  # noqa: BLE001  (the journal's writer stands behind this, and must not stop with it)
            _log.exception("a watch of the journal failed")
