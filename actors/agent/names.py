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
        return _numbered(self._names, self._prefixes.get(run_id or "", "") + base)

    def wait(self, base: str) -> str:
        """Return the name of the next wait of this kind in the step this code runs in; the same in every attempt."""
        return _numbered(self._waited, current_scope() + base)

    def begin_attempt(self, step: str) -> None:
        """Let what is within a step be counted anew: an attempt passes the steps and waits of the one before."""
        for counted in (self._waited, self._names, self._runs):
            for name in [name for name in counted if name.startswith(f"{step}/")]:
                del counted[name]


def _numbered(given: Counter[str], wanted: str) -> str:
    """Return the next name of this kind, passing over one that was given because it looks like that by itself."""
    name = wanted
    while given[name]:
        given[wanted] += 1
        name = f"{wanted}#{given[wanted]}"
    given[name] += 1
    return name
