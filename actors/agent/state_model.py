"""What a thread's synced state may be, and how a stored one is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import msgspec

from ...journal import encode_exact
from ..errors import InvalidState
from .fitting import Fit, Unfit, fit_for
from .writes import CheckState

__all__ = ["StateModel", "typed"]

T = TypeVar("T")


class StateModel:
    """The type that the synced state of an agent's threads fits, and how one that was stored before is read.

    `type` is a pydantic model or whatever pydantic validates, a `msgspec.Struct`, or a JSON schema as a dict; without
    one, any JSON will do. On every read, `upcast` leads the stored value up to the present shape, and `defaults` are
    laid under it where it is an object: what it does not have at its top level is theirs. Where no state is stored,
    the defaults are what is read.

    Raises:
        TypeError: `type` is none of these, or the schema is no schema; `defaults` are no mapping, or `upcast` no
            function.
        NotRepresentable: the defaults are not made of JSON's own types.
    """

    def __init__(
        self,
        type: Any = None,  # noqa: A002  (the field's word; a type form)
        *,
        defaults: Mapping[str, Any] | None = None,
        upcast: Callable[[Any], Any] | None = None,
    ) -> None:
        if not isinstance(cast("object", defaults), Mapping | None):
            raise TypeError(f"state_defaults is a mapping, not {defaults!r}")
        if not (upcast is None or callable(upcast)):
            raise TypeError(f"state_upcast is a function, not {upcast!r}")
        self._convert = None if type is None else fit_for(type, what="the schema of the state")
        self._is_schema = isinstance(type, dict)
        self._defaults = None if defaults is None else encode_exact(dict(defaults), what="state_defaults")
        self._upcast = upcast

    def check_for(self, thread: str) -> CheckState:
        """Return what refuses a state of this thread that does not fit, with `InvalidState`."""

        def check(value: Any) -> None:
            if self._convert is not None:
                _fit(self._convert, value, thread)

        return check

    def typed(self, value: Any, thread: str) -> Any:
        """Return a state that was read as its type makes of it; as JSON values where the type is none, or a schema.

        Raises:
            InvalidState: it does not fit; names the path.
        """
        if value is None or self._convert is None or self._is_schema:
            return value
        return _fit(self._convert, value, thread)

    def read(self, stored: msgspec.Raw | None) -> Any:
        """Return a stored state in its present shape, as JSON values; None where there is none."""
        value: Any = None if stored is None else msgspec.json.decode(stored)
        if value is not None and self._upcast is not None:
            value = self._upcast(value)
        if self._defaults is None or not isinstance(value, dict | None):
            return value
        return {**msgspec.json.decode(self._defaults), **cast("dict[str, Any]", value or {})}


def typed(value: Any, model: type[T], thread: str) -> T:
    """Return a state as what a model makes of it.

    Raises:
        InvalidState: it does not fit; names the path.
    """
    return cast("T", _fit(fit_for(model, what="the schema of the state"), value, thread))


def _fit(convert: Fit, value: Any, thread: str) -> Any:
    try:
        return convert(value)
    except Unfit as unfit:
        raise InvalidState(thread=thread, path=unfit.path, reason=unfit.reason) from None
