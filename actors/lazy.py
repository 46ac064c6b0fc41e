"""An attribute that is made when it is first looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Lazy"]


class Lazy:
    """Makes the attribute of an object when it is first looked at; of several threads, all see the same."""

    def __init__(self, make: Callable[[Any], object]) -> None:
        self._make = make

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, owner: object, _: type) -> Any:  # noqa: ANN401  (as many types as names)
        return vars(owner).setdefault(self._name, self._make(owner))
