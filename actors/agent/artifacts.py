"""Results of tools that are too long for a model: it gets the beginning, and the whole is an artifact of the thread.

A tool's step is recorded with what the model gets, and in the same append the whole as `artifact.stored`. A tool of
ours, `read_artifact`, reads on; `thread.artifact(id)` gives users the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple, cast

import msgspec
from pydantic_ai import Agent, RunContext
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import FunctionToolset

from ...journal import Catalog, Journal
from ...journal.facts import ArtifactStored
from ..errors import UnknownArtifact
from ..thread import Artifact
from .artifact_text import ResultLimits, end_at, text_of
from .options import OPTIONS_KEY, RESULT_CHARS_MAX, check_result_chars
from .scope import current_drive

__all__ = ["READ_ARTIFACT", "ResultCap", "Shortened", "find_artifact", "limits_of", "shorten"]

READ_ARTIFACT = "read_artifact"

_READS = "reads_artifacts"
"""In a tool's options: it is ours. What it returns is within the limit, so it never becomes an artifact."""

_CATALOG = Catalog(ArtifactStored)

_FILES = frozenset({"audio-url", "binary", "cache-point", "document-url", "image-url", "uploaded-file", "video-url"})
"""What a file says that it is, in pydantic-ai's JSON."""


@dataclass(frozen=True, kw_only=True)
class ResultCap:
    """How long the result of a tool may be that a model gets: at most `chars_max` characters, as text or as JSON.

    A longer one is kept whole, as an artifact of the thread, and the model gets its beginning, with a note on how to
    read on: the tool `read_artifact` is then one of the agent's. A tool may have a limit of its own
    (`tool_options(result_chars_max=...)`).

    Raises:
        ValueError: the number is out of range.
    """

    chars_max: int = RESULT_CHARS_MAX

    def __post_init__(self) -> None:
        """Check it where it is declared."""
        check_result_chars("chars_max", self.chars_max)


class Shortened(NamedTuple):
    """A result as the model gets it, and the artifacts that hold what is left out."""

    result: msgspec.Raw
    artifacts: tuple[Artifact, ...] = ()


def shorten(result: msgspec.Raw, *, chars_max: int, place: str, readable: bool) -> Shortened:
    """Return the result of a tool's step with what is too long in it cut off; `place` is the step, for ids.

    Texts of errors are shortened too. Files stay, and count for nothing.
    """
    if memoryview(result).nbytes <= chars_max:
        return Shortened(result)
    spill = _Spill(chars_max, place, readable=readable)
    value = cast("dict[str, Any]", msgspec.json.decode(result))
    if "result" in value:
        inner: object = value["result"]
        wrapped = value.get("kind") == "tool_return" and _kind(inner) == "tool-return"
        value["result"] = spill.wrapped(cast("dict[str, Any]", inner)) if wrapped else spill.value(inner)
    elif isinstance(value.get("message"), str):
        value["message"] = spill.value(value["message"])
    if not spill.artifacts:
        return Shortened(result)
    return Shortened(msgspec.Raw(msgspec.json.encode(value)), tuple(spill.artifacts))


def _kind(value: object) -> object:
    return cast("dict[str, object]", value).get("kind") if isinstance(value, dict) else None


