"""The `clew` command, as people and programs use it."""

from __future__ import annotations

import json
import logging
import re
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.adapters.cli import main
from clew.adapters.cli.exits import Refused
from clew.adapters.cli.load import load_agent

from .command import DESK, Clew, read_until

RUN = ("run", "desk:agent", "--thread", "bob")
OWN_MODULES = ("desk", "lost", "bad", "unnamed", "changed", "other")


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current directory, from which modules can be imported as if for the first time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name in OWN_MODULES:
        sys.modules.pop(name, None)


def test_a_run_shows_each_step_and_then_answers(clew: Clew) -> None:
    done = clew(*RUN, "look and tell")

    assert done.code == 0, done
    assert done.out == "1 calls made\nfor look and tell\n"
    head, *steps = done.err.splitlines()
    assert head.endswith("of bob with desk")
    assert [step.split()[1:3] for step in steps] == [
        ["ms", "llm:turn:1"],
        ["ms", "tool:look:call_0_0"],
        ["ms", "llm:turn:2"],
    ]
    assert 'look(text="café")' in steps[0]
    assert '{"seen":"café"}' in steps[1]


def test_a_program_gets_each_event_and_the_ending_as_json(clew: Clew) -> None:
    done = clew(*RUN, "look", "--json", "--run-id", "r1")

    *events, ending = done.lines
    assert [event["sequence"] for event in events] == [1, 2, 3, 4, 5, 6]
    assert [event["record"]["event"] for event in events][::5] == ["thread.opened", "run.finished"]
    assert {
        "thread": "thread/bob",
        "run": "r1",
        "status": "done",
        "stopped": "final",
        "steps": 3,
    }.items() <= ending.items()
    assert ending["output"] == "1 calls made\nfor look"
    assert ending["usage"]["requests"] == 2
    assert done.err == ""


def test_a_dash_asks_what_standard_input_says(clew: Clew) -> None:
    done = clew(*RUN, "-", stdin="from a pipe")

    assert done.out == "0 calls made\nfor from a pipe\n"


def test_what_is_no_text_is_refused_before_anything_is_recorded(clew: Clew) -> None:
    assert "standard input is not UTF-8 text" in clew(*RUN, "-", stdin=b"\xff\xfe").error
    assert "the text is empty" in clew(*RUN, "  ").error
    assert not (clew.folder / "clew-data").exists()


def leave_at_gate(clew: Clew, text: str, *, turn: int) -> None:
    """Start a run and kill its process once this turn of the model is recorded and the tool `gate` has begun."""
    with clew.started(*RUN, text) as process:
        read_until(process.stderr, lambda line: f"llm:turn:{turn}" in line)
        while not any("tool:gate:" in call for call in clew.calls()):
            assert process.poll() is None, "the run ended before the call began"
        process.send_signal(signal.SIGKILL)


@pytest.mark.crash
@pytest.mark.requirement("L-REPLAY-2")
def test_a_killed_run_is_resumed_without_repeating_a_recorded_step(clew: Clew) -> None:
    leave_at_gate(clew, "look gate look", turn=2)
    clew.open_gate()
    resumed = clew(*RUN)

    assert resumed.code == 0, resumed
    assert resumed.out == "3 calls made\nfor look gate look\n"
    assert "after 3 recorded steps" in resumed.err
    assert clew.calls() == ["tool:look:call_0_0", "tool:gate:call_0_1", "tool:gate:call_0_1", "tool:look:call_0_2"]


def test_ctrl_c_leaves_a_run_and_says_how_to_resume_it(clew: Clew) -> None:
    with clew.started(*RUN, "look gate", "--journal", "my data") as process:
        read_until(process.stderr, lambda line: "llm:turn:2" in line)
        process.send_signal(signal.SIGINT)
        said = process.communicate()[1].decode()
    clew.open_gate()

    assert process.returncode == 130
    assert "kept with 3 recorded steps" in said
    assert said.endswith("Resume it: clew run desk:agent --thread bob --journal 'my data'\n")
    assert clew(*RUN, "--journal", "my data").out == "2 calls made\nfor look gate\n"
    assert clew.calls().count("tool:look:call_0_0") == 1


def test_a_new_text_first_finishes_the_run_that_was_left(clew: Clew) -> None:
    left = clew(*RUN, "gate", "--max-wait", "0")
    clew.open_gate()
    done = clew(*RUN, "something else")

    assert left.code == 1
    assert "not ended in time" in left.err
    assert done.code == 0, done
    assert done.out == "1 calls made\nfor gate\n0 calls made\nfor something else\n"


