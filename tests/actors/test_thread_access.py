"""Only the owner sees a thread; to everyone else it does not exist."""

from __future__ import annotations

import pytest

from clew.actors import CommandRejected, UnknownThread
from clew.actors.thread import ThreadCommand, ThreadState
from tests.actors.story import cancel, complete, decide, evolved, finish, given, halt, resume, start

ANN = [start(owner="ann")]
STRANGERS = ["bob", None, "", "Ann", "ann "]


@pytest.mark.requirement("L-ACL-1")
@pytest.mark.parametrize("command", [start(owner="ann"), cancel(owner="ann"), resume(owner="ann")])
def test_an_owned_thread_answers_its_owner(command: ThreadCommand) -> None:
    thread = given(*ANN)

    assert evolved(thread, decide(thread, command)).owner == "ann"


@pytest.mark.requirement("L-ACL-2", "L-ACL-5")
@pytest.mark.parametrize("stranger", STRANGERS)
@pytest.mark.parametrize("before", [ANN, [*ANN, halt()], [*ANN, finish()]])
def test_to_anyone_else_a_thread_and_its_runs_look_as_if_they_were_not_there(
    before: list[ThreadCommand], stranger: str | None
) -> None:
    there, nowhere = given(*before), ThreadState(stream="thread/t")

    for command in (cancel(owner=stranger), cancel("r9", owner=stranger), resume(owner=stranger)):
        refusals = [_refusal(thread, command) for thread in (there, nowhere)]
        assert refusals[0] == refusals[1]
    for taken in (start(owner=stranger), start("r2", owner=stranger), start("", owner=stranger)):
        assert _refusal(there, taken) == _refusal(there, cancel(owner=stranger))


def _refusal(thread: ThreadState, command: ThreadCommand) -> tuple[type, str, dict[str, object]]:
    with pytest.raises(UnknownThread) as refused:
        decide(thread, command)
    return type(refused.value), str(refused.value), vars(refused.value)


@pytest.mark.requirement("L-ACL-3")
@pytest.mark.parametrize("end", [finish(), cancel(owner="ann")])
def test_the_owner_never_changes(end: ThreadCommand) -> None:
    thread = given(*ANN, complete(), end)

    later = evolved(thread, decide(thread, start("r2", owner="ann", title="mine")))

    assert later.owner == "ann"
    for stranger in STRANGERS:
        with pytest.raises(UnknownThread):
            decide(later, cancel("r2", owner=stranger))


@pytest.mark.requirement("L-ACL-4")
@pytest.mark.parametrize("caller", [None, "ann", "bob"])
def test_a_thread_without_an_owner_is_open_to_whoever_knows_its_key(caller: str | None) -> None:
    thread = given(start())

    cancelled = evolved(thread, decide(thread, cancel(owner=caller)))

    assert evolved(cancelled, decide(cancelled, start("r2", owner=caller))).owner is None


@pytest.mark.parametrize("missing", ["", " ", "\t"])
def test_an_identity_that_is_empty_owns_nothing(missing: str) -> None:
    for thread in (given(), given(start()), given(start(), finish())):
        with pytest.raises(CommandRejected, match="owns nothing"):
            decide(thread, start("r2", owner=missing))
