"""What is asked, as it is stored with its run."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from pydantic_ai.messages import ModelRequest, UserContent, UserPromptPart

from ...journal import NotRepresentable
from .wire import dump_message

__all__ = ["encode_prompt"]


def encode_prompt(prompt: str | Sequence[UserContent]) -> msgspec.Raw:
    """Return a prompt as JSON: a text, or a list of user content.

    Raises:
        NotRepresentable: the text cannot be written as UTF-8.
    """
    if isinstance(prompt, str):
        try:
            return msgspec.Raw(msgspec.json.encode(prompt))
        except UnicodeEncodeError as error:
            reason = "the text holds half of a surrogate pair"
            raise NotRepresentable(event="the prompt", path="$", reason=reason) from error
    dumped = dump_message(ModelRequest([UserPromptPart(list(prompt))]))
    return msgspec.Raw(msgspec.json.encode(dumped["parts"][0]["content"]))
