"""What a model is told came of a script: each step's output, the final one, and where it stopped and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from .code_call import CallEnd
from .code_script import DEPTH_MAX, ScriptStep, deeper_than

__all__ = ["EndedStep", "answer_of"]

MESSAGE_LENGTH_MAX = 2000
"""How many characters of an error a model gets."""


class EndedStep(NamedTuple):
    """A step of a script and how it ended."""

    step: ScriptStep
    end: CallEnd


def answer_of(
    ended: Sequence[EndedStep], not_run: Sequence[str], *, output_bytes_max: int, result_bytes_max: int
) -> dict[str, Any]:
    """Return what came of a script; `not_run` are the ids of the steps behind the one that ended it.

    An output that is too large or too deep is left out, and of all of them the largest until the rest is not too large;
    that of the last step only when nothing else is left.
    """
    sizes = [len(msgspec.json.encode(one.end.output)) for one in ended]
    shown = _shown(ended, sizes, output_bytes_max, result_bytes_max)
    told = [_told(one, size, at in shown) for at, (one, size) in enumerate(zip(ended, sizes, strict=True))]
    last = ended[-1].end
    if last.error is not None:
        return {"status": "stopped", "steps": told, "not_run": list(not_run)}
    final = {"final": last.output} if len(ended) - 1 in shown else {}
    return {"status": "done", "steps": told, **final}


def _shown(ended: Sequence[EndedStep], sizes: Sequence[int], output_bytes_max: int, result_bytes_max: int) -> set[int]:
    """Return which steps' outputs are shown, by their places."""
    last = len(ended) - 1
    shown = {
        at
        for at, (one, size) in enumerate(zip(ended, sizes, strict=True))
        if one.end.error is None and size <= output_bytes_max and not deeper_than(one.end.output, DEPTH_MAX)
    }
    # That of the last step is shown twice.
    while sum(sizes[at] * (2 if at == last else 1) for at in shown) > result_bytes_max:
        shown.discard(max(shown, key=lambda at: (at != last, sizes[at])))
    return shown


def _told(one: EndedStep, size: int, shown: bool) -> dict[str, Any]:  # noqa: FBT001  (it is a fact about the step)
    said: dict[str, Any] = {"id": one.step.id, "tool": one.step.tool}
    if one.end.error is not None:
        return {**said, "error": {"code": one.end.error, "message": one.end.message[:MESSAGE_LENGTH_MAX]}}
    if shown:
        return {**said, "output": one.end.output}
    return {**said, "left_out": f"it was called; its output of {size} bytes is not shown, but later steps could use it"}
