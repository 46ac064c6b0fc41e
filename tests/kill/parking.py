"""A program that kills itself: an agent whose tool ends the process with SIGKILL while there is a file `deadly`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from clew.actors import ActorSystem, RunHalted
from clew.actors.agent import AgentDefinition, define_agent
from clew.actors.testing import final_turn, following_model, tool_call_turn

RECOVERIES_MAX = 2


def make_agent(path: Path) -> AgentDefinition[Any, str]:
    async def work() -> str:
        if (path / "deadly").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return "worked"

    model = following_model([tool_call_turn("c", "work", {}), final_turn("done")])
    return define_agent("fragile", model=model, tools=[work], recoveries_max=RECOVERIES_MAX)


def main(path: Path) -> None:
    agent = make_agent(path)
    with ActorSystem(path / "journal", agents=[agent]) as system:
        try:
            print(system.thread(agent, "t").run("go", run_id="r").result(timeout_s=60).output, flush=True)
        except RunHalted as halted:
            print(halted.reason, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
