"""Commands that an actor refuses, each with what to do about it: nothing was written."""

from __future__ import annotations

from decimal import Decimal

from .base import CommandRejected, shorten

__all__ = [
    "AlreadyDecided",
    "BudgetExceeded",
    "InvalidArguments",
    "InvalidDecision",
    "InvalidMessage",
    "InvalidSchedule",
    "RunConflict",
    "RunEnded",
    "TooManySchedules",
    "UnknownApproval",
    "UnknownRun",
    "UnknownSchedule",
]


class RunConflict(CommandRejected):
    """The thread is busy with another run."""

    def __init__(self, *, thread: str, run: str, status: str, queued: int = 0) -> None:
        self.thread = thread
        self.run = run
        self.status = status
        self.queued = queued
        behind = f"{queued} more wait behind it, the most that may" if queued else "one run owns a thread at a time"
        super().__init__(
            f"{thread}: run {run} is {status}, and {behind}. Wait for it, cancel it, or use another thread."
        )


class BudgetExceeded(CommandRejected):
    """A thread, or an owner over all of their threads, has used all that its agent's budget has for it.

    `scope` is "thread" or "owner" and `name` which one; `what` is "tokens" or "usd", `limit` and `spent` how many of
    them; `per` the period: "all", or a "day" or "month" of UTC. Where `what` is "unpriced", `spent` counts the requests
    whose cost is not known, so that the limit of USD cannot be kept.
    """

    def __init__(
        self, *, scope: str, name: str, what: str, limit: int | Decimal, spent: int | Decimal, per: str = "all"
    ) -> None:
        self.scope = scope
        self.name = name
        self.what = what
        self.limit = limit
        self.spent = spent
        self.per = per
        unit = "tokens" if what == "tokens" else "USD"
        most = f"{Decimal(limit):f} {unit} that this {scope} may use{'' if per == 'all' else f' in a {per} (UTC)'}"
        if what == "unpriced":
            text = f"what {spent} requests cost is not known, of the {most}. Limit tokens instead, or allow_unpriced,"
        else:
            text = f"{Decimal(spent):f} {unit} are spent, of the {most}. Raise the budget"
        later = "." if per == "all" else f", or try again in the next {per}."
        super().__init__(f"{name}: {text} in the definition of the agent{later}")


class UnknownRun(CommandRejected):
    """No run of this name in the thread."""

    def __init__(self, *, thread: str, run: str) -> None:
        self.thread = thread
        self.run = run
        super().__init__(f"{thread}: there is no run {run!r}. List them with `thread.view().runs`.")


class UnknownApproval(CommandRejected):
    """No question of this name in the thread, or it is none of yours."""

    def __init__(self, *, thread: str, approval: str) -> None:
        self.thread = thread
        self.approval = approval
        super().__init__(f"{thread}: there is no approval {approval!r}. List them with `thread.approvals()`.")


class AlreadyDecided(CommandRejected):
    """The approval was decided before, otherwise; a decision is final."""

    def __init__(self, *, thread: str, approval: str, decision: str, by: str | None) -> None:
        self.thread = thread
        self.approval = approval
        self.decision = decision
        self.by = by
        who = f" by {by}" if by is not None else ""
        super().__init__(f"{thread}: approval {approval} is {decision}{who}, and a decision is final. Nothing changed.")


class InvalidDecision(CommandRejected):
    """What was given as a decision is none, so nothing was decided."""

    def __init__(self, *, thread: str, decision: str) -> None:
        self.thread = thread
        self.decision = decision
        super().__init__(f"{thread}: {shorten(decision)} is no decision. Approve or reject; the approval still waits.")


class InvalidArguments(CommandRejected):
    """The tool does not take the arguments that a call was to be approved with, so nothing was decided."""

    def __init__(self, *, thread: str, approval: str, tool: str, path: str, reason: str) -> None:
        self.thread = thread
        self.approval = approval
        self.tool = tool
        self.path = path
        self.reason = reason
        super().__init__(
            f"{thread}: {tool} does not take these arguments, at {path}: {shorten(reason)}. "
            f"Correct them; approval {approval} still waits."
        )


class RunEnded(CommandRejected):
    """The run is over, so what arrives late for it is refused."""

    def __init__(self, *, thread: str, run: str, status: str, what: str) -> None:
        self.thread = thread
        self.run = run
        self.status = status
        self.what = what
        super().__init__(f"{thread}: run {run} is {status}; {what} came too late and was not recorded.")


class InvalidMessage(CommandRejected):
    """What another actor sent is no command of this one: nobody knows its name here, or its fields do not fit."""

    def __init__(self, *, stream: str, command: str, reason: str) -> None:
        self.stream = stream
        self.command = command
        self.reason = reason
        super().__init__(
            f"{stream}: the message {shorten(command)!r} is no command: {reason}. See the `commands` of its kind."
        )


class InvalidSchedule(CommandRejected):
    """What is to be done at a time is malformed, or the time can never come."""

    def __init__(self, *, schedule: str, reason: str) -> None:
        self.schedule = schedule
        self.reason = reason
        super().__init__(f"{schedule}: {reason}")


class UnknownSchedule(CommandRejected):
    """No schedule of this name is there: it never was, has had its time, or was cancelled."""

    def __init__(self, *, schedule: str) -> None:
        self.schedule = schedule
        super().__init__(f"there is no schedule {schedule!r}. List those there are, or set it.")


class TooManySchedules(CommandRejected):
    """The actor has as many schedules as it takes."""

    def __init__(self, *, schedule: str, schedules_max: int) -> None:
        self.schedule = schedule
        self.schedules_max = schedules_max
        super().__init__(
            f"schedule {schedule!r}: there are {schedules_max} already, the most an actor takes. "
            "Cancel one, or set it in another actor."
        )