class _Spill:
    """Cuts values, keeping each whole as an artifact with an id of its own."""

    def __init__(self, chars_max: int, place: str, *, readable: bool) -> None:
        self.artifacts: list[Artifact] = []
        self._chars_max = chars_max
        self._place = place
        self._readable = readable

    def wrapped(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return pydantic-ai's `ToolReturn`, with what the model gets of it cut."""
        cut = {"return_value": self.value(value.get("return_value"))}
        if value.get("content") is not None:
            cut["content"] = self.value(value["content"])
        return {**value, **cut}

    def value(self, value: object) -> object:
        """Return a value, as it is or the beginning of its text; of a list with files, the files stay."""
        if not isinstance(value, list):
            return self._text(value)
        items = cast("list[object]", value)
        files = [item for item in items if _kind(item) in _FILES]
        if not files:
            return self._text(items)
        rest = [item for item in items if _kind(item) not in _FILES]
        whole: object = rest[0] if len(rest) == 1 else rest
        cut = self._text(whole)
        return items if cut is whole else [cut, *files]

    def _text(self, value: object) -> object:
        content = msgspec.Raw(msgspec.json.encode(value))
        text = text_of(content)
        if len(text) <= self._chars_max:
            return value
        id_ = sha256(f"{self._place}\0{len(self.artifacts)}".encode()).hexdigest()[:12]
        self.artifacts.append(Artifact(id_, content))
        return _page(id_, text, 0, self._chars_max, readable=self._readable)


def _page(id_: str, text: str, start: int, chars_max: int, *, readable: bool) -> str:
    """Return a piece of a text from `start` on, with a note of where it is and how to read on: at most `chars_max`."""
    room = chars_max - len(_note(id_, start, len(text), len(text), readable=readable))
    if start + room >= len(text):
        return text[start:] + _end_note(start, len(text))
    end = end_at(text, start, start + room)
    return text[start:end] + _note(id_, start, end, len(text), readable=readable)


def _note(id_: str, start: int, end: int, total: int, *, readable: bool) -> str:
    where = f"\n\n[Characters {start} to {end} of {total}"
    if not readable:
        return f"{where}; the whole is artifact {id_}.]"
    return f'{where}. Read on with {READ_ARTIFACT}(id="{id_}", offset={end}).]'


def _end_note(start: int, total: int) -> str:
    return f"\n\n[Characters {start} to {total} of {total}: the end.]"


async def read_artifact(id: str, offset: int = 0, length: int | None = None) -> str:  # noqa: A002  (the field's word)
    """Read on in a tool's result that was too long to be shown whole.

    Args:
        id: The id of the artifact, from the note behind the result.
        offset: The character to begin at.
        length: How many characters at the most; by default as many as fit.
    """
    drive = current_drive()
    if drive is None or drive.steps.find_artifact is None:
        raise ToolFailed("There are no artifacts here.")
    try:
        text = text_of(drive.steps.find_artifact(id))
    except UnknownArtifact:
        raise ToolFailed(f"There is no artifact {id!r} in this conversation.") from None
    if not 0 <= offset < len(text):
        raise ToolFailed(f"Artifact {id!r} has {len(text)} characters; there is none at offset {offset}.")
    chars_max = drive.limits.read_max or RESULT_CHARS_MAX
    if length is None or length >= chars_max:
        return _page(id, text, offset, chars_max, readable=True)
    if length < 1:
        raise ToolFailed(f"The length is at least 1, not {length}.")
    # The note is not what was asked for, so it comes on top; both fit, or less is shown.
    noted = len(_note(id, offset, len(text), len(text), readable=True))
    return _page(id, text, offset, min(chars_max, length + noted), readable=True)


def find_artifact(journal: Journal, stream: str, id_: str) -> msgspec.Raw:
    """Return the content of an artifact of a thread.

    Raises:
        UnknownArtifact: there is none of this id.
    """
    for event in journal.read(stream):
        # Those of other types are not even loaded.
        if event.type.name == "artifact.stored":
            stored = cast("ArtifactStored", _CATALOG.decode(event))
            if stored.id == id_:
                return stored.content
    raise UnknownArtifact(thread=stream, id=id_)


def limits_of(agent: Agent[Any, Any], cap: ResultCap | None) -> ResultLimits:
    """Return how long results of an agent's tools may be; where there is a limit, it has the tool to read on.

    Raises:
        ValueError: it has another tool of that name.
    """
    read_max = _read_max(agent) if cap is None else cap.chars_max
    if read_max is not None:
        _add_reader(agent)
    return ResultLimits(None if cap is None else cap.chars_max, read_max)


def _read_max(agent: Agent[Any, Any]) -> int | None:
    """Return the limit of what is read at once, if one of the agent's tools has a limit of its own."""
    limited = any(
        "result_chars_max" in ((tool.metadata or {}).get(OPTIONS_KEY) or {})
        for toolset in _function_toolsets(agent)
        for tool in toolset.tools.values()
    )
    return RESULT_CHARS_MAX if limited else None


def _add_reader(agent: Agent[Any, Any]) -> None:
    """Give an agent the tool `read_artifact`, if it has not got it yet; it shows only where a drive may read."""
    for toolset in _function_toolsets(agent):
        if (tool := toolset.tools.get(READ_ARTIFACT)) is not None:
            if (tool.metadata or {}).get(OPTIONS_KEY, {}).get(_READS):
                return
            raise ValueError(
                f"agent {agent.name!r}: with a limit on results it gets a tool {READ_ARTIFACT!r}, and has one of its "
                "own; give that another name"
            )
    metadata = {OPTIONS_KEY: {_READS: True}}
    agent.tool_plain(name=READ_ARTIFACT, metadata=metadata, prepare=_where_read)(read_artifact)


async def _where_read(ctx: RunContext[Any], tool: ToolDefinition) -> ToolDefinition | None:
    """Show the tool only in a thread's own run of an agent whose results are limited."""
    drive = current_drive()
    return tool if drive is not None and drive.limits.read_max is not None and ctx.run_id == drive.run_id else None


def _function_toolsets(agent: Agent[Any, Any]) -> Sequence[FunctionToolset[Any]]:
    found: list[FunctionToolset[Any]] = []
    for toolset in agent.toolsets:
        toolset.apply(lambda leaf: found.append(leaf) if isinstance(leaf, FunctionToolset) else None)
    return found
