"""`clew approvals`, `clew approve` and `clew reject`, and what `clew run` says of a run that waits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.actors import ActorSystem, AlreadyDecided, InvalidArguments
from clew.actors.agent import AgentDefinition
from clew.adapters.cli.approvals import approvals, approve, reject
from clew.adapters.cli.exits import ExitCode, Refused
from clew.adapters.cli.show import show
from clew.journal import JournalLocked
from clew.journal.lmdb import LmdbJournal
from tests.actors.support import WAIT_S, until
from tests.adapters import payer

from .command import Clew

AGENT = "tests.adapters.payer"
ROOT = Path(__file__).parents[2]

ID = "thread/order%2F7/r/approval:c"

Read = Callable[[], Any]


@pytest.fixture
def read(capsys: pytest.CaptureFixture[str]) -> Read:
    """What a command wrote, as JSON."""
    return lambda: json.loads(capsys.readouterr().out)


def waiting_in(path: Path, agent: AgentDefinition[Any, Any] = payer.agent) -> str:
    """A journal in which a payment of Ann's and one of Bob's wait for a decision."""
    with ActorSystem(path, agents=[agent]) as system:
        for key, owner, amount in (("order/7", "ann", 5), ("order/8", "bob", 6)):
            thread = system.thread(agent, key, owner=owner)
            thread.run(f"pay {amount}", run_id="r").started(timeout_s=WAIT_S)
            until(lambda thread=thread: thread.status("r") == "awaiting_input")
    return str(path)


def goes_on(path: str, agent: AgentDefinition[Any, Any] = payer.agent) -> str:
    """Open the journal again, and return the answer to Ann."""
    with ActorSystem(path, agents=[agent]) as system:
        return system.thread(agent, "order/7", owner="ann").attach("r").result(timeout_s=WAIT_S).output


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The journal, and where the tools write."""
    monkeypatch.setenv("CALLS", str(tmp_path / "started.txt"))
    return waiting_in(tmp_path / "journal")


def called(journal: str) -> list[str]:
    """The tools that began."""
    path = Path(journal).with_name("started.txt")
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def test_what_waits_is_listed_over_all_threads_also_beside_whoever_writes(
    journal: str, read: Read, clew: Clew, capsys: pytest.CaptureFixture[str]
) -> None:
    with LmdbJournal(Path(journal)):
        rows = clew("approvals", journal, "--json").json
    approvals(journal, owner="bob", as_json=True)
    of_bob = read()
    approvals(journal)
    table = capsys.readouterr().out

    assert [(row["id"], row["owner"], row["arguments"]) for row in rows] == [
        (ID, "ann", {"amount": 5}),
        ("thread/order%2F8/r/approval:c", "bob", {"amount": 6}),
    ]
    assert rows[0].keys() >= {"thread", "run", "agent", "tool", "fingerprint", "principal", "asked_at", "expires_at"}
    assert [row["owner"] for row in of_bob] == ["bob"]
    assert f"{ID}  " in table
    assert "pay(amount=5)" in table


def test_an_approval_is_recorded_and_nothing_is_called_before_the_journal_is_opened_again(
    journal: str, read: Read
) -> None:
    assert approve(journal, ID, as_json=True) == 0
    decided = read()
    approvals(journal, as_json=True)
    left = read()
    before = called(journal)

    assert (decided["decision"], decided["by"], decided["outcome"]) == ("approved", "ann", None)
    assert [row["owner"] for row in left] == ["bob"]
    assert before == []
    assert goes_on(journal) == "paid 5"
    assert called(journal) == ["tool:pay:c"]