def test_asking_again_with_the_same_run_id_gives_the_recorded_answer(clew: Clew) -> None:
    first = clew(*RUN, "look", "--run-id", "r1")
    second = clew(*RUN, "look", "--run-id", "r1")

    assert first.out == second.out == "1 calls made\nfor look\n"
    assert "asked for before" in second.err
    assert len(clew.calls()) == 1


def test_a_failed_run_is_one_line_and_exit_code_1(clew: Clew) -> None:
    done = clew(*RUN, "fail", "--run-id", "r1")

    assert (done.code, done.out) == (1, "")
    assert done.error == "run r1 failed: ValueError: llm:turn:1: the model is out for lunch"


def test_a_run_whose_code_has_changed_halts_and_exits_with_3(clew: Clew) -> None:
    leave_at_gate(clew, "gate", turn=1)
    desk = clew.folder / "desk.py"
    desk.write_text(DESK.replace("Do as you are told.", "Do what you like."), encoding="utf-8")
    halted = clew(*RUN)
    desk.write_text(DESK, encoding="utf-8")
    clew.open_gate()

    assert halted.code == 3
    assert "is halted: step llm:turn:1" in halted.error
    assert clew(*RUN).out == "1 calls made\nfor gate\n"


@pytest.mark.requirement("L-ACL-2")
def test_the_thread_of_another_owner_does_not_exist(recorded: Clew) -> None:
    foreign = recorded("run", "desk:agent", "hello", "--thread", "ana", "--owner", "eve")

    assert foreign.code == 2
    assert foreign.error.startswith("thread/ana: no such thread")


def test_without_a_text_there_must_be_a_run_to_resume(recorded: Clew) -> None:
    done = recorded("run", "desk:agent", "--thread", "ana", "--owner", "ana")

    assert done.code == 2
    assert "no open run" in done.error


def test_an_open_run_is_resumed_by_its_own_agent_alone(clew: Clew) -> None:
    clew(*RUN, "gate", "--max-wait", "0")
    other = DESK.replace('name="desk"', 'name="other"')
    (clew.folder / "other.py").write_text(other, encoding="utf-8")

    done = clew("run", "other:agent", "--thread", "bob")

    assert done.code == 2
    assert "belongs to agent 'desk', not 'other'" in done.error


@pytest.mark.requirement("L-RUN-10")
def test_threads_are_listed(recorded: Clew) -> None:
    head, row = recorded("threads").out.splitlines()
    [as_json] = recorded("threads", "--json").json

    assert head.split() == ["THREAD", "OWNER", "TITLE", "STATUS", "RUNS", "STEPS", "TOKENS", "LAST"]
    assert row.split()[:7] == ["ana", "ana", "A", "look", "done", "1", "3"]
    assert {
        "thread": "ana",
        "owner": "ana",
        "title": "A look",
        "status": "done",
        "runs": 1,
        "steps": 3,
    }.items() <= as_json.items()
    assert recorded("threads", "--owner", "eve", "--json").json == []


def test_a_conversation_is_shown_as_it_was_held(recorded: Clew) -> None:
    page = recorded("show", "ana").out
    messages = recorded("show", "thread/ana", "--json").json

    in_order = [
        "user  ",
        "look and tell",
        "assistant calls",
        'look(text="café")',
        "result of look",
        "assistant (rules)",
    ]
    places = [page.index(text) for text in in_order]
    assert places == sorted(places)
    assert "Do as you are told." not in page
    assert "Do as you are told." in recorded("show", "ana", "--full").out
    assert [message["kind"] for message in messages] == ["request", "response", "request", "response"]


def test_long_texts_are_shortened_unless_all_is_wanted(clew: Clew) -> None:
    clew(*RUN, "word " * 1000)

    assert "more characters; --full shows them" in clew("show", "bob").out
    assert ("word " * 1000).strip() in clew("show", "bob", "--full").out


def test_events_are_listed_with_their_place_and_digest(recorded: Clew) -> None:
    lines = recorded("log", "ana").out.splitlines()
    events = recorded("log", "ana", "--after", "4", "--json").lines

    assert [line.split()[0] for line in lines] == ["1", "2", "3", "4", "5", "6"]
    assert lines[3].split()[3:] == ["step.completed", "tool:look:call_0_0", *lines[3].split()[-3:]]
    assert [event["sequence"] for event in events] == [5, 6]
    assert lines[5].endswith(events[1]["digest"][:10])


