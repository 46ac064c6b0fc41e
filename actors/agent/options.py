"""What a tool says of its own durability, in its metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from .declared import check_function, check_kinds

__all__ = [
    "DEFAULT_ATTEMPTS",
    "OPTIONS_KEY",
    "RESULT_CHARS_MAX",
    "SECONDS_MAX",
    "NeedsApproval",
    "ToolPolicy",
    "check_result_chars",
    "policy_of",
    "tool_options",
]

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

RESULT_CHARS_MAX = 4000
"""How many characters of a result a model gets where results are limited, unless a limit says otherwise."""

_RESULT_CHARS = (256, 1_000_000)
"""The range of such a limit: there is a note behind what was cut."""

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
    result_chars_max: int | None = None

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
    result_chars_max: int | None = None,
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
    - `result_chars_max`: of a longer result the model gets the beginning, and the whole is an artifact of the thread;
      see `ResultCap`, the limit of all the agent's tools, in place of which this one counts.

    Raises:
        ValueError, TypeError: an option is out of range; names it.
    """
    numbers = {"delay_s": delay_s, "factor": factor, "timeout_s": timeout_s, "approval_timeout_s": approval_timeout_s}
    wholes = {"attempts": attempts, "result_chars_max": result_chars_max}
    check_kinds("tool_options", {option: (value, float) for option, value in numbers.items()})
    check_kinds("tool_options", {option: (value, int) for option, value in wholes.items()})
    _check_range("attempts", attempts, 1, ATTEMPTS_MAX)
    _check_range("delay_s", delay_s, 0, DELAY_S_MAX)
    _check_range("factor", factor, 1, 100)
    for option, seconds in (("timeout_s", timeout_s), ("approval_timeout_s", approval_timeout_s)):
        if seconds is not None and not 0 < seconds <= SECONDS_MAX:
            raise ValueError(f"{option} is more than 0 and at most a hundred years, not {seconds}")
    if not isinstance(needs_approval, bool):
        check_function("needs_approval, where it is neither True nor False,", needs_approval)
    options: dict[str, Any] = {"attempts": attempts}
    if delay_s:
        options |= {"delay_s": delay_s, "factor": factor}
    if retry_on is not None:
        options["retry_on"] = _names_of(retry_on)
    if at_most_once:
        options["at_most_once"] = True
    if timeout_s is not None:
        options["timeout_s"] = timeout_s
    if needs_approval is not False:
        options |= {"needs_approval": needs_approval, "approval_timeout_s": min(approval_timeout_s, APPROVAL_S_MAX)}
    if result_chars_max is not None:
        check_result_chars("result_chars_max", result_chars_max)
        options["result_chars_max"] = result_chars_max
    return {OPTIONS_KEY: options}


def _names_of(retry_on: Iterable[type[BaseException]]) -> list[str]:
    kinds = cast("list[object]", list(retry_on) if isinstance(cast("object", retry_on), Iterable) else [retry_on])
    errors = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseException)]
    if isinstance(retry_on, type) or len(errors) < len(kinds):
        raise TypeError(f"retry_on is a list of classes of errors, as [OSError], not {retry_on!r}")
    return [kind.__name__ for kind in errors]


def check_result_chars(option: str, value: int) -> None:
    """Refuse a limit of a result's length that is out of range.

    Raises:
        ValueError: names the option.
    """
    _check_range(option, value, *_RESULT_CHARS)


def _check_range(option: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ValueError(f"{option} is from {least:g} to {most:g}, not {value}")


def policy_of(options: Mapping[str, Any]) -> ToolPolicy:
    """Return how a tool with these options is run."""
    known = {key: options[key] for key in ToolPolicy.__dataclass_fields__ if key in options}
    if known.get("retry_on") is not None:
        known["retry_on"] = tuple(known["retry_on"])
    return ToolPolicy(**known)
