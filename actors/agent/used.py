"""What a driven run used and what that cost, as it is recorded.

A price is looked up once, inside the step that used something; what was not priced then stays unpriced.
"""

from __future__ import annotations

import logging
from typing import Any, cast

import msgspec
from pydantic_ai.durable_exec import JSON_CODEC
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RunUsage

from ...journal.facts import StepCompleted
from ...projections.usage import Usage, used_by

__all__ = ["UsedSoFar", "price", "told_by_loop"]

log = logging.getLogger("clew")


class UsedSoFar:
    """What a run used, by its recorded steps alone: the same when it is driven, driven again and replayed."""

    def __init__(self) -> None:
        self._used = Usage()
        self._noted: list[StepCompleted] = []

    def note(self, event: StepCompleted) -> None:
        """Count a step of the run; one within another step counts with that."""
        self._noted.append(event)

    @property
    def so_far(self) -> Usage:
        """What was used up to now."""
        noted, self._noted = self._noted, []
        for event in noted:
            if (used := used_by(event)) is not None:
                self._used.add(used)
        return self._used


def price(response: ModelResponse) -> None:
    """Note what a response cost beside what it used, if that can be told and is not there yet.

    Called inside the step, so that a later price list changes nothing about what was recorded.
    """
    if response.usage.cost is not None or not response.model_name:
        return
    try:
        response.usage.cost = response.cost().total_price
    except (LookupError, ValueError):
        # The price list does not know the model, or the provider told no usage.
        return
    except Exception:  # a price must not decide about a turn that was taken
        log.exception("the price of a response of %s is not known", response.model_name)


def told_by_loop(usage: RunUsage, recorded: Usage) -> msgspec.Raw:
    """Return what a run used by the loop's own count, with what it cost by its recorded steps.

    The loop looks up the prices that are missing, also on replay, and those of another day may be others.
    """
    told = cast("dict[str, Any]", JSON_CODEC.dump(RunUsage, usage))
    cost = recorded.cost_usd
    told |= {"cost": None if cost is None else str(cost), "unpriced": 0 if cost is None else recorded.unpriced}
    return msgspec.Raw(msgspec.json.encode({key: value for key, value in told.items() if value}))