def test_a_rejection_reaches_the_model_with_its_reason(journal: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert reject(journal, ID, reason="too much", by="boss") == 0

    assert "rejected by boss: too much" in capsys.readouterr().out
    assert "too much" in goes_on(journal)
    assert called(journal) == []


def test_edited_arguments_must_fit_the_tool(journal: str) -> None:
    with pytest.raises(Refused, match="--agent MODULE:AGENT"):
        approve(journal, ID, arguments='{"amount": 3}')
    for wrong, says in (("{", "not JSON"), ("3", "a JSON object")):
        with pytest.raises(Refused, match=says):
            approve(journal, ID, arguments=wrong, agent=f"{AGENT}:agent")
    with pytest.raises(InvalidArguments, match="amount"):
        approve(journal, ID, arguments='{"amount": "much"}', agent=f"{AGENT}:agent")

    assert approve(journal, ID, arguments='{"amount": 3}', agent=f"{AGENT}:agent") == 0
    assert called(journal) == []
    assert goes_on(journal) == "paid 3"


def test_with_its_agent_an_approval_is_decided_by_the_agents_own_rules(tmp_path: Path) -> None:
    journal = waiting_in(tmp_path / "strict", payer.strict)
    for by in (None, "ann", "agent:payer"):
        with pytest.raises(Refused, match="to decide; say who does"):
            approve(journal, ID, by=by, agent=f"{AGENT}:strict")
    with pytest.raises(Refused, match="belongs to agent 'payer', not 'support_desk'"):
        approve(journal, ID, agent="clew.examples.support_desk:build_agent")

    assert approve(journal, ID, by="boss", agent=f"{AGENT}:strict") == 0


def test_a_decision_is_final_here_too(journal: str) -> None:
    approve(journal, ID)

    assert approve(journal, ID) == 0
    with pytest.raises(AlreadyDecided, match="approved by ann"):
        reject(journal, ID, reason="no")


@pytest.mark.parametrize("id_", ["nope", "thread/x/r/approval:c", f"{ID} ", "thread/order/7/r/approval:c", ""])
def test_what_does_not_wait_is_not_decided(id_: str, journal: str) -> None:
    with LmdbJournal(Path(journal), readonly=True) as opened:
        before = [event.digest for event in opened.read_all()]
    with pytest.raises(Refused, match="no such approval"):
        approve(journal, id_)

    with LmdbJournal(Path(journal), readonly=True) as opened:
        assert [event.digest for event in opened.read_all()] == before


def test_nothing_is_decided_while_another_process_has_the_journal_open(journal: str, tmp_path: Path) -> None:
    with LmdbJournal(Path(journal)), pytest.raises(JournalLocked):
        approve(journal, ID)
    with pytest.raises(Refused, match="no journal here"):
        approve(str(tmp_path / "none"), ID)

    assert not (tmp_path / "none").exists()


def test_sealed_arguments_are_listed_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = waiting_in(tmp_path / "sealed", payer.sealed)
    approvals(journal)
    table = capsys.readouterr().out
    show("order/7", journal=journal)
    page = capsys.readouterr().out

    assert "pay(sealed)" in table
    assert "pay(sealed)" in page
    assert "amount" not in table + page


def test_a_conversation_says_how_what_it_waits_for_is_decided(journal: str, capsys: pytest.CaptureFixture[str]) -> None:
    show("order/7", journal=journal)

    assert f"  decide: clew approve {journal} {ID}" in capsys.readouterr().out


RUN = ("run", f"{AGENT}:agent", "--thread", "t", "--owner", "ann", "--run-id", "r")


def test_a_run_that_waits_for_a_decision_is_left_at_once_and_goes_on_after_it(clew: Clew) -> None:
    env = {"PYTHONPATH": str(ROOT)}
    asked = clew(*RUN, "pay 5", env=env)
    again = clew("run", f"{AGENT}:agent", "pay 6", "--thread", "t", "--owner", "ann", env=env)
    as_json = clew(*RUN, "--json", env=env)
    approved = clew("approve", "clew-data", "thread/t/r/approval:c")
    done = clew(*RUN, env=env)

    assert asked.code == again.code == as_json.code == ExitCode.WAITS == 6
    assert "run r is awaiting input: approval:c waits for a decision about pay, until 2" in asked.err
    assert "decide: clew approve clew-data thread/t/r/approval:c" in asked.err
    assert f"then let it go on: clew run {AGENT}:agent --thread t --owner ann" in asked.err
    assert "TEXT was not asked, for run r is open" in again.err
    assert as_json.lines[-1]["status"] == "awaiting_input"
    assert approved.out.startswith("approved by ann\n")
    assert (done.code, done.out) == (0, "paid 5\n")
    assert clew.calls() == ["tool:pay:c"]


def test_a_step_that_is_tried_again_later_is_waited_for(clew: Clew) -> None:
    done = clew(*RUN, "retry 5", env={"PYTHONPATH": str(ROOT)})

    assert (done.code, done.out) == (0, "paid 5\n")
    assert clew.calls() == ["tool:retry:c"] * 2


def test_an_approval_whose_time_is_over_lets_its_run_go_on(clew: Clew) -> None:
    env = {"PYTHONPATH": str(ROOT)}
    asked = clew(*RUN, "hurry 5", env=env)
    # By then it may have expired; it surely has when it is not listed any more.
    until(lambda: clew("approvals", "clew-data", "--json").json == [])
    done = asked if asked.code == 0 else clew(*RUN, env=env)

    assert done.code == 0
    assert "nobody decided in time" in done.out
    assert clew.calls() == []


def test_a_run_that_waits_for_a_signal_or_was_paused_is_left_or_resumed(
    tmp_path: Path, clew: Clew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLS", str(tmp_path / "started.txt"))
    env = {"PYTHONPATH": str(ROOT)}
    left = clew(*RUN, "listen 1", env=env)
    with ActorSystem(tmp_path / "clew-data", agents=[payer.agent]) as system:
        thread = system.thread(payer.agent, "t", owner="ann")
        thread.pause("r").get(timeout=WAIT_S)
        thread.signal("paid", "for real").get(timeout=WAIT_S)
        until(lambda: thread.status("r") == "paused")
    done = clew(*RUN, env=env)

    assert left.code == 6
    assert "waits for the signal paid" in left.err
    assert (done.code, done.out) == (0, "for real\n")