def test_a_log_is_followed_while_another_process_writes(clew: Clew) -> None:
    clew(*RUN, "first")

    with clew.started("log", "bob", "--follow", "--json") as following:
        read_until(following.stdout, lambda line: '"run.finished"' in line)
        clew(*RUN, "look")
        new = read_until(following.stdout, lambda line: '"run.finished"' in line)
        following.send_signal(signal.SIGINT)
        following.communicate()

    assert [json.loads(line)["sequence"] for line in new] == [5, 6, 7, 8, 9]
    assert following.returncode == 130


def test_reading_works_while_another_process_writes_and_writing_does_not(clew: Clew) -> None:
    with clew.started(*RUN, "gate") as writer:
        read_until(writer.stderr, lambda line: "llm:turn:1" in line)

        assert clew("threads", "--json").json[0]["status"] == "running"
        assert clew("show", "bob").code == clew("log", "bob").code == clew("verify").code == 0
        second = clew("run", "desk:agent", "hello", "--thread", "eve")

    assert second.code == 5
    assert f"process {writer.pid} " in second.error


def test_a_conversation_replays_without_a_call(recorded: Clew) -> None:
    before = recorded.calls()

    text = recorded("replay", "ana", "desk:agent")
    as_json = recorded("replay", "ana", "desk:make", "--json").json

    assert text.code == 0, text
    assert text.out.splitlines()[1].split()[0] == "ana"
    assert text.out.endswith(
        "replayed 1 run and 3 steps; no model and no tool was called\nhead digests equal: 1 of 1\n"
    )
    assert as_json["digests_equal"] is True
    assert as_json["runs"][0]["steps"] == ["llm:turn:1", "tool:look:call_0_0", "llm:turn:2"]
    assert recorded.calls() == before


def test_a_divergence_shows_what_differs_and_exits_with_3(recorded: Clew, clew: Clew) -> None:
    (clew.folder / "desk.py").write_text(DESK.replace("caf", "tea"), encoding="utf-8")
    changed = DESK.replace('{"seen": text}', '{"seen": text + text}').replace("Do as", "Always do as")
    (clew.folder / "changed.py").write_text(changed, encoding="utf-8")
    recorded("export", "ana", "-o", str(clew.folder / "ana.jsonl"))

    same = clew("replay", "ana.jsonl", "desk:agent")
    other = clew("replay", "ana.jsonl", "changed:agent")
    as_json = clew("replay", "ana.jsonl", "changed:agent", "--json")

    # What a tool or a model would say now is not asked for.
    assert same.code == 0, same
    assert other.code == as_json.code == 3
    assert "step llm:turn:1, request.instructions" in other.out
    assert [line[:10] for line in other.out.splitlines()[-2:]] == ["- recorded", "+ replayed"]
    assert "step llm:turn:1: request.instructions differs" in other.error
    assert as_json.json["diverged"]["expected"] != as_json.json["diverged"]["actual"]


def test_a_replay_needs_the_agent_that_drove_the_runs(recorded: Clew) -> None:
    other = DESK.replace('name="desk"', 'name="other"')
    (recorded.folder / "other.py").write_text(other, encoding="utf-8")

    missing = recorded("replay", "ana", "other:agent")

    assert missing.code == 2
    assert "driven by agent 'desk'" in missing.error
    assert recorded("replay", "ana", "other:agent", "desk:agent").code == 0


def test_a_history_goes_to_another_journal_and_back_unchanged(recorded: Clew, tmp_path: Path) -> None:
    history, other = tmp_path / "all.jsonl", str(tmp_path / "other")

    assert recorded("export", "--all", "-o", str(history)).err == f"exported 6 events to {history}\n"
    first = recorded("import", str(history), "--journal", other)
    second = recorded("import", "-", "--journal", other, "--json", stdin=history.read_bytes())
    back = recorded("export", "ana", env={"CLEW_JOURNAL": other})

    assert first.out == "thread/ana  6 events\n"
    assert second.json == {"streams": {"thread/ana": 0}}
    assert back.out == history.read_text(encoding="utf-8")


def test_a_history_that_was_edited_is_refused(recorded: Clew, tmp_path: Path) -> None:
    edited = recorded("export", "ana").out.replace("look and tell", "look and lie")
    (tmp_path / "edited.jsonl").write_text(edited, encoding="utf-8")

    done = recorded("import", str(tmp_path / "edited.jsonl"), "--journal", str(tmp_path / "other"))

    assert done.code == 2
    assert "line 3: thread/ana, sequence 2: the digest does not match" in done.error


def test_a_sound_journal_is_verified(recorded: Clew) -> None:
    assert recorded("verify").out.startswith("nothing is wrong: 6 events in 1 stream,")
    assert {"clean": True, "events": 6, "problems": []}.items() <= recorded("verify", "--json").json.items()


