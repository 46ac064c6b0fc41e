"""Errors as facts, and raw JSON that says nothing."""

from __future__ import annotations

import msgspec

__all__ = ["NOTHING", "ErrorFact"]

NOTHING = msgspec.Raw(b"null")
"""Raw JSON that says nothing."""


class ErrorFact(msgspec.Struct, frozen=True):
    """An error in plain form: its type's name, its text, and data to raise it again where that is possible."""

    type: str
    message: str
    data: msgspec.Raw = NOTHING
