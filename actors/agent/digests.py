"""Short digests of what is asked of a model or a tool, field by field, to tell later whether it is still the same."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import msgspec
from pydantic_ai.messages import ModelMessage, ModelRequest
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_core import to_jsonable_python

from .meaning import meaning_of
from .wire import dump_message

__all__ = ["RequestDigests", "digest_of"]

_ENCODER = msgspec.json.Encoder(order="sorted")


def digest_of(value: object) -> str:
    """Return 16 hexadecimal digits that stand for a JSON value."""
    return sha256(_ENCODER.encode(value)).hexdigest()[:16]


class RequestDigests:
    """Digests of model requests within one run; what was seen before is not encoded again."""

    def __init__(self) -> None:
        # The message is kept beside its digest, so that its id is not given to another one.
        self._known: dict[int, tuple[ModelMessage, bytes]] = {}

    def request(
        self,
        messages: Sequence[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
        model: str,
    ) -> dict[str, str]:
        """Return the digests of a model request, by field."""
        tools = [
            (tool.name, tool.description, tool.parameters_json_schema)
            for tool in (*parameters.function_tools, *parameters.output_tools)
        ]
        output = (parameters.output_mode, parameters.allow_text_output)
        asked = next((message for message in reversed(messages) if isinstance(message, ModelRequest)), None)
        return {
            "instructions": digest_of(asked.instructions if asked else None),
            "messages": self._messages(messages),
            "model": model,
            "output": digest_of(output),
            "settings": digest_of(to_jsonable_python(settings or {}, fallback=repr)),
            "tools": digest_of(tools),
        }

    def _messages(self, messages: Sequence[ModelMessage]) -> str:
        chained = sha256()
        for message in messages:
            known = self._known.get(id(message))
            if known is None:
                meaning = meaning_of(dump_message(message))
                # They have a digest of their own, and only those of the last request are sent.
                meaning.pop("instructions", None)
                data = sha256(_ENCODER.encode(meaning)).digest()
                known = self._known[id(message)] = (message, data)
            chained.update(known[1])
        return chained.hexdigest()[:16]
