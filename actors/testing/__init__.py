"""Tools for testing your agents and actors: what our own tests use.

`agent_harness` runs an agent over the same loop as production, in memory, with a script in place of the model:

```python
with agent_harness(agent, [tool_call_turn("c1", "add", {"a": 1, "b": 2}), final_turn("3")]) as harness:
    answer = harness.run("what is 1 + 2?")
assert answer.stopped == "final"
```

`crash_points` lets a scenario die wherever it can, and `Simulation` lets many things go wrong at once.
"""

from .clock import VirtualClock
from .crash_points import CrashFailure, CrashPoints, CrashPointsFailed, crash_points
from .harness import AgentHarness, agent_harness
from .provider import invalid_for_provider, provider_valid
from .script import Script, final_turn, following_model, scripted_model, tool_call_turn, tool_calls_turn
from .simulation import Simulated, Simulation
from .world import Point, World

__all__ = [
    "AgentHarness",
    "CrashFailure",
    "CrashPoints",
    "CrashPointsFailed",
    "Point",
    "Script",
    "Simulated",
    "Simulation",
    "VirtualClock",
    "World",
    "agent_harness",
    "crash_points",
    "final_turn",
    "following_model",
    "invalid_for_provider",
    "provider_valid",
    "scripted_model",
    "tool_call_turn",
    "tool_calls_turn",
]
