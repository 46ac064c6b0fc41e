"""What can be asked of a conversation besides runs and steps, in one line each; `t` is the time in whole numbers."""

from __future__ import annotations

from clew.actors.outbox import Acknowledge, Outgoing
from clew.actors.thread import (
    AlarmFired,
    AwaitSignal,
    CancelRun,
    CompleteStep,
    DoubtStep,
    EndChild,
    FailStep,
    NoteNotified,
    PauseRun,
    RecoverRun,
    RequestApproval,
    Requester,
    ResolveApproval,
    SendSignal,
    SettleStep,
    StartChild,
    StartRun,
    StartStep,
    SuspendRun,
)
from clew.journal.facts import NOTHING, ErrorFact
from tests.actors.story import BOOM, raw

HOUR = 3_600_000_000_000

PAY = "tool:pay:c1"
ASKED = "approval:c1"
PARENT = Requester("thread/parent", "p1", "tool:ask:c1")


def begin(
    run: str = "r1",
    *,
    concurrent: str = "queue",
    at: int = 1,
    timeout: int | None = None,
    requester: Requester | None = None,
    owner: str | None = None,
    state: object = None,
) -> StartRun:
    return StartRun(
        run,
        "agent",
        raw(f"prompt of {run}"),
        owner,
        None,
        at,
        concurrent=concurrent,
        timeout=timeout,
        requester=requester,
        state=raw(state),
    )


def cancel_all(*, at: int = 9, owner: str | None = None) -> CancelRun:
    return CancelRun(None, owner, "enough", at)


def pause(run: str = "r1", *, at: int = 3) -> PauseRun:
    return PauseRun(run, None, "wait", at)


def suspend(*waiting: str, run: str = "r1", at: int = 4) -> SuspendRun:
    return SuspendRun(run, waiting, at)


def recover(run: str = "r1", *, most: int = 5, at: int = 4) -> RecoverRun:
    return RecoverRun(run, most, at)


def alarm(at: int) -> AlarmFired:
    return AlarmFired(at)


def ask_approval(
    step: str = ASKED, *, run: str = "r1", call: str = PAY, expires_at: int = 100, notify: bool = False, at: int = 3
) -> RequestApproval:
    return RequestApproval(
        run, step, "pay", call, raw({"amount": 1}), "f1", f"agent:agent/{run}", "1", notify, expires_at, at
    )


def approve(step: str = ASKED, *, run: str = "r1", by: str | None = "ann", at: int = 5) -> ResolveApproval:
    return ResolveApproval(run, step, "approved", by, "", at)


def approve_edited(
    arguments: object, fingerprint: str | None, *, step: str = ASKED, run: str = "r1", at: int = 5
) -> ResolveApproval:
    return ResolveApproval(run, step, "approved", "ann", "", at, raw(arguments), fingerprint)


def reject(step: str = ASKED, *, run: str = "r1", by: str | None = "ann", at: int = 5) -> ResolveApproval:
    return ResolveApproval(run, step, "rejected", by, "too much", at)


def note_notified(step: str = ASKED, *, run: str = "r1", at: int = 8) -> NoteNotified:
    return NoteNotified(run, step, at)


def begin_step(
    step: str = PAY,
    *,
    run: str = "r1",
    attempt: int = 1,
    claimed: bool = False,
    approval: str | None = None,
    due: int | None = None,
    at: int = 6,
) -> StartStep:
    return StartStep(run, step, attempt, claimed, approval, due, at)


def complete_call(
    step: str = PAY,
    *,
    run: str = "r1",
    approval: str | None = ASKED,
    outcome: str = "approved",
    messages: tuple[Outgoing, ...] = (),
    at: int = 7,
) -> CompleteStep:
    return CompleteStep(run, step, {}, raw("ok"), at, messages=messages, approval=approval, outcome=outcome)


def fail_until(until: int, step: str = PAY, *, run: str = "r1", attempt: int = 1, at: int = 3) -> FailStep:
    return FailStep(run, step, {}, attempt, final=False, error=BOOM, at=at, until=until)


def doubt(step: str = PAY, *, run: str = "r1", at: int = 7) -> DoubtStep:
    return DoubtStep(run, step, at)


def settle(
    outcome: str,
    step: str = PAY,
    *,
    run: str = "r1",
    result: object = None,
    error: ErrorFact | None = None,
    owner: str | None = None,
    at: int = 8,
) -> SettleStep:
    return SettleStep(run, step, outcome, "ann", owner, at, raw(result), error)


def signal(id_: str, name: str = "go", *, payload: object = 1, owner: str | None = None, at: int = 5) -> SendSignal:
    return SendSignal(id_, name, raw(payload), owner, at)


def await_signal(
    step: str = "signal:go", name: str = "go", *, run: str = "r1", due: int | None = None, at: int = 3
) -> AwaitSignal:
    return AwaitSignal(run, step, name, due, at)


def start_child(
    step: str = "tool:ask:c1", *, run: str = "r1", thread: str = "thread/child", due: int = 300, at: int = 3
) -> StartChild:
    return StartChild(run, step, "helper", thread, f"{run}.{step}", raw("help"), due, at)


def end_child(step: str = "tool:ask:c1", *, run: str = "r1", status: str = "done", at: int = 6) -> EndChild:
    return EndChild(run, step, status, raw("answer"), None, NOTHING, at)


def acknowledge(id_: str, *, refused: ErrorFact | None = None, at: int = 6) -> Acknowledge:
    return Acknowledge(id_, refused, at)
