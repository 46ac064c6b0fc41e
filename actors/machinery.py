"""What drives the actors of a system."""

from __future__ import annotations

from typing import NamedTuple

from .alarms import AlarmClock
from .effects_loop import EffectsLoop
from .mailbox import Pool
from .sweeper import Sweeper

__all__ = ["Machinery"]


class Machinery(NamedTuple):
    """What drives the actors of a system: their turns, their effects, their sleep and their alarms."""

    pool: Pool
    effects: EffectsLoop
    sweeper: Sweeper
    alarms: AlarmClock
