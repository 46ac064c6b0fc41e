"""What a thread's synced state may be, and how a stored one is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import msgspec
from pydantic import TypeAdapter, ValidationError

from ...journal import encode_exact
from ..errors import InvalidState
from .writes import CheckState

__all__ = ["StateModel", "typed"]

T = TypeVar("T")

_Convert = Callable[[Any], Any]


class _Unfit(Exception):
    """A value does not fit: where, and why."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(path, reason)


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
        self._convert = None if type is None else _converter(type)
        self._defaults = None if defaults is None else encode_exact(dict(defaults), what="state_defaults")
        self._upcast = upcast

    def check_for(self, thread: str) -> CheckState:
        """Return what refuses a state of this thread that does not fit, with `InvalidState`."""

        def check(value: Any) -> None:
            if self._convert is not None:
                _fit(self._convert, value, thread)

        return check

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
    return cast("T", _fit(_converter(model), value, thread))


def _fit(convert: _Convert, value: Any, thread: str) -> Any:
    try:
        return convert(value)
    except _Unfit as unfit:
        raise InvalidState(thread=thread, path=unfit.path, reason=unfit.reason) from None


def _converter(type_: Any) -> _Convert:
    if isinstance(type_, dict):
        return _by_schema(cast("dict[str, Any]", type_))
    if isinstance(type_, type) and issubclass(cast("type[Any]", type_), msgspec.Struct):
        return _by_struct(cast("type[msgspec.Struct]", type_))
    adapter: TypeAdapter[Any] = TypeAdapter(type_)

    def convert(value: Any) -> Any:
        try:
            return adapter.validate_json(msgspec.json.encode(value))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            path = "$" + "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in first["loc"])
            raise _Unfit(path, first["msg"]) from error

    return convert


def _by_struct(type_: type[msgspec.Struct]) -> _Convert:
    def convert(value: Any) -> Any:
        try:
            return msgspec.convert(value, type_)
        except msgspec.ValidationError as error:
            reason, _, path = str(error).partition(" - at ")
            raise _Unfit(path.strip("`") or "$", reason) from error

    return convert


def _by_schema(schema: dict[str, Any]) -> _Convert:
    from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415  (slow to import, and rare)

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise TypeError(f"the schema of the state is no JSON schema: {error.message}") from error
    validator = cast("Any", Draft202012Validator(schema))

    def convert(value: Any) -> Any:
        error = next(iter(validator.iter_errors(value)), None)
        if error is not None:
            raise _Unfit(error.json_path, error.message)
        return value

    return convert
