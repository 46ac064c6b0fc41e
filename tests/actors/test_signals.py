"""A signal reaches a run that waits for it, awake or not, once, and one that came early is not lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Tool

from clew.actors import ActorSystem, CommandRejected, SignalTimedOut, UnknownThread
from clew.actors.agent import AgentDefinition, define_agent, replay, tool_options, tool_step
from clew.actors.testing import Script, VirtualClock, final_turn, scripted_model, tool_call_turn
from clew.journal import MemoryJournal, NotRepresentable
from tests.actors.support import WAIT_S, events_of, until

T = "thread/t"


class Listener:
    """An agent whose tool waits for signals and says what it got."""

    def __init__(self, *, signals: int = 1, timeout_s: float | None = None) -> None:
        self.got: list[Any] = []
        self.starts = 0
        self.clock = VirtualClock()

        async def listen() -> str:
            self.starts += 1
            got: list[Any] = []
            for _ in range(signals):
                try:
                    got.append(await tool_step().wait_for_signal("go", timeout_s=timeout_s))
                except SignalTimedOut as error:
                    got.append(f"no {error.signal}")
            self.got.append(got)
            return str(got)

        script = Script([tool_call_turn("c1", "listen", {}), final_turn("done")] * 3)
        self.agent: AgentDefinition[Any, str] = define_agent(
            "listener", model=scripted_model(script), tools=[Tool(listen, metadata=tool_options(attempts=1))]
        )

    def open(self, journal: Any, **options: Any) -> ActorSystem:
        return ActorSystem(journal, agents=[self.agent], clock=self.clock, **options)


@pytest.mark.requirement("L-RUN-5", "L-RUN-11", "L-HITL-3")
def test_a_signal_wakes_a_run_that_sleeps_and_is_taken_once() -> None:
    listener = Listener(signals=2)
    with listener.open("memory:", idle_s=0.01) as system:
        thread = system.thread(listener.agent, "t", owner="ann")
        thread.run("listen", run_id="r").started(timeout_s=WAIT_S)
        until(lambda: thread.status("r") == "awaiting_input" and system.live == 0)
        for _ in range(3):
            thread.signal("go", {"n": 1}, id="one").get(timeout=WAIT_S)
        thread.signal("other", 0).get(timeout=WAIT_S)
        until(lambda: thread.status("r") == "awaiting_input" and system.live == 0)
        between = list(listener.got)
        thread.signal("go", [2]).get(timeout=WAIT_S)
        answer = thread.attach("r").result(timeout_s=WAIT_S)
        replayed = replay(thread, listener.agent)

    assert (between, listener.got, answer.output) == ([], [[{"n": 1}, [2]]], "done")
    assert replayed.digests_equal


@pytest.mark.requirement("L-RUN-5", "L-HITL-8")
def test_a_signal_that_came_first_is_kept_over_a_restart_and_its_id_with_it(tmp_path: Path) -> None:
    listener, path = Listener(), tmp_path / "data"
    with listener.open(path) as system:
        thread = system.thread(listener.agent, "t", owner="ann")
        thread.run("hello", run_id="r").started(timeout_s=WAIT_S)
        until(lambda: thread.status("r") == "awaiting_input")
        thread.signal("go", "first", id="s").get(timeout=WAIT_S)
        thread.attach("r").result(timeout_s=WAIT_S)
        thread.signal("go", "second", id="s2").get(timeout=WAIT_S)
    with listener.open(path) as system:
        thread = system.thread(listener.agent, "t", owner="ann")
        for id_ in ("s", "s2"):
            thread.signal("go", "again", id=id_).get(timeout=WAIT_S)
        thread.run("hello again", run_id="r2").result(timeout_s=WAIT_S)
        received = events_of(system.journal, T).count("received")

    assert listener.got == [["first"], ["second"]]
    assert received == 2


def test_a_wait_for_a_signal_ends_when_its_time_is_over() -> None:
    listener, journal = Listener(timeout_s=60.0), MemoryJournal()
    with listener.open(journal) as system:
        thread = system.thread(listener.agent, "t", owner="ann")
        thread.run("listen", run_id="r").started(timeout_s=WAIT_S)
        until(lambda: thread.status("r") == "awaiting_input")
        listener.clock.advance(60)
        thread.attach("r").result(timeout_s=WAIT_S)

    assert listener.got == [["no go"]]


def test_a_signal_that_cannot_be_one_is_refused() -> None:
    listener = Listener()
    with listener.open("memory:") as system:
        thread = system.thread(listener.agent, "t", owner="ann")
        with pytest.raises(UnknownThread):
            thread.signal("go")
        thread.run("listen", run_id="r").started(timeout_s=WAIT_S)
        stranger = system.thread(listener.agent, "t", owner="eve")
        until(lambda: thread.status("r") == "awaiting_input")
        before = events_of(system.journal, T)
        refusals: list[tuple[Callable[[], Any], type[Exception]]] = [
            (lambda: thread.signal("go", {1, 2}), NotRepresentable),
            (lambda: thread.signal("").get(timeout=WAIT_S), CommandRejected),
            (lambda: thread.signal("a\nb").get(timeout=WAIT_S), CommandRejected),
            (lambda: stranger.signal("go"), UnknownThread),
        ]
        for send, error in refusals:
            with pytest.raises(error):
                send()

        assert events_of(system.journal, T) == before


def test_an_id_that_was_sent_tells_nothing_to_somebody_else() -> None:
    listener = Listener()
    with listener.open("memory:") as system:
        thread = system.thread(listener.agent, "t", owner="ann")
        thread.run("listen", run_id="r").started(timeout_s=WAIT_S)
        thread.signal("go", id="s").get(timeout=WAIT_S)
        with pytest.raises(UnknownThread):
            system.thread(listener.agent, "t", owner="eve").signal("go", id="s").get(timeout=WAIT_S)


def test_a_name_that_looks_like_the_second_wait_for_another_one_is_a_wait_of_its_own() -> None:
    got: list[int] = []

    async def listen() -> str:
        got[:] = [await tool_step().wait_for_signal(name) for name in ("go", "go", "go#2", "go")]
        return "heard"

    script = scripted_model([tool_call_turn("c1", "listen", {}), final_turn("done")])
    agent = define_agent("listener", model=script, tools=[listen])
    with ActorSystem("memory:", agents=[agent]) as system:
        thread = system.thread(agent, "t")
        run = thread.run("listen", run_id="r")
        run.started(timeout_s=WAIT_S)
        for name, payload in (("go", 1), ("go", 2), ("go#2", 3), ("go", 4)):
            thread.signal(name, payload).get(timeout=WAIT_S)
        run.result(timeout_s=WAIT_S)
        assert replay(thread, agent).digests_equal

    assert got == [1, 2, 3, 4]
