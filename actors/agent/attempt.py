"""One attempt after another at a step: claimed where it may run once at the most, bounded in time, later each time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from ..thread import DoubtStep, StartStep
from .options import ToolPolicy
from .recorded import NOT_RECORDED, StepEvents
from .timing import MOMENT_NS, deadline, sleep_until

if TYPE_CHECKING:
    from .steps import RunSteps

__all__ = ["Attempt", "StepTimedOut"]

T = TypeVar("T")


class StepTimedOut(Exception):
    """An attempt at a step took longer than it may."""


class Attempt:
    """The attempts at one step, counted over crashes."""

    def __init__(self, steps: RunSteps, name: str, policy: ToolPolicy, found: StepEvents, approval: str | None) -> None:
        self.number = found.attempts
        self._steps = steps
        self._name = name
        self._policy = policy
        self._approval = approval
        self._until = found.until
        self._due = found.due
        self._claimed = found.claimed or 0
        self._before = found.attempts
        self._lapsed = found.lapsed

    async def begin(self) -> None:
        """Wait until the next attempt may begin, and record that it does where that matters."""
        steps, name, policy = self._steps, self._name, self._policy
        if self._claimed:
            await self._settled(self._claimed)
        if self._until is not None:
            await self._wait(self._until)
        self.number += 1
        left = self._due
        if left is None and policy.timeout_s is not None:
            self._due = steps.now() + round(policy.timeout_s * 1e9)
        first = left is None or policy.at_most_once
        if first and (policy.at_most_once or self._approval is not None or self._due is not None):
            command = StartStep(
                steps.run, name, self.number, policy.at_most_once, self._approval, self._due, steps.now()
            )
            again = f".{self._lapsed}" if self._lapsed else ""
            steps.recording.send(command, f"{steps.run}/{name}>{self.number}{again}")
            if policy.at_most_once:
                steps.record.note_within(name, NOT_RECORDED._replace(attempts=self.number - 1, claimed=self.number))
            if policy.at_most_once or self._approval is not None:
                # A claim that a crash could lose would be none.
                await steps.recording.synced()

    async def run(self, body: Callable[[], Awaitable[T]]) -> T:
        """Run the body, at the longest until the attempt must have ended.

        Raises:
            StepTimedOut: it took longer.
        """
        if self._due is None:
            return await body()
        due, self._due = self._due, None
        if due <= self._steps.now():
            raise self._timed_out()
        try:
            # A step that waits for people takes as long as they do.
            async with deadline(self._steps.now, due, unless=lambda: self._steps.siblings.waits(self._name)):
                return await body()
        except TimeoutError as error:
            if self._steps.now() < due:
                raise
            if self._policy.at_most_once:
                # It may have done its work, or do it yet: that is as unknown as after a crash.
                await self._settled(self.number)
            raise self._timed_out() from error

    def is_last(self, error: BaseException) -> bool:
        """Whether no attempt comes after this one, which raised."""
        attempts = max(self._policy.attempts, self._before + 1)
        return self.number >= attempts or not self._policy.retries(error)

    def until(self, now: int) -> int | None:
        """Return before when the next attempt may not be; None where it may be at once."""
        delay = self._policy.delay_ns(self.number)
        self._until = now + delay if delay else None
        return self._until

    def _timed_out(self) -> StepTimedOut:
        return StepTimedOut(f"it took longer than {self._policy.timeout_s or 0:g} s")

    async def _settled(self, claimed: int) -> None:
        """Wait until somebody has settled the attempt that was claimed and has no result: it may be tried again."""
        steps = self._steps
        answer = await steps.wait(self._name, lambda at: DoubtStep(steps.run, self._name, at), anew=claimed)
        raise AssertionError(f"{self._name} was settled with {answer} and its step does not know: a bug of Clew")

    async def _wait(self, until: int) -> None:
        steps, self._until = self._steps, None
        if until - steps.now() > MOMENT_NS:
            await steps.siblings.park(self._name)
        await sleep_until(steps.now, until)
