"""What somebody says came of a step that is in doubt."""

from __future__ import annotations

from typing import Any

import msgspec

from ...journal import encode_exact
from ...journal.facts import NOTHING, ErrorFact

__all__ = ["NOT_GIVEN", "outcome_of"]

NOT_GIVEN: Any = object()
"""In place of a result, for None is one."""


def outcome_of(
    step: str, result: object, error: str | None, *, retry: bool
) -> tuple[str, msgspec.Raw, ErrorFact | None]:
    """Return a step's outcome, the result as its tool would have recorded it, and its error.

    Raises:
        TypeError: none of the three is given, or several.
        NotRepresentable: the result is not made of JSON's own types.
    """
    given = {"result": result is not NOT_GIVEN, "retry=True": retry, "error": error is not None}
    named = [name for name, is_given in given.items() if is_given]
    if len(named) != 1:
        said = " and ".join(named) or "none of them"
        raise TypeError(f"{step}: a step is settled with one of result, retry=True and error, not {said}")
    if error is not None:
        return "fail", NOTHING, ErrorFact("StepFailed", error)
    if retry:
        return "retry", NOTHING, None
    held = encode_exact(result, what=f"the result of {step}")
    return "result", msgspec.Raw(msgspec.json.encode({"result": held, "kind": "tool_return"})), None
