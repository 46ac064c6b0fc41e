"""Who may decide: the owner, or whom the agent's policy admits; never an agent, and nobody else can tell what waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clew.actors import ActorSystem, AlreadyDecided, InvalidDecision, UnknownApproval, UnknownKind
from clew.actors.agent import PendingApproval, define_agent
from clew.actors.testing import final_turn, scripted_model, tool_call_turn
from clew.journal import MemoryJournal
from clew.journal.archive import archive
from clew.journal.history import import_history
from clew.projections import approvals_inbox
from tests.actors.payments import Payments, awaiting, rejecting
from tests.actors.support import WAIT_S, events_of, until

T = "thread/t"


def four_eyes(asked: PendingApproval, by: str | None) -> bool:
    """The boss decides what is dear, and the deputy the rest."""
    return by == ("boss" if asked.arguments["amount"] > 100 else "deputy")


def refused(system: ActorSystem, by: str | None, id_: str) -> list[str]:
    """What somebody is told about an approval that is not theirs to decide."""
    texts: list[str] = []
    for decide in (system.approvals(by=by).approve, rejecting(system.approvals(by=by))):
        with pytest.raises(UnknownApproval) as error:
            decide(id_)
        texts.append(str(error.value).partition(": ")[2])
    return texts


@pytest.mark.requirement("G-HITL-6")
def test_to_whoever_may_not_decide_an_approval_does_not_exist() -> None:
    payments = Payments()
    with payments.open("memory:") as system:
        [asked] = awaiting(payments, system)
        thread, before = payments.thread(system), events_of(system.journal, T)
        known, unknown = f"thread/t/{asked.id}", f"thread/t/{asked.id}0"

        strangers = ["eve", None, "", "agent:cashier:t", "agent:ann"]
        for id_ in (known, unknown, "thread/x/r/y", "z"):
            text = f"there is no approval {id_!r}. List them with `thread.approvals()`."
            assert [refused(system, by, id_) for by in strangers] == [[text, text]] * len(strangers)
        assert [system.approvals(by=by).pending() for by in strangers] == [[]] * len(strangers)
        for by in ("eve", "agent:cashier:t"):
            with pytest.raises(UnknownApproval):
                thread.approve(asked.id, by=by)

        assert events_of(system.journal, T) == before
        assert thread.approve(asked.id).get(timeout=WAIT_S).by == "ann"


def test_whoever_the_policy_admits_decides_in_place_of_the_owner() -> None:
    payments = Payments(approvers=four_eyes)
    with payments.open("memory:") as system:
        [asked] = awaiting(payments, system)
        thread = payments.thread(system)
        with pytest.raises(UnknownApproval):
            thread.approve(asked.id)
        boss, deputy = system.approvals(by="boss"), system.approvals(by="deputy")
        [found] = deputy.pending()
        nothing = boss.pending()
        with pytest.raises(InvalidDecision):
            deputy.decide(found.id, None)  # pyright: ignore[reportArgumentType]
        decided = deputy.approve(found.id).get(timeout=WAIT_S)
        answer = thread.attach("r").result(timeout_s=WAIT_S)
        with pytest.raises(AlreadyDecided, match="approved by deputy"):
            deputy.reject(found.id, "no").get(timeout=WAIT_S)
        left = deputy.pending()

    assert (found.id, found.arguments) == (f"thread/t/{asked.id}", asked.arguments)
    assert (nothing, left) == ([], [])
    assert (decided.by, decided.id, decided.thread) == ("deputy", found.id, "t")
    assert answer.output == "paid 5 to bob"


@pytest.mark.parametrize("answer", [None, 1, "yes", ZeroDivisionError()])
def test_a_policy_that_does_not_say_yes_admits_nobody(answer: Any) -> None:
    def unsure(asked: PendingApproval, by: str | None) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    payments = Payments(approvers=unsure)
    with payments.open("memory:") as system:
        [asked] = awaiting(payments, system)
        with pytest.raises(UnknownApproval):
            payments.thread(system).approve(asked.id)
        assert system.approvals(by="ann").pending() == []
    assert payments.paid == []


def test_a_thread_without_an_owner_is_decided_by_whoever_comes_but_no_agent() -> None:
    payments = Payments()
    with payments.open("memory:") as system:
        thread = payments.thread(system, owner=None)
        thread.run("pay", run_id="r").started(timeout_s=WAIT_S)
        pending = system.approvals(by="bob")
        until(pending.pending)
        [asked] = pending.pending()
        with pytest.raises(UnknownApproval):
            system.approvals(by="agent:cashier:t").approve(asked.id)
        assert pending.approve(asked.id).get(timeout=WAIT_S).by == "bob"
        assert thread.attach("r").result(timeout_s=WAIT_S).output == "paid 5 to bob"


@pytest.mark.requirement("L-RUN-6")
def test_an_agent_does_not_decide_about_itself_by_holding_its_own_thread() -> None:
    payments, systems, told = Payments(), list[ActorSystem](), list[str]()

    async def help_myself() -> str:
        thread = payments.thread(systems[0])
        for asked in thread.approvals():
            try:
                await thread.approve(asked.id)
            except UnknownApproval as error:
                told.append(error.approval)
        return "tried"

    sly = define_agent(
        "sly", model=scripted_model([tool_call_turn("s1", "help_myself", {}), final_turn("done")]), tools=[help_myself]
    )
    with ActorSystem("memory:", agents=[payments.agent, sly]) as system:
        systems.append(system)
        [asked] = awaiting(payments, system)
        system.thread(sly, "other", owner="ann").run("go").result(timeout_s=WAIT_S)

        assert told == [asked.id]
    assert payments.paid == []


def test_what_waits_is_found_over_all_threads_with_the_projection_and_without() -> None:
    payments, journal = Payments(), MemoryJournal()
    with payments.open(journal) as system:
        for key in ("a", "order/1042", "c"):
            awaiting(payments, system, key)
        folded = [asked.id for asked in system.approvals(by="ann").pending()]
    with payments.open(journal, projections=[approvals_inbox]) as system:
        system.projections.settle()
        kept = system.approvals(by="ann")
        [_, _, last] = kept.pending()
        kept.reject(last.id, "no").get(timeout=WAIT_S)
        system.projections.settle()
        left = [asked.id for asked in kept.pending()]

    assert folded == ["thread/a/r/approval:c1", "thread/c/r/approval:c1", "thread/order%2F1042/r/approval:c1"]
    assert left == [id_ for id_ in folded if id_ != last.id]


def test_a_system_without_the_agent_decides_nothing_for_it() -> None:
    payments, other, journal = Payments(), Payments(name="other"), MemoryJournal()
    with payments.open(journal) as system:
        [asked] = awaiting(payments, system)
    with other.open(journal) as system:
        thread = system.thread(other.agent, "t", owner="ann")
        [seen] = thread.approvals()
        with pytest.raises(UnknownKind, match="cashier"):
            thread.approve(asked.id)
        with pytest.raises(UnknownApproval):
            system.approvals(by="eve").approve(f"thread/t/{asked.id}")

    assert (seen.id, seen.agent, seen.arguments) == (asked.id, "cashier", None)


def test_what_waits_in_an_archived_thread_is_not_in_the_inbox_until_it_is_back(tmp_path: Path) -> None:
    payments, journal = Payments(), MemoryJournal()
    with payments.open(journal, projections=[approvals_inbox], idle_s=0.01) as system:
        [asked] = awaiting(payments, system)
        awaiting(payments, system, "u")
        inbox = system.approvals(by="ann")
        until(lambda: system.live == 0 and len(inbox.pending()) == 2)

        report = archive(journal, [T], tmp_path, take_open=True)
        archived = [waits.id for waits in inbox.pending()]
        import_history(journal, report.archived[0].file)
        back = [waits.id for waits in inbox.pending()]
        inbox.approve(f"thread/t/{asked.id}").get(timeout=WAIT_S)
        assert payments.thread(system).attach("r").result(timeout_s=WAIT_S).output == "paid 5 to bob"

    assert archived == ["thread/u/r/approval:c1"]
    assert back == ["thread/t/r/approval:c1", "thread/u/r/approval:c1"]
