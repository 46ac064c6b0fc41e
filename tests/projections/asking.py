"""Runs that ask and wait, for the tests of how that looks from outside."""

from __future__ import annotations

from clew.actors.thread import (
    AlarmFired,
    AwaitSignal,
    CancelRun,
    DoubtStep,
    EndChild,
    FailStep,
    PauseRun,
    RecoverRun,
    RequestApproval,
    ResolveApproval,
    SendSignal,
    SettleStep,
    StartChild,
    StartRun,
    StartStep,
    SuspendRun,
    ThreadCommand,
)
from clew.journal.facts import NOTHING, ErrorFact
from clew.projections import ThreadView, view_of
from tests.actors.story import BOOM, Story, cancel, finish, raw, resume
from tests.projections.conversations import call, prompt_tail, results_tail, text, tool, turn

EXPIRES = 1000


def ask(
    id_: str = "a", *, run: str = "r1", name: str = "add", args: object = None, expires: int = EXPIRES
) -> RequestApproval:
    return RequestApproval(
        run=run,
        step=f"approval:{id_}",
        tool=name,
        call=f"tool:{name}:{id_}",
        arguments=raw({"n": 1} if args is None else args),
        fingerprint=f"print-{id_}",
        principal="agent:desk",
        policy="1",
        notify=False,
        expires_at=expires,
        at=3,
    )


def decide(id_: str = "a", decision: str = "approved", *, run: str = "r1", reason: str = "") -> ResolveApproval:
    return ResolveApproval(run, f"approval:{id_}", decision, "bob", reason, 5)


def edit(id_: str = "a", *, run: str = "r1") -> ResolveApproval:
    return ResolveApproval(run, f"approval:{id_}", "approved", "bob", "", 5, raw({"n": 2}), "edited")


def begin(id_: str = "a", *, run: str = "r1", name: str = "add", claimed: bool = False) -> StartStep:
    return StartStep(run, f"tool:{name}:{id_}", 1, claimed, None if claimed else f"approval:{id_}", None, 6)


def wait_for(*steps: str, run: str = "r1") -> SuspendRun:
    return SuspendRun(run, steps, 4)


def retry_later(id_: str = "a", *, run: str = "r1", until: int = 70) -> FailStep:
    return FailStep(run, f"tool:add:{id_}", {}, 1, False, BOOM, 3, until=until)


def await_signal(id_: str = "s", *, run: str = "r1", due: int | None = 90) -> AwaitSignal:
    return AwaitSignal(run, f"signal:{id_}", "paid", due, 3)


def signal(id_: str = "s1") -> SendSignal:
    return SendSignal(id_, "paid", raw({"sum": 3}), "ann", 8)


def start_child(id_: str = "k", *, run: str = "r1") -> StartChild:
    return StartChild(run, f"tool:ask:{id_}", "helper", "thread/child", f"{run}-{id_}", raw("help"), 80, 3)


def end_child(id_: str = "k", status: str = "done", *, run: str = "r1") -> EndChild:
    error = None if status == "done" else ErrorFact("Boom", "it broke")
    return EndChild(run, f"tool:ask:{id_}", status, raw("helped"), error, NOTHING, 7)


def settle(outcome: str, id_: str = "a", *, run: str = "r1") -> SettleStep:
    return SettleStep(run, f"tool:add:{id_}", outcome, "bob", "ann", 8, raw({"result": 3, "kind": "tool_return"}))


def queue(run: str, *, prompt: object = "later", at: int = 4, queue_for: int = 500) -> StartRun:
    return StartRun(run, "agent", raw(prompt), "ann", None, at, concurrent="queue", queue_for=queue_for)


def begin_run(run: str = "r1", *, timeout: int | None = None) -> StartRun:
    return StartRun(run, "agent", raw(f"prompt of {run}"), "ann", None, 1, timeout=timeout)


def cancel_all() -> CancelRun:
    return CancelRun(None, "ann", "enough", 9)


def called(*ids: str, run: str = "r1") -> ThreadCommand:
    """The first turn of a run, which makes these calls."""
    return turn(1, *(call(id_) for id_ in ids), tail=prompt_tail(), run=run)


EVERYTHING: list[ThreadCommand] = [
    begin_run(timeout=2000),
    called("a", "b", "c", "d"),
    queue("r2"),
    queue("r3"),
    queue("r4", queue_for=5),
    ask("a"),
    ask("b"),
    await_signal(),
    start_child(),
    retry_later("c"),
    begin("d", claimed=True),
    DoubtStep("r1", "tool:add:d", 3),
    wait_for("approval:a", "approval:b", "signal:s", "tool:ask:k", "tool:add:c", "tool:add:d"),
    decide("b", "rejected", reason="too much"),
    tool("b", "refused"),
    cancel("r3", owner="ann"),
    edit("a"),
    begin("a"),
    tool("a", 2),
    wait_for("signal:s", "tool:ask:k", "tool:add:c", "tool:add:d"),
    AlarmFired(75),
    tool("c", 3),
    signal(),
    end_child(),
    RecoverRun("r1", 5, 76),
    wait_for("tool:add:d"),
    settle("result", "d"),
    PauseRun("r1", "ann", "hold on", 77),
    wait_for("pause"),
    resume(owner="ann"),
    RecoverRun("r1", 0, 78),
    resume(owner="ann"),
    turn(2, call("e"), call("f"), tail=results_tail("a", "b", "c", "d")),
    ask("e"),
    start_child("f"),
    wait_for("approval:e", "tool:ask:f"),
    queue("r5"),
    cancel(owner="ann"),
    turn(1, text("later it is"), tail=prompt_tail(), run="r2"),
    finish("r2"),
    AlarmFired(5000),
]
"""A conversation in which everything happens that a run can wait for."""


ASKED = [ask(), wait_for("approval:a")]
DOUBTED = [begin("a", claimed=True), DoubtStep("r1", "tool:add:a", 3), wait_for("tool:add:a")]
SIGNALLED = [await_signal(), wait_for("signal:s")]
DELEGATED = [start_child(), wait_for("tool:ask:k")]
RETRIED = [retry_later(), wait_for("tool:add:a")]
PAUSED = [PauseRun("r1", "ann", "hold on", 3), wait_for("pause")]


def seen(*commands: ThreadCommand) -> ThreadView:
    return view_of(Story(begin_run(), called("a", "b"), *commands).events)
