"""An agent's answer between Python and the journal."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Sequence
from typing import Any, cast

import msgspec
from pydantic import TypeAdapter
from pydantic_ai import Agent
from pydantic_ai.output import NativeOutput, PromptedOutput, TextOutput, ToolOutput
from pydantic_core import to_jsonable_python

from .payload import encode_payload

__all__ = ["decode_output", "encode_output"]


def encode_output(agent: Agent[Any, Any], output: object) -> msgspec.Raw:
    """Return an answer as JSON.

    Raises:
        NotRepresentable: the answer has no JSON form.
    """
    return encode_payload(lambda: to_jsonable_python(output), output, f"the output of agent {agent.name!r}")


def decode_output(agent: Agent[Any, Any], raw: msgspec.Raw) -> Any:
    """Return an answer as the agent's output type; as plain JSON values where that type cannot be told."""
    value = msgspec.json.decode(raw)
    kinds = _types(cast("object", agent.output_type))
    if value is None and type(None) not in kinds:
        return None
    if not kinds or Any in kinds:
        return value
    union: Any = kinds[0]
    for kind in kinds[1:]:
        union = union | kind
    adapter: TypeAdapter[Any] = TypeAdapter(union)
    return adapter.validate_python(value)


def _types(spec: object) -> list[Any]:
    """Return the types that a pydantic-ai output specification can produce."""
    marker: Any = spec
    match spec:
        case ToolOutput():
            return _types(marker.output)
        case TextOutput():
            return _types(marker.output_function)
        case NativeOutput() | PromptedOutput():
            return _types(marker.outputs)
        case list() | tuple():
            return [kind for one in cast("Sequence[object]", spec) for kind in _types(one)]
        case _ if inspect.isfunction(spec) or inspect.ismethod(spec):
            return [typing.get_type_hints(spec).get("return", Any)]
        case _:
            return [spec]
