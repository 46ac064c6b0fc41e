"""A run that is cancelled while it ends has one end, and whoever cancels is told which."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from clew.actors import ActorRef, ActorSystem, RunEnded
from clew.actors.thread import ThreadCommand, ThreadState
from clew.journal import MemoryJournal
from tests.actors.story import THREAD, cancel, complete, fail, finish, start
from tests.actors.support import WAIT_S, events_of

TERMINAL = {"finished", "failed", "cancelled"}

Thread = ActorRef[ThreadCommand, ThreadState]


@pytest.mark.scenario("CON-03")
@pytest.mark.parametrize("end", [finish(), fail()])
def test_of_a_cancel_and_an_end_that_race_one_wins_and_both_are_told(end: ThreadCommand) -> None:
    journal, told = MemoryJournal(), list[tuple[str, bool]]()
    with ActorSystem(journal, actors=[THREAD], threads=2) as system, ThreadPoolExecutor(2) as pool:
        for number in range(60):
            ref, together = system.ref(THREAD, f"t{number}"), threading.Barrier(2)
            ref.ask(start()).get(timeout=WAIT_S)

            stopping, ending = pool.submit(stop, ref, together), pool.submit(ends, ref, together, end)

            told.append((stopping.result(WAIT_S), ending.result(WAIT_S)))
            with pytest.raises(RunEnded):
                ref.ask(complete()).get(timeout=WAIT_S)

    for number, (status, ended) in enumerate(told):
        events = events_of(journal, f"thread/t{number}")
        assert len(TERMINAL & set(events)) == 1
        assert (status == "cancelled") == ("cancelled" in events) == (not ended)
        assert events[2:] == [events[-1]]


def stop(ref: Thread, together: threading.Barrier) -> str:
    """Cancel the run, and return what its status is said to be."""
    together.wait(WAIT_S)
    return ref.ask(cancel()).get(timeout=WAIT_S).runs["r1"].status.value


def ends(ref: Thread, together: threading.Barrier, end: ThreadCommand) -> bool:
    """End the run, and return whether it took it."""
    together.wait(WAIT_S)
    try:
        ref.ask(end).get(timeout=WAIT_S)
    except RunEnded:
        return False
    return True
