"""Observers of a thread: each sees every event once it is durable, from where it left, and harms nobody."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from itertools import islice

import pytest
from pydantic_ai import Tool

from clew.actors import ActorSystem, Clock, ForeignToken, SystemClosed, UnknownThread, system_clock
from clew.actors.agent import AgentDefinition, Seen, Subscription, define_agent
from clew.actors.testing import final_turn, following_model, tool_call_turn
from clew.journal import Journal, MemoryJournal, NewEvent, RecordedEvent
from clew.journal.facts import RunFinished, RunStarted, StateSet, StepCompleted, ThreadOpened
from clew.projections import conversation
from tests.actors.story import raw
from tests.actors.support import WAIT_S, until

T = "thread/t"


class WatchedJournal(MemoryJournal):
    """A journal that counts who watches it, and how many events were drawn from it."""

    def __init__(self, clock: Clock = system_clock) -> None:
        super().__init__(clock=clock)
        self.watching = 0
        self.drawn = 0

    def read(self, stream: str, *, after: int = 0) -> Iterator[RecordedEvent]:
        """See `Journal.read`."""
        for event in super().read(stream, after=after):
            self.drawn += 1
            yield event

    def watch(self, notify: Callable[[], None], *, stream: str | None = None) -> Callable[[], None]:
        """See `Journal.watch`."""
        stop = super().watch(notify, stream=stream)
        self.watching += 1

        def end() -> None:
            self.watching -= 1
            stop()

        return end


def add(a: int, b: int) -> int:
    return a + b


def adder(tool: Callable[..., int] = add) -> AgentDefinition[None, str]:
    script = [tool_call_turn("c1", "add", {"a": 1, "b": 2}), final_turn("it is 3")]
    return define_agent("adder", model=following_model(script), tools=[Tool(tool, name="add")])


def ask(journal: Journal, *, key: str = "t", owner: str = "ann") -> None:
    """Have a conversation of one run in a journal."""
    agent = adder()
    with ActorSystem(journal, agents=[agent]) as system:
        system.thread(agent, key, owner=owner).run("1 + 2?", run_id="r").result(timeout_s=WAIT_S)


def grow(journal: Journal, count: int = 1, *, stream: str = T) -> None:
    """Have a thread's state set so often."""
    new = [conversation.catalog.encode(StateSet("r", "s", raw(number)))[0] for number in range(count)]
    journal.append(stream, new, expected=journal.head(stream).sequence)


def sequences(seen: list[Seen]) -> list[int]:
    return [event.sequence for event in seen]


@pytest.mark.requirement("L-RUN-7")
def test_what_is_asked_called_returned_and_answered_is_seen_as_each_is_recorded() -> None:
    go, returned = threading.Event(), threading.Event()

    def slow_add(a: int, b: int) -> int:
        assert go.wait(WAIT_S)
        returned.set()
        return a + b

    agent, seen = adder(slow_add), list[str]()
    with ActorSystem(MemoryJournal(), agents=[agent]) as system:
        thread = system.thread(agent, "t", owner="ann")
        run = thread.run("1 + 2?", run_id="r")
        run.started(timeout_s=WAIT_S)
        for event in thread.subscribe(until_run="r"):
            match event.fact:
                case RunStarted():
                    seen.append(bytes(event.fact.prompt).decode())
                case StepCompleted():
                    seen.append(event.fact.step)
                    if event.fact.step == "llm:turn:1":
                        assert not returned.is_set()
                        go.set()
                case RunFinished():
                    seen.append(bytes(event.fact.output).decode())
                case _:
                    pass

    assert seen == ['"1 + 2?"', "llm:turn:1", "tool:add:c1", "llm:turn:2", '"it is 3"']


@pytest.mark.scenario("STR-01")
@pytest.mark.requirement("L-RUN-8")
@pytest.mark.parametrize("by", ["sequence", "token"])
async def test_an_observer_that_lost_the_line_anywhere_gets_exactly_the_rest(by: str) -> None:
    journal = MemoryJournal()
    await asyncio.to_thread(ask, journal)
    agent = adder()

    async with ActorSystem(journal, agents=[agent]) as system:
        thread = system.thread(agent, "t", owner="ann")
        whole = [event async for event in thread.subscribe(until_run="r")]
        for cut in range(1, len(whole)):
            first: list[Seen] = []
            async with thread.subscribe(until_run="r") as events:
                async for event in events:
                    first.append(event)
                    if len(first) == cut:
                        break
            after = first[-1].token if by == "token" else first[-1].sequence
            rest = [event async for event in thread.subscribe(after=after, until_run="r")]
            assert first + rest == whole

    assert sequences(whole) == list(range(1, len(whole) + 1))
    assert [event.behind for event in whole] == list(reversed(range(len(whole))))


