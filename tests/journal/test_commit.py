"""The future of an append: who waits for it is told, once and in time."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from clew.journal import Commit, JournalFull

FULL = JournalFull(path="x", reason="x")


def test_a_callback_is_called_once_with_the_commit_also_when_it_comes_late() -> None:
    commit, told = Commit(stream="order/1"), list[Commit]()
    commit.add_done_callback(told.append)
    assert told == []

    commit.resolve()
    commit.add_done_callback(told.append)

    assert told == [commit, commit]


def test_a_callback_that_raises_is_logged_and_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    one, other, told = Commit(stream="order/1"), Commit(), list[Commit]()

    def fail(_: Commit) -> None:
        raise ValueError("a callback that raises")

    for callback in (fail, told.append):
        one.add_done_callback(callback)
    other.add_done_callback(told.append)

    with caplog.at_level(logging.ERROR):
        Commit.resolve_all([(one, None), (other, None)])

    assert told == [one, other]
    assert "a callback of a commit to order/1 failed" in caplog.text


def test_a_callback_that_raises_a_signal_is_heard_when_all_were_told() -> None:
    one, other, told = Commit(), Commit(), list[Commit]()

    def leave(_: Commit) -> None:
        raise KeyboardInterrupt

    one.add_done_callback(leave)
    other.add_done_callback(told.append)

    with pytest.raises(KeyboardInterrupt):
        Commit.resolve_all([(one, None), (other, FULL)])

    assert told == [other]
    assert (one.done, other.error) == (True, FULL)


def test_waiting_has_an_end() -> None:
    commit = Commit(stream="order/1")

    for timeout_s in (0, 0.001, -1):
        with pytest.raises(TimeoutError, match="order/1: not durable after"):
            commit.wait(timeout_s=timeout_s)

    commit.resolve()
    commit.wait(timeout_s=0)
    commit.wait()


def test_threads_that_wait_are_woken_with_what_went_wrong() -> None:
    commit, caught = Commit(), list[Exception]()
    waiting = threading.Barrier(5)

    def wait() -> None:
        waiting.wait(30)
        try:
            commit.wait(timeout_s=30)
        except JournalFull as error:
            caught.append(error)

    threads = [threading.Thread(target=wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    waiting.wait(30)
    commit.resolve(FULL)
    for thread in threads:
        thread.join(30)

    assert caught == [FULL] * 4


async def test_tasks_of_one_loop_are_woken_together_from_another_thread() -> None:
    commits = [Commit() for _ in range(100)]
    tasks = [asyncio.ensure_future(commit) for commit in commits]
    await asyncio.sleep(0)

    outcomes = [(commit, FULL if n == 7 else None) for n, commit in enumerate(commits)]
    await asyncio.to_thread(Commit.resolve_all, outcomes)
    ends = await asyncio.gather(*tasks, return_exceptions=True)

    assert ends == [FULL if n == 7 else None for n in range(100)]


async def test_a_commit_that_is_done_does_not_wait() -> None:
    commit, failed = Commit(), Commit()
    commit.resolve()
    failed.resolve(FULL)

    await commit
    with pytest.raises(JournalFull):
        await failed


async def test_a_task_that_was_cancelled_is_not_woken() -> None:
    commit, other = Commit(), Commit()
    task, goes_on = asyncio.ensure_future(commit), asyncio.ensure_future(other)
    await asyncio.sleep(0)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    Commit.resolve_all([(commit, None), (other, None)])

    await goes_on
    assert commit.done


def test_a_loop_that_is_gone_holds_up_nobody() -> None:
    commit, told = Commit(), list[Commit]()

    async def begin_to_wait() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(asyncio.ensure_future(commit)), 0.001)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(begin_to_wait())
    loop.run_until_complete(asyncio.sleep(0))
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.close()
    commit.add_done_callback(told.append)

    commit.resolve()

    assert told == [commit]


def test_who_waits_for_many_commits_is_told_once_after_all_of_them_have_ended() -> None:
    commits, told = [Commit() for _ in range(5)], list[list[int]]()

    def tell(items: list[int]) -> None:
        assert all(commit.done for commit in commits)
        told.append(items)

    for number, commit in enumerate(commits):
        assert commit.tell_together(tell, number)
    Commit.resolve_all((commit, FULL if commit is commits[2] else None) for commit in commits)

    assert told == [[0, 1, 2, 3, 4]]
    assert not commits[0].tell_together(tell, 9)
    assert told == [[0, 1, 2, 3, 4]]


def test_who_is_told_together_shares_a_commit_with_callbacks_and_a_failure_of_one_harms_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    commit, told = Commit(stream="order/1"), list[object]()

    def fail(_: list[int]) -> None:
        raise ValueError("one that raises")

    commit.tell_together(fail, 1)
    commit.add_done_callback(told.append)
    commit.tell_together(told.append, 2)

    with caplog.at_level(logging.ERROR):
        commit.resolve()

    assert told == [commit, [2]]
    assert "one that raises" in caplog.text
