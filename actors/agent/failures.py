"""Errors of steps as data: what is recorded of them, and how they are raised again, the same now and on replay."""

from __future__ import annotations

from typing import Any, NoReturn, cast

import msgspec
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, ModelRetry, UnexpectedModelBehavior, UserError
from pydantic_core import to_jsonable_python

from ...journal.facts import ErrorFact
from ..errors import StepFailed

__all__ = ["describe", "raise_again"]

_BY_MESSAGE: dict[str, type[Exception]] = {
    kind.__name__: kind for kind in (ModelRetry, UnexpectedModelBehavior, UserError)
}

MESSAGE_LENGTH_MAX = 10_000


def describe(error: BaseException) -> ErrorFact:
    """Return an error in plain form; what cannot be text or JSON is left out."""
    try:
        text = _text(str(error))
    except Exception:  # noqa: BLE001  (an error whose own text fails must still be recorded)
        text = "(no text)"
    if isinstance(error, ModelHTTPError):
        data: Any = {"status_code": error.status_code, "model_name": _text(error.model_name), "body": error.body}
    elif isinstance(error, ModelAPIError):
        data = {"model_name": _text(error.model_name)}
    else:
        return ErrorFact(type(error).__name__, text)
    try:
        held = _json(data)
    except Exception:  # noqa: BLE001  (a provider's body may be anything, and the error must still be recorded)
        held = _json({**data, "body": None})
    return ErrorFact(type(error).__name__, _text(error.message), held)


def _text(text: str) -> str:
    return text.encode(errors="replace").decode()[:MESSAGE_LENGTH_MAX]


def _json(data: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(to_jsonable_python(data, fallback=str, inf_nan_mode="strings")))


def raise_again(step: str, fact: ErrorFact) -> NoReturn:
    """Raise the error of a step.

    Errors that pydantic-ai acts on come back as themselves; all others as `StepFailed` with type and message, so that
    code which catches them sees the same now and on replay.
    """
    data = cast("dict[str, Any] | None", msgspec.json.decode(fact.data))
    if data is not None and "status_code" in data:
        raise ModelHTTPError(data["status_code"], data["model_name"], data["body"])
    if data is not None and "model_name" in data:
        raise ModelAPIError(data["model_name"], fact.message)
    if (kind := _BY_MESSAGE.get(fact.type)) is not None:
        raise kind(fact.message)
    raise StepFailed(step=step, type=fact.type, message=fact.message)