@pytest.mark.requirement("L-RUN-8")
async def test_several_observers_each_see_all_of_a_run_while_it_goes_on() -> None:
    agent = adder()
    async with ActorSystem(MemoryJournal(), agents=[agent]) as system:
        thread = system.thread(agent, "t", owner="ann")
        run = thread.run("1 + 2?", run_id="r")
        await asyncio.to_thread(run.started)

        async def observe() -> list[str]:
            return [event.name async for event in thread.subscribe(until_run="r")]

        async with asyncio.timeout(WAIT_S):
            seen = await asyncio.gather(*(observe() for _ in range(5)))

    assert seen[0][:2] == ["thread.opened", "run.started"]
    assert seen[0][-1] == "run.finished"
    assert seen == [seen[0]] * 5


@pytest.mark.scenario("STR-03")
def test_who_comes_late_gets_all_to_the_end_of_a_run_and_then_the_end() -> None:
    journal = MemoryJournal()
    ask(journal)
    agent = adder()

    with ActorSystem(journal, agents=[agent]) as system:
        thread = system.thread(agent, "t", owner="ann")
        whole = list(thread.subscribe(until_run="r"))
        last = list(thread.subscribe(after=whole[-2].token, until_run="r"))
        nothing = list(thread.subscribe(after=whole[-1].token, until_run="r"))

    assert isinstance(whole[-1].fact, RunFinished)
    assert (last, nothing) == (whole[-1:], [])


@pytest.mark.scenario("STR-05")
def test_nothing_is_held_for_an_observer_that_does_not_read_and_it_is_told_how_late_it_is() -> None:
    journal = WatchedJournal()
    grow(journal, 3000)

    with Subscription(journal, T) as events:
        reader = iter(events)
        first = next(reader)
        for _ in range(3):
            grow(journal, 1000)
        second = next(reader)
        held = journal.drawn
        rest = list(islice(reader, 5998))

    assert (first.behind, second.behind) == (2999, 5998)
    assert held <= 256
    assert sequences(rest) == list(range(3, 6001))
    assert rest[-1].behind == 0


@pytest.mark.scenario("STR-06")
async def test_observers_that_never_read_or_leave_early_leave_nothing_behind() -> None:
    journal, tasks = WatchedJournal(), len(asyncio.all_tasks())
    grow(journal, 3)

    for number in range(200):
        events = Subscription(journal, T)
        if number % 4 == 1:
            async with events:
                pass
        if number % 4 == 2:
            async with events:
                async for _ in events:
                    break
        if number % 4 == 3:
            async for _ in events:
                break
        del events
    gc.collect()
    async with asyncio.timeout(WAIT_S):
        # What was left without a block is closed by the loop, in its next turns.
        while journal.watching or len(asyncio.all_tasks()) > tasks:  # noqa: ASYNC110  (a count says nothing)
            await asyncio.sleep(0)

    assert journal.watching == 0


@pytest.mark.scenario("STR-07")
async def test_what_an_observer_raises_harms_neither_the_run_nor_the_others() -> None:
    agent = adder()
    async with ActorSystem(MemoryJournal(), agents=[agent]) as system:
        thread = system.thread(agent, "t", owner="ann")
        run = thread.run("1 + 2?", run_id="r")
        await asyncio.to_thread(run.started)

        async def fail() -> None:
            async for _ in thread.subscribe():
                raise ZeroDivisionError

        async def observe() -> list[str]:
            return [event.name async for event in thread.subscribe(until_run="r")]

        async with asyncio.timeout(WAIT_S):
            bad, good = await asyncio.gather(fail(), observe(), return_exceptions=True)
            answer = await run

    assert isinstance(bad, ZeroDivisionError)
    assert isinstance(good, list)
    assert good[-1] == "run.finished"
    assert answer.output == "it is 3"
    assert not system.failures


