"""What models and tools used, counted from what is recorded of their steps."""

from __future__ import annotations

import msgspec

from ..journal.facts import StepCompleted

__all__ = ["Usage", "told_usage", "used_by"]


class Usage(msgspec.Struct):
    """What model calls used: how many there were, and their tokens."""

    requests: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def add(self, other: Usage, *, times: int = 1) -> None:
        """Add what another one used, or take it off again with `times=-1`."""
        self.requests += times * other.requests
        self.tool_calls += times * other.tool_calls
        self.input_tokens += times * other.input_tokens
        self.output_tokens += times * other.output_tokens


class _Response(msgspec.Struct):
    """What counts of a model's response."""

    usage: Usage | None = None


_USAGE = msgspec.json.Decoder(Usage | None)
_RESPONSE = msgspec.json.Decoder(_Response)


def used_by(event: StepCompleted) -> Usage | None:
    """Return what a step used: a turn of the model, or a tool with the sub-agents in it; None for any other step."""
    if event.step.startswith("llm:"):
        used = _used_by_response(event.result)
        used.requests += 1
        return used
    if event.step.startswith("tool:"):
        used = told_usage(event.usage)
        used.tool_calls += 1
        return used
    return None


def told_usage(told: msgspec.Raw) -> Usage:
    """Return a recorded usage; nothing was used where nothing is told."""
    return _USAGE.decode(told) or Usage()


def _used_by_response(result: msgspec.Raw) -> Usage:
    try:
        return _RESPONSE.decode(result).usage or Usage()
    except msgspec.ValidationError:
        # Not every answer of a model is a response with a usage; then the tokens are not known.
        return Usage()
