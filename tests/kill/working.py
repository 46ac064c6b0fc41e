"""A program to kill: an agent works through conversations, and notes outside whatever it starts and finishes."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from pydantic_ai import Agent, ModelResponse
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, FunctionModel

from clew.actors import ActorSystem
from clew.actors.agent import AgentDefinition, tool_step
from clew.actors.testing import final_turn, tool_call_turn, tool_calls_turn

THREADS = 6


def note(path: Path, text: str) -> None:
    with (path / "notes").open("a") as notes:
        notes.write(text + "\n")
        notes.flush()
        os.fsync(notes.fileno())


def make_agent(path: Path) -> AgentDefinition[None, str]:
    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        turn = 1 + sum(message.kind == "response" for message in messages)
        if turn == 1:
            return tool_calls_turn(("a", "work", {"n": 1}), ("b", "work", {"n": 2}))
        return tool_call_turn(f"t{turn}", "work", {"n": turn}) if turn < 5 else final_turn("done")

    agent = Agent(FunctionModel(respond, model_name="worker"), name="worker")

    @agent.tool_plain
    def work(n: int) -> str:
        key = tool_step().idempotency_key
        note(path, f"start {key}")
        time.sleep(0.002)  # something slow to be killed in
        note(path, f"end {key}")
        return f"worked {n}"

    # It is killed on purpose, again and again before it comes to anything.
    return AgentDefinition(agent=agent, recoveries_max=1000)


def main(path: Path) -> None:
    agent = make_agent(path)
    with ActorSystem(path / "journal", agents=[agent]) as system:
        print("ready", flush=True)
        runs = [system.thread(agent, f"t{n}").run("work", run_id="r") for n in range(THREADS)]
        for run in runs:
            run.started(timeout_s=60)
            print(f"started {run}", flush=True)
        for run in runs:
            print(run.result(timeout_s=60).output, flush=True)
        print("finished", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