@pytest.mark.scenario("STR-09")
def test_a_place_in_another_thread_is_refused_and_not_read_as_one_in_this() -> None:
    journal = MemoryJournal()
    for key in ("t", "u"):
        ask(journal, key=key)
    agent = adder()

    with ActorSystem(journal, agents=[agent]) as system:
        mine, other = (system.thread(agent, key, owner="ann") for key in ("t", "u"))
        token = next(iter(mine.subscribe())).token
        with pytest.raises(ForeignToken, match="thread/u") as refused:
            other.subscribe(after=token)
        with pytest.raises(ForeignToken):
            other.watch_state(after=token)
        assert list(mine.subscribe(after=token, until_run="r"))

    assert (refused.value.thread, refused.value.token) == ("thread/u", token)


def test_a_place_in_another_history_of_a_thread_of_that_name_is_refused() -> None:
    mine, other = MemoryJournal(), MemoryJournal()
    grow(mine, 3)
    other.append(T, [NewEvent(b'{"event":"note.made","version":1,"data":{}}')] * 3, expected=0)

    for event in islice(Subscription(mine, T), 3):
        with pytest.raises(ForeignToken):
            Subscription(other, T, after=event.token)


@pytest.mark.parametrize("token", ["", "1", "-", "0-" + "0" * 16, "9-" + "0" * 16, "1-" + "0" * 16, "x" * 9999])
def test_what_is_no_place_at_all_is_refused(token: str) -> None:
    journal = MemoryJournal()
    grow(journal)

    with pytest.raises(ForeignToken, match="no place in this thread"):
        Subscription(journal, T, after=token)


def test_a_sequence_below_none_is_refused() -> None:
    with pytest.raises(ValueError, match="not -1"):
        Subscription(MemoryJournal(), T, after=-1)


@pytest.mark.scenario("STR-10")
def test_events_come_in_the_order_in_which_they_were_recorded_whatever_the_clock_does() -> None:
    times = iter([10, 5, 5, 1, 20])
    journal = MemoryJournal(clock=lambda: next(times))
    for _ in range(5):
        grow(journal)

    seen = list(islice(Subscription(journal, T), 5))

    assert sequences(seen) == [1, 2, 3, 4, 5]
    assert [event.at for event in seen] == [10, 10, 10, 10, 20]
    assert sequences(list(islice(Subscription(journal, T, after=2), 3))) == [3, 4, 5]


def test_to_anybody_but_its_owner_a_thread_is_not_there_to_be_observed() -> None:
    journal = MemoryJournal()
    ask(journal, owner="ann")
    agent = adder()

    with ActorSystem(journal, agents=[agent]) as system:
        for stranger in (system.thread(agent, "t", owner="bob"), system.thread(agent, "none", owner="ann")):
            with pytest.raises(UnknownThread):
                stranger.subscribe()


def test_an_event_of_a_later_version_passes_by_without_its_fact() -> None:
    journal = MemoryJournal()
    journal.append(T, [NewEvent(b'{"event":"thread.painted","version":1,"data":{}}')], expected=0)
    grow(journal)

    painted, known = islice(Subscription(journal, T), 2)

    assert (painted.name, painted.fact) == ("thread.painted", None)
    assert isinstance(known.fact, StateSet)


async def test_an_observer_is_told_when_the_journal_closes_before_the_end_that_it_waits_for() -> None:
    agent = adder()
    async with ActorSystem("memory:", agents=[agent]) as system:
        thread = system.thread(agent, "t", owner="ann")
        await thread.run("1 + 2?", run_id="r")
        seen: list[str] = []

        async def observe(until_run: str | None) -> None:
            async for event in thread.subscribe(until_run=until_run):
                seen.append(event.name)  # noqa: PERF401  (looked at meanwhile)

        waiting, following = (asyncio.create_task(observe(run)) for run in ("later", None))
        async with asyncio.timeout(WAIT_S):
            while seen.count("run.finished") < 2:  # noqa: ASYNC110  (a list says nothing when it grows)
                await asyncio.sleep(0)
    async with asyncio.timeout(WAIT_S):
        await following
        with pytest.raises(SystemClosed):
            await waiting


def test_one_that_is_closed_ends_and_goes_on_behind_its_last_event_when_it_is_read_again() -> None:
    journal = WatchedJournal()
    journal.append(T, [conversation.catalog.encode(ThreadOpened("ann", None, 1))[0]], expected=0)
    events, seen = Subscription(journal, T), list[int]()
    reader = threading.Thread(target=lambda: seen.extend(sequences(list(events))))
    reader.start()
    until(lambda: journal.watching and events.after == 1)

    events.close()
    reader.join(WAIT_S)
    grow(journal, 2)
    again = sequences(list(islice(events, 2)))

    assert (seen, again) == ([1], [2, 3])
