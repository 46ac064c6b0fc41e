"""The names of the steps of a run, the same whenever it is driven."""

from __future__ import annotations

from collections import Counter

from .siblings import current_scope

__all__ = ["StepNames"]


class StepNames:
    """Gives each step of a run its name: what it is, where it is, and a number from the second on."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._names: Counter[str] = Counter()
        self._runs: Counter[str] = Counter()
        self._waited: Counter[str] = Counter()
        self._prefixes: dict[str, str] = {}

    def begin_agent_run(self) -> str:
        """Return the id of an agent run that starts now: the run itself, or one of a sub-agent inside a step."""
        scope = current_scope()
        self._runs[scope] += 1
        number = self._runs[scope]
        own = scope if number == 1 else f"{scope}run:{number}/"
        run_id = f"{self._run}/{own}".rstrip("/")
        self._prefixes[run_id] = own
        return run_id

    def step(self, run_id: str | None, base: str) -> str:
        """Return the name of the next step of this kind: the second of the same name is `name#2`."""
        full = self._prefixes.get(run_id or "", "") + base
        self._names[full] += 1
        return full if self._names[full] == 1 else f"{full}#{self._names[full]}"

    def wait(self, base: str) -> str:
        """Return the name of the next wait of this kind in the step this code runs in; the same in every attempt."""
        full = current_scope() + base
        self._waited[full] += 1
        return full if self._waited[full] == 1 else f"{full}#{self._waited[full]}"

    def begin_attempt(self, step: str) -> None:
        """Let the waits within a step be counted anew: an attempt passes those of the one before."""
        for waited in [name for name in self._waited if name.startswith(f"{step}/")]:
            del self._waited[waited]
