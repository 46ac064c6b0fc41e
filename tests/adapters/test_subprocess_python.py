"""A script runs in a process with limits: what it says comes back, what is too much ends it, and people are asked."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ToolReturnPart

from clew.actors import ActorSystem
from clew.actors.agent import define_agent, replay
from clew.actors.testing import final_turn, following_model, tool_call_turn
from clew.adapters.subprocess_python import Limits, python_tool
from tests.actors.payments import waiting
from tests.actors.support import WAIT_S, until


def run(code: str, data: Any = None, **limits: Any) -> dict[str, Any]:
    """What a model would be told of a script."""
    tool = python_tool(limits=Limits(**limits))
    function: Any = tool.function
    return asyncio.run(function(code, data))


@pytest.mark.requirement("L-CODE-8")
def test_a_script_gets_its_data_and_returns_its_result_and_its_log() -> None:
    told = run(
        "print('hello', data['n'])\nimport math\nresult = {'n': math.factorial(data['n']), 'w': 'ü\\n'}", {"n": 5}
    )

    assert told == {"status": "done", "result": {"n": 120, "w": "ü\n"}, "logs": ["hello 5"]}


@pytest.mark.requirement("L-CODE-8")
def test_the_default_limits_are_those_that_are_promised() -> None:
    limits = Limits()

    assert (limits.cpu_ms, limits.wall_s, limits.result_bytes_max) == (1000, 30.0, 256 * 1024)
    assert (limits.log_lines_max, limits.log_chars_max) == (100, 2000)


@pytest.mark.requirement("L-CODE-8")
def test_a_script_that_computes_too_long_is_ended_and_what_it_said_before_is_told() -> None:
    told = run("print('begun')\nwhile True: pass", cpu_ms=200)

    assert told == {
        "status": "failed",
        "error": "the script was ended: it used more than 200 ms of CPU",
        "logs": ["begun"],
    }


def test_a_script_that_takes_the_timer_off_is_ended_all_the_same() -> None:
    told = run("import signal\nsignal.setitimer(signal.ITIMER_PROF, 0)\nwhile True: pass", cpu_ms=100)

    assert told["status"] == "failed"
    assert "ended" in told["error"]


@pytest.mark.requirement("L-CODE-8")
def test_a_script_that_takes_too_long_is_ended() -> None:
    told = run("print('begun')\nimport time\ntime.sleep(100)", wall_s=1)

    assert told["error"] == "the script was ended: it took longer than 1 s"
    assert told["logs"] == ["begun"]


@pytest.mark.requirement("L-CODE-8")
def test_the_log_is_cut_in_its_lines_and_in_each_of_them() -> None:
    told = run("for n in range(200): print(str(n) * 3000)\nresult = 1")

    assert (told["status"], told["result"], told["logs_cut"]) == ("done", 1, True)
    assert len(told["logs"]) == 100
    assert {len(line) for line in told["logs"]} == {2000}


@pytest.mark.requirement("L-CODE-8")
def test_a_result_that_is_too_large_is_an_error() -> None:
    fits, large = run("result = 'x' * (256 * 1024 - 2)"), run("result = 'x' * (256 * 1024)")

    assert len(fits["result"]) == 256 * 1024 - 2
    assert (large["status"], "result" in large) == ("failed", False)
    assert "at most 262144" in large["error"]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("def f():\n  return 1 / 0\nf()", "ZeroDivisionError: division by zero (line 3 in <module>, line 2 in f)"),
        ("result = {1, 2}", "`result` has no JSON form"),
        ("result = float('nan')", "`result` has no JSON form"),
        ("result = '\\ud800'", "`result` has no JSON form"),
        ("this is no python", "SyntaxError"),
        ("x = bytearray(10**10)", "MemoryError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("import os; os._exit(3)", "exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", "signal 9"),
        ("l = []\nfor _ in range(100000): l = [l]\nresult = l", "`result` has no JSON form"),
        ("with open('f', 'w') as f: f.write('x')", "OSError"),
        ("fs = [open('/dev/null') for _ in range(100)]", "Too many open files"),
    ],
)
def test_how_a_script_fails_is_told(code: str, error: str) -> None:
    told = run(code)

    assert told["status"] == "failed"
    assert error in told["error"]


def test_a_script_sees_no_environment_no_input_and_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_PARENT", "secret")

    told = run(
        "import os, sys\nresult = [sorted(k for k in os.environ if 'SECRET' in k), sys.stdin.read(), os.getcwd()]"
    )

    assert told["result"][:2] == [[], ""]
    assert told["result"][2] != str(Path.cwd())
    assert not Path(told["result"][2]).exists()


def test_what_a_script_writes_past_print_is_not_taken_for_its_result() -> None:
    told = run("import os\nos.write(1, b'[\"result\", 5]\\n')\nos.system('echo hello')\nresult = 7")

    assert (told["result"], told["logs"]) == (7, [])


def test_what_a_script_leaves_running_is_ended_with_it() -> None:
    told = run("import os, time\npid = os.fork()\nif pid == 0:\n  time.sleep(100)\nresult = pid", wall_s=2)

    # The one left behind has the pipe too, so the script lasts as long, and both are ended.
    assert told["result"] > 0
    until(lambda: not _runs(told["result"]))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False


async def test_a_script_whose_tool_is_cancelled_is_ended() -> None:
    function: Any = python_tool().function
    before = _children()
    running = asyncio.create_task(function("import time\ntime.sleep(1000)"))
    await asyncio.to_thread(until, lambda: _children() - before)
    [pid] = _children() - before
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert not _runs(pid)


def _children() -> set[int]:
    found = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return {int(pid) for file in found for pid in file.read_text(encoding="utf-8").split()}


@pytest.mark.requirement("L-CODE-8")
def test_people_are_asked_about_each_script_unless_it_is_said_otherwise() -> None:
    call = tool_call_turn("c1", "run_python", {"code": "result = sum(data)", "data": [1, 2, 3]})
    agent = define_agent("a", model=following_model([call, final_turn("ok")]), tools=[python_tool()])
    with ActorSystem("memory:", agents=[agent]) as system:
        thread = system.thread(agent, "t", owner="ann")
        thread.run("go", run_id="r").started(timeout_s=WAIT_S)
        [asked] = waiting(thread)
        thread.approve(asked.id).get(timeout=WAIT_S)
        thread.attach("r").result(timeout_s=WAIT_S)
        [content] = [
            part.content for message in thread.messages() for part in message.parts if isinstance(part, ToolReturnPart)
        ]
        replayed = replay(thread, agent)

    assert asked.arguments["code"] == "result = sum(data)"
    assert content == {"status": "done", "result": 6, "logs": []}
    assert replayed.digests_equal


def test_limits_are_checked_where_they_are_declared() -> None:
    for wrong in ({"cpu_ms": 0}, {"wall_s": -1}, {"log_lines_max": 10**9}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Limits(**wrong)