def test_damage_is_listed_and_exits_with_4(recorded: Clew, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(recorded.folder / "clew-data", damaged)
    data = damaged / "data.mdb"
    data.write_bytes(data.read_bytes().replace(b"look and tell", b"look and lie!"))

    text = recorded("verify", "--journal", str(damaged))
    as_json = recorded("verify", "--journal", str(damaged), "--json")

    assert text.code == as_json.code == 4
    assert "thread/ana, sequence 2 (position 2): does not match its checksum" in text.out
    assert as_json.json["clean"] is False


def test_what_is_no_journal_is_not_opened(clew: Clew) -> None:
    (clew.folder / "file").write_text("text", encoding="utf-8")

    assert clew("threads").code == clew("threads", "--journal", "file").code == 5
    assert "there is no journal here" in clew("threads").error
    assert clew(*RUN, "hello", "--journal", "file").code == 5


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["show", "eve"], "eve: no such thread in clew-data"),
        (["replay", "eve", "desk:agent"], "eve: no such thread"),
        (["export"], "name one THREAD to export, or give --all"),
        (["import", "nowhere.jsonl"], "nowhere.jsonl: no such file"),
        (["import", "desk.py"], "desk.py, line 1: not a clew history"),
        (["log", "ana", "--after", "-1"], "--after"),
        (["run", "desk:agent", "hello"], "--thread"),
        (["run", "desk:agent", "hello", "--thread", "a\tb"], "printable"),
        (["run", "desk:agent", "hello", "--thread", "c", "--run-id", "a/b"], "is not a run id"),
        (["run", "desk:nobody", "hello", "--thread", "c"], "module desk has no 'nobody'"),
        (["fly"], "No such command 'fly'"),
        (["demo", "--mails", "0"], "--mails"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    recorded: Clew,
    modules: Path,
    args: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(recorded.folder)
    monkeypatch.setattr(sys, "argv", ["clew", *args])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])

    with pytest.raises(SystemExit) as exited:
        main()

    out, err = capsys.readouterr()
    assert (exited.value.code, out) == (2, "")
    assert err.startswith("clew: error: ")
    assert said in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("desk", "write MODULE:AGENT"),
        ("desk.py:agent", "name its module, from the directory it is in: desk:agent"),
        ("nowhere:agent", "there is no module 'nowhere' in"),
        ("lost:agent", "importing lost failed: No module named 'a_missing_one'. Install it"),
        ("bad:agent", "importing bad failed: ZeroDivisionError"),
        ("desk:nobody", "module desk has no 'nobody'; agents there: agent"),
        ("desk:number", "desk:number is a int, not an agent"),
        ("desk:broken", "desk:broken() failed: RuntimeError: no"),
        ("desk:picky", "cannot be called without arguments"),
        ("desk:later", "is an async function"),
        ("unnamed:agent", "an agent needs a name"),
    ],
)
def test_an_agent_that_cannot_be_loaded_is_explained(modules: Path, name: str, said: str) -> None:
    (modules / "desk.py").write_text(DESK, encoding="utf-8")
    (modules / "lost.py").write_text("import a_missing_one\n", encoding="utf-8")
    (modules / "bad.py").write_text("1 / 0\n", encoding="utf-8")
    (modules / "unnamed.py").write_text("from pydantic_ai import Agent\nagent = Agent()\n", encoding="utf-8")

    with pytest.raises(Refused, match=re.escape(said)) as refused:
        load_agent(name)

    assert refused.value.code == 2


def test_an_error_is_shown_whole_when_asked_for(clew: Clew) -> None:
    done = clew("run", "desk:broken", "hello", "--thread", "bob", env={"CLEW_DEBUG": "1"})

    assert "Traceback" in done.err
    assert "in broken" in done.err


def test_what_a_user_wrote_cannot_steer_the_terminal(clew: Clew) -> None:
    clew(*RUN, "look \x1b[2J", "--title", "\x1b]0;owned\x07\u202e")

    shown = clew("threads").out + clew("show", "bob", "--full").out + clew("log", "bob").out

    assert all(character.isprintable() or character == "\n" for character in shown)
    assert "\\x1b[2J" in shown


def test_the_help_tells_the_exit_codes(recorded: Clew) -> None:
    assert "5    the journal is in use by another process" in recorded("--help").out
    assert "130  interrupted" in recorded("run", "--help").out
    assert recorded("--version").out.startswith("clew ")
    assert recorded().code == 2


def test_commands_that_only_look_do_not_wait_for_pydantic_ai() -> None:
    program = "import sys, clew.adapters.cli.app; print('pydantic_ai' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"
