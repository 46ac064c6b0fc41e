"""What a tool says of its own durability, in its metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

__all__ = ["DEFAULT_ATTEMPTS", "OPTIONS_KEY", "SECONDS_MAX", "NeedsApproval", "ToolPolicy", "policy_of", "tool_options"]

DEFAULT_ATTEMPTS = 2
"""How often a tool that raises is tried, all attempts counted, unless its options say otherwise."""

ATTEMPTS_MAX = 100

SECONDS_MAX = 100 * 366 * 86_400.0
"""The longest time that anything may be given: what is recorded is in nanoseconds, of 64 bits."""

DELAY_S_MAX = 24 * 3600.0
"""The longest wait before another attempt."""

APPROVAL_S = 3 * 24 * 3600.0
APPROVAL_S_MAX = 7 * 24 * 3600.0
"""How long people have for a decision: by default, and at the most."""

OPTIONS_KEY = "clew"

NeedsApproval = bool | Callable[[dict[str, Any]], bool]
"""Whether a call needs somebody's approval: always, never, or as a function of its arguments says.

The function runs again on replay, so it looks at nothing but the arguments.
"""


@dataclass(frozen=True, kw_only=True)
class ToolPolicy:
    """How a tool is run: see `tool_options`."""

    attempts: int = DEFAULT_ATTEMPTS
    delay_s: float = 0.0
    factor: float = 2.0
    retry_on: tuple[str, ...] | None = None
    at_most_once: bool = False
    timeout_s: float | None = None
    needs_approval: NeedsApproval = False
    approval_timeout_s: float = APPROVAL_S

    def retries(self, error: BaseException) -> bool:
        """Whether a tool that raised this is tried again."""
        return self.retry_on is None or any(kind.__name__ in self.retry_on for kind in type(error).__mro__)

    def delay_ns(self, attempt: int) -> int:
        """Return how long to wait after this attempt failed, in nanoseconds."""
        if self.delay_s <= 0:
            return 0
        return round(min(DELAY_S_MAX, self.delay_s * self.factor ** min(attempt - 1, 64)) * 1e9)

    def asks(self, arguments: dict[str, Any]) -> bool:
        """Whether a call with these arguments needs somebody's approval.

        Raises:
            TypeError: the tool's own function said neither yes nor no.
        """
        if isinstance(self.needs_approval, bool):
            return self.needs_approval
        said = cast("object", self.needs_approval(arguments))
        if not isinstance(said, bool):
            raise TypeError(f"needs_approval returns True or False, not {said!r}")
        return said


def tool_options(
    *,
    attempts: int = DEFAULT_ATTEMPTS,
    delay_s: float = 0.0,
    factor: float = 2.0,
    retry_on: Iterable[type[BaseException]] | None = None,
    at_most_once: bool = False,
    timeout_s: float | None = None,
    needs_approval: NeedsApproval = False,
    approval_timeout_s: float = APPROVAL_S,
) -> dict[str, Any]:
    """Return tool metadata for a durable tool: `@agent.tool(metadata=tool_options(attempts=1))`.

    - `attempts` is how often the tool is tried when it raises, all attempts counted, crashes in between or not.
      `delay_s` is waited before the second one, `factor` times as long before each further one; a wait of more than a
      second is kept by an alarm, and nothing of the run is in memory. `retry_on` are the errors that are worth it.
    - `at_most_once`: the tool is claimed before it runs. If the process dies before the result is recorded, or the tool
      takes longer than `timeout_s`, the step is in doubt, and the run waits until somebody settles it
      (`thread.settle`). So it is, too, when it waits for a signal or a person in the middle, for it would have to run
      again from its beginning. One that raised is tried again.
    - `timeout_s` bounds each attempt, over a crash too; what it waits for signals, people and other agents does not
      count. Sync code cannot be stopped: what it returns late is dropped.
    - `needs_approval`: the call waits until somebody approves it, at most `approval_timeout_s` seconds (3 days; a week
      at the most), after which it counts as rejected.

    Raises:
        ValueError, TypeError: an option is out of range; names it.
    """
    _check_range("attempts", attempts, 1, ATTEMPTS_MAX)
    _check_range("delay_s", delay_s, 0, DELAY_S_MAX)
    _check_range("factor", factor, 1, 100)
    for option, seconds in (("timeout_s", timeout_s), ("approval_timeout_s", approval_timeout_s)):
        if seconds is not None and not 0 < seconds <= SECONDS_MAX:
            raise ValueError(f"{option} is more than 0 and at most a hundred years, not {seconds}")
    if not isinstance(cast("object", needs_approval), bool) and not callable(needs_approval):
        raise TypeError(f"needs_approval is True, False or a function of the arguments, not {needs_approval!r}")
    options: dict[str, Any] = {"attempts": attempts}
    if delay_s:
        options |= {"delay_s": delay_s, "factor": factor}
    if retry_on is not None:
        options["retry_on"] = [kind.__name__ for kind in retry_on]
    if at_most_once:
        options["at_most_once"] = True
    if timeout_s is not None:
        options["timeout_s"] = timeout_s
    if needs_approval is not False:
        options |= {"needs_approval": needs_approval, "approval_timeout_s": min(approval_timeout_s, APPROVAL_S_MAX)}
    return {OPTIONS_KEY: options}


def _check_range(option: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ValueError(f"{option} is from {least:g} to {most:g}, not {value}")


def policy_of(options: Mapping[str, Any]) -> ToolPolicy:
    """Return how a tool with these options is run."""
    known = {key: options[key] for key in ToolPolicy.__dataclass_fields__ if key in options}
    if known.get("retry_on") is not None:
        known["retry_on"] = tuple(known["retry_on"])
    return ToolPolicy(**known)
