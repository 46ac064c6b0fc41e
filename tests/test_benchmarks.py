"""Every benchmark runs and prints what it says it prints; what it measures is nobody's promise."""

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

from zstandard import ZstdCompressionDict

from scripts.dictionary_samples import bodies, made_threads
from scripts.train_dictionary import train

ROOT = Path(__file__).parents[1]

MACHINE = {"cpu", "cores", "kernel", "filesystem"}
VERSIONS = {"python", "clew", "lmdb", "msgspec", "pykka", "zstandard", "liblmdb"}
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


PARTS = {
    "append": APPENDS,
    "fold": {
        "where",
        "streams",
        "events",
        "read_per_s",
        "fold_per_s",
        "fold_per_s_min",
        "fold_per_s_max",
        "decode_per_s",
        "ratio_to_floor",
    },
    "cold": {
        "where",
        "events",
        "thread_events",
        "thread_messages",
        "open_ms",
        "rebuild_ms",
        "total_ms",
        "total_ms_min",
        "total_ms_max",
        "messages_ms",
    },
    "open": {
        "where",
        "streams",
        "events",
        "open_ms",
        "wake_ms",
        "total_ms",
        "total_ms_min",
        "total_ms_max",
        "rss_mib",
    },
    "size": {
        "streams",
        "events",
        "canonical",
        "log_used",
        "log_file",
        "sealed_used",
        "sealed_file",
        "shrunk_file",
        "canonical_to_sealed",
        "seal_per_s",
    },
    "growth": {
        "streams",
        "events",
        "events_large",
        "appends_per_s",
        "appends_per_s_large",
        "appends_ratio",
        "folds_per_s",
        "folds_per_s_large",
        "folds_ratio",
    },
    "compression": {
        "events",
        "body_bytes",
        "level",
        "ratio",
        "ratio_dictionary",
        "compress_mb_per_s",
        "compress_mb_per_s_dictionary",
        "decompress_mb_per_s",
        "decompress_mb_per_s_dictionary",
    },
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


def test_the_threads_benchmark_runs_threads_lets_alarms_fire_and_looks_at_sleeping_ones(tmp_path: Path) -> None:
    found = report("benchmarks.threads", "--dir", str(tmp_path))

    runs, alarms, sleeping = found["rows"]
    assert (runs["part"], runs["threads"], runs["failed"]) == ("runs", 20, 0)
    assert (alarms["part"], alarms["schedules"]) == ("alarms", 20)
    assert (sleeping["part"], sleeping["schedules"]) == ("sleeping", 200)


def test_the_memory_benchmark_looks_around_in_graphs_of_several_sizes(tmp_path: Path) -> None:
    found = report("benchmarks.memory", "--dir", str(tmp_path))

    assert [row["facts"] for row in found["rows"]] == [200, 1000]
    assert all(row["traverse_p50_ms"] > 0 and row["recall_p50_ms"] > 0 for row in found["rows"])


def test_the_actors_benchmark_compares_ours_with_a_thread_for_each_actor() -> None:
    found = report("benchmarks.actors")

    rows = [(row["contender"], row["live"]) for row in found["rows"]]
    assert rows == [("clew", 1), ("pykka", 1), ("clew", 10), ("pykka", 10)]
    assert found["floor"].keys() == {"bare_thread"}
    assert {frozenset(row) for row in [*found["rows"], *found["floor"].values()]} == {frozenset(ACTORS)}
    assert [row["failed"] for row in found["rows"]] == [None] * 4


def test_the_journal_benchmark_answers_all_its_questions_in_one_document(tmp_path: Path) -> None:
    found = json.loads(run("benchmarks.journal", "--json", "--dir", str(tmp_path)))

    assert found.keys() == {"machine", "versions", "plan", "parts"}
    assert found["machine"].keys() == MACHINE
    assert found["versions"].keys() == VERSIONS
    assert found["parts"].keys() == PARTS.keys()
    for name, part in found["parts"].items():
        assert part["question"].endswith("?")
        assert {frozenset(row) for row in [*part["rows"], *part["floor"]]} == {frozenset(PARTS[name])}, name
    assert [row["contender"] for row in found["parts"]["append"]["floor"]] == [
        "lmdb_1_per_commit",
        "lmdb_1000_per_commit",
    ]
    assert list(tmp_path.iterdir()) == []


def test_one_part_of_the_journal_benchmark_can_be_run_alone(tmp_path: Path) -> None:
    table = run("benchmarks.journal", "--only", "fold", "--dir", str(tmp_path))

    assert "ratio to floor" in table
    assert "events large" not in table


def test_a_segment_is_smaller_with_the_dictionary_that_is_shipped(tmp_path: Path) -> None:
    found = json.loads(run("benchmarks.journal", "--json", "--only", "compression", "--dir", str(tmp_path)))

    rows = found["parts"]["compression"]["rows"]
    assert all(row["ratio_dictionary"] > row["ratio"] > 1 for row in rows)


def test_the_same_samples_train_the_same_dictionary() -> None:
    samples = [
        body for events in made_threads(count=4, runs=4) for body in bodies(events, events_max=3, random=Random(1))
    ]

    trained = train(samples, dictionary_id=40_000)

    assert trained == train(samples, dictionary_id=40_000)
    assert ZstdCompressionDict(trained).dict_id() == 40_000


def test_a_benchmark_asks_its_question_above_its_table_and_leaves_no_files(tmp_path: Path) -> None:
    question, _, table = run("benchmarks.append", "--dir", str(tmp_path)).partition("\n")

    assert question.endswith("?")
    assert "contender" in table
    assert list(tmp_path.iterdir()) == []
