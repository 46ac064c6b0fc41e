"""Whether JSON values fit a type, whatever the type is written in, and what it makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast, is_typeddict

import msgspec
from pydantic import PydanticUserError, TypeAdapter, ValidationError

__all__ = ["Fit", "Unfit", "fit_for", "path_of", "schema_of"]

Fit = Callable[[Any], Any]
"""Returns what a type makes of JSON values; raises `Unfit`."""

Place = tuple[str | int, ...]

_VALUES = frozenset({"const", "default", "enum", "examples"})
"""What stands in a schema and is no schema."""


class Unfit(Exception):
    """A value does not fit: where, and why. `at` is the same place in parts, where it is known."""

    def __init__(self, path: str, reason: str, at: Place = ()) -> None:
        self.path = path
        self.reason = reason
        self.at = at
        super().__init__(path, reason)


def fit_for(type_: Any, *, what: str = "the schema") -> Fit:
    """Return what checks values against a JSON schema, a `msgspec.Struct`, or whatever pydantic validates.

    Raises:
        TypeError: it is none of these; `what` names it.
    """
    if isinstance(type_, Mapping):
        return _by_schema(cast("Mapping[str, Any]", type_), what)
    if _is_struct(type_):
        return _by_struct(type_)
    try:
        return _by_pydantic(TypeAdapter(type_))
    except PydanticUserError as error:
        raise TypeError(f"{what} is nothing that can be checked: {error}") from error


def schema_of(type_: Any) -> dict[str, Any]:
    """Return the JSON schema of a type, with what it refers to within it."""
    if isinstance(type_, Mapping):
        return dict(cast("Mapping[str, Any]", type_))
    if not _is_struct(type_):
        return TypeAdapter(type_).json_schema()
    (schema,), definitions = msgspec.json.schema_components([type_], ref_template="#/$defs/{name}")
    name = schema.get("$ref", "").rpartition("/")[2]
    if name in definitions and not any(_refers(one, schema["$ref"]) for one in definitions.values()):
        schema = definitions.pop(name)
    return {**schema, "$defs": definitions} if definitions else schema


def path_of(place: Place) -> str:
    """Return a place as a path."""
    return "$" + "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in place)


def _is_struct(type_: Any) -> bool:
    return isinstance(type_, type) and not is_typeddict(type_) and issubclass(type_, msgspec.Struct)


def _refers(schema: object, ref: str) -> bool:
    match schema:
        case dict():
            held = cast("dict[str, object]", schema)
            return held.get("$ref") == ref or any(_refers(one, ref) for one in held.values())
        case list():
            return any(_refers(one, ref) for one in cast("list[object]", schema))
        case _:
            return False


def _by_pydantic(adapter: TypeAdapter[Any]) -> Fit:
    def convert(value: Any) -> Any:
        try:
            return adapter.validate_json(msgspec.json.encode(value))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise Unfit(path_of(first["loc"]), first["msg"], first["loc"]) from error

    return convert


def _by_struct(type_: type[msgspec.Struct]) -> Fit:
    def convert(value: Any) -> Any:
        try:
            return msgspec.convert(value, type_)
        except msgspec.ValidationError as error:
            reason, _, path = str(error).partition(" - at ")
            raise Unfit(path.strip("`") or "$", reason) from error

    return convert


def _by_schema(schema: Mapping[str, Any], what: str) -> Fit:
    from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415  (slow to import, and rare)
    from referencing import Registry  # noqa: PLC0415  (as above)

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise TypeError(f"{what} is no JSON schema, at {error.json_path}: {error.message}") from error
    _check_references(schema, what)
    # With a registry of its own it fetches nothing, wherever a reference leads.
    validator = cast("Any", Draft202012Validator)(schema, registry=cast("Any", Registry)())

    def convert(value: Any) -> Any:
        try:
            error = next(iter(validator.iter_errors(value)), None)
        except RecursionError:
            raise Unfit("$", "it is nested too deeply to be checked") from None
        if error is not None:
            raise Unfit(error.json_path, error.message, tuple(error.absolute_path))
        return value

    return convert


def _check_references(schema: Mapping[str, Any], what: str) -> None:
    """Refuse references that lead nowhere within the schema; another document would have to be fetched."""
    from referencing import Registry  # noqa: PLC0415  (slow to import, and rare)
    from referencing.exceptions import Unresolvable  # noqa: PLC0415  (as above)
    from referencing.jsonschema import DRAFT202012  # noqa: PLC0415  (as above)

    registry: Any = cast("Any", Registry)()
    resolver = registry.with_resource("", cast("Any", DRAFT202012).create_resource(schema)).resolver()
    for ref in _references(schema):
        if not ref.startswith("#"):
            raise TypeError(f"{what} refers to {ref!r}, which is outside of it; put that under its $defs")
        try:
            resolver.lookup(ref)
        except Unresolvable:
            raise TypeError(f"{what} refers to {ref!r}, and has no such part") from None


def _references(schema: object) -> Iterator[str]:
    match schema:
        case Mapping():
            for key, held in cast("Mapping[str, object]", schema).items():
                if key in ("$ref", "$dynamicRef") and isinstance(held, str):
                    yield held
                elif key not in _VALUES:
                    yield from _references(held)
        case list():
            for held in cast("list[object]", schema):
                yield from _references(held)
        case _:
            pass
