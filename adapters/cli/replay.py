"""`clew replay`: run the loop again against what was recorded, calling nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ...actors import ReplayDivergence, UnknownKind
from ...journal import RecordedEvent, category_of, read_history
from .exits import ExitCode, Refused
from .facts import value_text
from .opening import DEFAULT_JOURNAL, AsJson, JournalPath, find_thread, open_journal
from .render import Column, console, counted, one_line, safe, shorten, write_json, write_table

if TYPE_CHECKING:
    from ...actors.agent import Replayed

__all__ = ["replay"]

_COLUMNS: Final = (
    Column("THREAD", cut=3),
    Column("RUN", cut=2),
    Column("ENDED"),
    Column("STEPS", number=True),
    Column("OUTPUT", cut=1),
)
_ASKED: Final = {
    "request.instructions": "the instructions that the model was given",
    "request.messages": "what the model was sent: prompts, responses, results",
    "request.tools": "the tools that the model was offered",
    "request.output": "the kinds of output that the model was offered",
    "request.settings": "the settings of the model",
    "request.arguments": "the arguments of the tool",
}
_BEFORE: Final = 60
_AROUND: Final = 240


def replay(
    source: Annotated[str, typer.Argument(metavar="THREAD|FILE", help="A thread's key, or an exported history.")],
    agents: Annotated[list[str], typer.Argument(metavar="MODULE:AGENT...", help="The agents that drove its runs.")],
    *,
    journal: JournalPath = DEFAULT_JOURNAL,
    as_json: AsJson = False,
) -> int:
    """Replay a conversation or a history.

    No model and no tool is called. Every decision is made again and compared with the recorded one. The first that
    differs is shown, and the command exits with 3.
    """
    from ...actors.agent import replay as replay_events  # noqa: PLC0415  (pydantic-ai takes a second to import)
    from .load import load_agent  # noqa: PLC0415  (as above)

    definitions = [load_agent(agent) for agent in agents]
    events = _events(source, journal)
    try:
        replayed = replay_events(events, *definitions)
    except ReplayDivergence as divergence:
        _show_divergence(divergence, as_json=as_json)
        raise Refused(
            f"{divergence.stream}, sequence {divergence.sequence}, run {divergence.run}, step {divergence.step}: "
            f"{divergence.field} differs from what was recorded",
            code=ExitCode.DIVERGED,
        ) from divergence
    except UnknownKind as unknown:
        loaded = ", ".join(definition.name for definition in definitions)
        raise Refused(f"a run was driven by agent {unknown.name!r}; give it too (given: {loaded})") from unknown
    _show(replayed, as_json=as_json)
    return ExitCode.OK if replayed.digests_equal else ExitCode.DIVERGED


def _events(source: str, journal: str) -> list[RecordedEvent]:
    if Path(source).is_file():
        events = read_history(source)
    else:
        with open_journal(journal, readonly=True) as opened:
            events = list(opened.read(find_thread(opened, journal, source)))
    if not any(category_of(event.stream) == "thread" for event in events):
        raise Refused(f"{one_line(source)}: there is no conversation in it to replay")
    return events


def _show(replayed: Replayed, *, as_json: bool) -> None:
    if as_json:
        write_json(_as_json(replayed))
        return
    out = console()
    write_table(
        out,
        _COLUMNS,
        (
            [
                safe(run.stream.partition("/")[2]),
                safe(run.run),
                run.ended,
                str(len(run.steps)),
                shorten(value_text(run.output), 60) if run.output is not None else "-",
            ]
            for run in replayed.runs
        ),
    )
    steps = sum(len(run.steps) for run in replayed.runs)
    equal = sum(recorded == again for recorded, again in replayed.digests.values())
    done = f"{counted(len(replayed.runs), 'run')} and {counted(steps, 'step')}"
    out.print(f"replayed {done}; no model and no tool was called")
    out.print(f"head digests equal: {equal} of {len(replayed.digests)}")


def _as_json(replayed: Replayed) -> dict[str, Any]:
    return {
        "runs": [
            {
                "thread": run.stream,
                "run": run.run,
                "ended": run.ended,
                "stopped": run.stopped,
                "steps": list(run.steps),
                "output": run.output,
            }
            for run in replayed.runs
        ],
        "digests": {
            stream: {"recorded": recorded, "replayed": again} for stream, (recorded, again) in replayed.digests.items()
        },
        "digests_equal": replayed.digests_equal,
    }


def _show_divergence(found: ReplayDivergence, *, as_json: bool) -> None:
    if as_json:
        fields = ("stream", "sequence", "run", "step", "field", "expected", "actual")
        write_json({"diverged": {name: getattr(found, name) for name in fields}})
        return
    out = console()
    out.print(safe(f"{found.stream}, sequence {found.sequence}, run {found.run}"), style="bold")
    asked = _ASKED.get(found.field)
    out.print(safe(f"step {found.step}, {found.field}" + (f" (digest of {asked})" if asked else "")))
    start = _first_difference(found.expected, found.actual)
    out.print(f"- recorded  {_around(found.expected, start)}", style="red", soft_wrap=True)
    out.print(f"+ replayed  {_around(found.actual, start)}", style="green", soft_wrap=True)


def _first_difference(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))


def _around(text: str, place: int) -> str:
    """Return the part of a long text in which it differs from another."""
    start = max(0, place - _BEFORE)
    part = text[start : start + _AROUND]
    return one_line(f"{'...' if start else ''}{part}{'...' if start + _AROUND < len(text) else ''}")
