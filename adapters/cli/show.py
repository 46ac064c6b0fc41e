"""`clew show`: a conversation as a person would read it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, cast

import msgspec
import typer
from rich.console import Console

from ...journal import RecordedEvent, category_of
from ...projections import AWAITS_DECISION, Message, ThreadView, messages, view_of
from .exits import Refused
from .facts import call_text, value_text
from .opening import DEFAULT_JOURNAL, AsJson, JournalPath, find_thread, open_journal
from .render import console, one_line, safe, time_of, write_json
from .standing import how_to_decide, standing, waiting_for

__all__ = ["show"]

_LINES_MAX: Final = 12
_LENGTH_MAX: Final = 800

Part = dict[str, Any]


def show(
    thread: Annotated[str, typer.Argument(metavar="THREAD", help="The thread's key.")],
    *,
    full: Annotated[bool, typer.Option("--full", help="Do not shorten anything.")] = False,
    journal: JournalPath = DEFAULT_JOURNAL,
    as_json: AsJson = False,
) -> int:
    """Show what was said in a conversation.

    Long texts are shortened; with --full they are not, and the instructions to the model are shown too.
    """
    with open_journal(journal, readonly=True) as opened:
        stream = find_thread(opened, journal, thread)
        events = list(opened.read(stream))
    if category_of(stream) != "thread":
        raise Refused(f"{stream} is not a conversation; `clew log {stream}` lists its events")
    said = messages(events)
    if as_json:
        write_json(said)
        return 0
    page = _Page(console(), full=full)
    page.head(events, view_of(events))
    for message in said:
        page.message(message)
    page.foot(view_of(events), journal)
    return 0


class _Page:
    """A conversation on its way to the reader."""

    def __init__(self, out: Console, *, full: bool) -> None:
        self._out = out
        self._full = full
        self._instructions: str | None = None

    def head(self, events: list[RecordedEvent], view: ThreadView) -> None:
        steps = sum(run.steps for run in view.runs)
        self._out.print(safe(view.stream), style="bold")
        if view.title:
            self._out.print(safe(f"title {view.title}"))
        facts = f"owner {view.owner or '-'}  status {view.status}  runs {len(view.runs)}  steps {steps}"
        self._out.print(safe(f"{facts}  last {time_of(events[-1].recorded_at)}"))

    def message(self, message: Message) -> None:
        at = _time(message.get("timestamp"))
        instructions = message.get("instructions")
        if self._full and isinstance(instructions, str) and instructions != self._instructions:
            self._instructions = instructions
            self._say("instructions", at, instructions)
        model = message.get("model_name")
        for part in cast("list[Part]", message["parts"]):
            self._part(part, at, cast("str | None", model))

    def foot(self, view: ThreadView, journal: str) -> None:
        for run in view.runs:
            if run.status != "done":
                self._out.print()
                self._out.print(one_line(standing(run)), style="bold", soft_wrap=True)
                for line in waiting_for(run):
                    self._out.print(f"  {one_line(line)}", soft_wrap=True)
                for line in how_to_decide(view, run, journal):
                    self._out.print(f"  decide: {one_line(line)}", soft_wrap=True)
        if view.runs and (used := view.usage).requests:
            self._out.print()
            tokens = f"{used.input_tokens} tokens in, {used.output_tokens} out"
            self._out.print(f"used {used.requests} model requests, {used.tool_calls} tool calls, {tokens}")

    def _part(self, part: Part, at: str, model: str | None) -> None:
        kind = str(part.get("part_kind", ""))
        match kind:
            case "user-prompt":
                self._say("user", at, _content_text(part.get("content")), style="cyan")
            case "system-prompt":
                self._say("system", at, _content_text(part.get("content")))
            case "text":
                self._say(f"assistant ({model})" if model else "assistant", at, _content_text(part.get("content")))
            case "tool-return" | "builtin-tool-return":
                outcome = "pending" if part.get("content") == AWAITS_DECISION else part.get("outcome", "success")
                title = f"result of {part.get('tool_name')}" + ("" if outcome == "success" else f" ({outcome})")
                self._say(title, at, _content_text(part.get("content")), style="green")
            case "retry-prompt":
                self._say(f"sent back to the model by {part.get('tool_name') or 'the output check'}", at,
                          _content_text(part.get("content")), style="yellow")  # fmt: skip
            case _ if kind.endswith("tool-call"):
                self._say("assistant calls", at, call_text(part), style="magenta")
            case _:
                self._say(f"assistant, {kind}", at, _content_text(part.get("content")))

    def _say(self, title: str, at: str, text: str, *, style: str | None = None) -> None:
        self._out.print()
        self._out.print(safe(f"{title}  {at}"), style=f"bold {style}" if style else "bold")
        shown, left_out = (text, 0) if self._full else _shortened(text)
        for line in safe(shown, lines=True).split("\n"):
            self._out.print(f"  {line}".rstrip())
        if left_out:
            self._out.print(f"  [{left_out} more characters; --full shows them]", style="dim")


def _shortened(text: str) -> tuple[str, int]:
    """Return the beginning of a text, and how much is left out."""
    kept = "\n".join(text[:_LENGTH_MAX].split("\n")[:_LINES_MAX])
    return kept, len(text) - len(kept)


def _time(timestamp: object) -> str:
    if not isinstance(timestamp, str):
        return ""
    try:
        return datetime.fromisoformat(timestamp).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return ""


def _content_text(content: object) -> str:
    """Return content as text; what is no text is named."""
    if isinstance(content, str):
        return content
    items = cast("list[object]", content) if isinstance(content, list) else []
    if any(isinstance(one, dict) and "kind" in one for one in items):
        return "\n".join(_item_text(cast("Part", one)) if isinstance(one, dict) else value_text(one) for one in items)
    return value_text(cast("object", content))


def _item_text(item: Part) -> str:
    kind = str(item.get("kind", "item"))
    if isinstance(item.get("url"), str):
        return f"[{kind} {item['url']}]"
    if isinstance(item.get("data"), str):
        return f"[{kind} {item.get('media_type', '')}, {len(str(item['data'])) * 3 // 4} bytes]"
    text: object = item.get("content", item.get("text"))
    return text if isinstance(text, str) else f"[{kind} {msgspec.json.encode(item).decode()}]"
