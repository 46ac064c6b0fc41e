"""How the state of an actor becomes bytes for a snapshot, and back: the very same state, or not at all."""

from __future__ import annotations

from enum import Enum, EnumMeta
from typing import Any, Generic, TypeVar, cast

import msgspec
from msgspec import inspect

from ..journal import encode_exact

__all__ = ["StateCodec"]

S = TypeVar("S")


class StateCodec(Generic[S]):
    """The states of one kind of actor as JSON, by their declared type.

    `schema` changes when the type does. `refused` is set once a state was met that would not come back as it is.

    Raises:
        TypeError: it is a type that msgspec cannot decode.
    """

    def __init__(self, category: str, state_type: Any) -> None:  # noqa: ANN401  (whatever msgspec takes, such as `int | None`)
        self._what = f"the state of {category}"
        self._decoder: msgspec.json.Decoder[S] = msgspec.json.Decoder(state_type)
        self.schema = _describe(inspect.type_info(state_type), frozenset()).encode()
        self.refused = False

    def encode(self, state: S) -> bytes:
        """Return the state's bytes.

        Raises:
            NotRepresentable: it would come back different in a value or a type; names the path.
        """
        return bytes(encode_exact(state, what=self._what, decoder=self._decoder))

    def decode(self, data: bytes) -> S:
        """Return the state.

        Raises:
            msgspec.MsgspecError: the bytes are not such a state.
        """
        return self._decoder.decode(data)


def _describe(part: object, within: frozenset[type]) -> str:
    """Return a type in words that change when its stored form, or what is read from that, does."""
    match part:
        case inspect.Type() | inspect.Field():
            cls = getattr(part, "cls", None)
            if cls in within:
                return f"again {cls.__qualname__}"
            inner = within if cls is None else within | {cls}
            values = (_describe(getattr(part, name), inner) for name in part.__struct_fields__)
            return f"{type(part).__name__}({', '.join(values)})"
        case tuple():
            return f"[{', '.join(_describe(item, within) for item in cast('tuple[object, ...]', part))}]"
        case EnumMeta():
            return f"{part.__qualname__}{[member.value for member in cast('type[Enum]', part)]}"
        case type():
            return part.__qualname__
        case _:
            return _describe_value(part)


def _describe_value(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError):
        # A factory of defaults, or the mark that there is none.
        return getattr(value, "__qualname__", type(value).__qualname__)
