"""Every benchmark runs and prints what it says it prints; what it measures is nobody's promise."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

MACHINE = {"cpu", "cores", "kernel", "filesystem"}
VERSIONS = {"python", "clew", "lmdb", "msgspec", "pykka", "liblmdb"}
APPENDS = {
    "contender",
    "concurrency",
    "events_per_s",
    "events_per_s_min",
    "events_per_s_max",
    "latency_p50_us",
    "latency_p99_us",
    "ratio_to_floor",
}
ACTORS = {
    "contender",
    "live",
    "rounds",
    "failed",
    "ask_p50_us",
    "ask_p99_us",
    "tells_per_s",
    "tells_per_s_min",
    "tells_per_s_max",
    "start_us",
    "kib_per_actor",
}


def run(module: str, *options: str) -> str:
    command = [sys.executable, "-m", module, "--smoke", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def report(module: str, *options: str) -> dict[str, Any]:
    found = json.loads(run(module, "--json", *options))
    assert found.keys() == {"machine", "versions", "rows", "floor"}
    assert found["machine"].keys() == MACHINE
    assert found["versions"].keys() == VERSIONS
    return found


def test_the_append_benchmark_compares_the_journal_and_actors_with_lmdb_alone(tmp_path: Path) -> None:
    found = report("benchmarks.append", "--dir", str(tmp_path))

    rows = [(row["contender"], row["concurrency"]) for row in found["rows"]]
    assert rows == [("journal", 1), ("journal", 8), ("actors", 1), ("actors", 8)]
    assert found["floor"].keys() == {"one_event_per_commit", "thousand_events_per_commit"}
    assert {frozenset(row) for row in [*found["rows"], *found["floor"].values()]} == {frozenset(APPENDS)}


def test_the_actors_benchmark_compares_ours_with_a_thread_for_each_actor() -> None:
    found = report("benchmarks.actors")

    rows = [(row["contender"], row["live"]) for row in found["rows"]]
    assert rows == [("clew", 1), ("pykka", 1), ("clew", 10), ("pykka", 10)]
    assert found["floor"].keys() == {"bare_thread"}
    assert {frozenset(row) for row in [*found["rows"], *found["floor"].values()]} == {frozenset(ACTORS)}
    assert [row["failed"] for row in found["rows"]] == [None] * 4


def test_a_benchmark_asks_its_question_above_its_table_and_leaves_no_files(tmp_path: Path) -> None:
    question, _, table = run("benchmarks.append", "--dir", str(tmp_path)).partition("\n")

    assert question.endswith("?")
    assert "contender" in table
    assert list(tmp_path.iterdir()) == []
