"""Skills: instructions, tools and knowledge that many agents can share. Pure configuration; an agent absorbs them."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from pydantic_ai import Agent, Tool
from pydantic_ai.exceptions import UserError
from pydantic_ai.toolsets import FunctionToolset

from ..errors import StepFailed
from .calling import call_anyhow
from .composed import declared_tools
from .declared import check_function
from .failures import describe
from .knowledge import RETRIEVE, Knowledge, Quoted, Source, began_without, knowledge_of, query_of, retrieve
from .operation import check_tool_name
from .options import OPTIONS_KEY
from .recorded import Asked, Produced
from .scope import Drive
from .steps import RunSteps
from .tool_step import RunNow

__all__ = ["Fragment", "Skill", "absorb", "begin", "define_skill"]

Fragment = str | Callable[[RunNow], Any]
"""Instructions of a skill: text, or a function that returns it, which may be async."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

_OF = "skill"
"""The option of a tool under which the skill is kept that it came with."""


@dataclass(frozen=True, kw_only=True)
class Skill:
    """What `define_skill` declares."""

    name: str
    description: str | None = None
    instructions: Fragment | None = None
    tools: tuple[Tool[Any], ...] = ()
    knowledge: Knowledge | None = None

    def __post_init__(self) -> None:
        """Check the declaration."""
        if not isinstance(cast("object", self.name), str) or not _NAME.fullmatch(self.name):
            raise ValueError(f"a skill needs a name of letters, digits, _ and - (at most 64), not {self.name!r}")
        if self.instructions is not None and not isinstance(self.instructions, str):
            check_function(f"skill {self.name!r}: instructions", self.instructions, may_be_async=True)
        names = [tool.name for tool in self.tools]
        for name in names:
            try:
                check_tool_name(name)
            except UserError as error:
                raise ValueError(f"skill {self.name!r}: {error}") from None
            if names.count(name) > 1:
                raise ValueError(f"skill {self.name!r}: two tools are named {name!r}")
        if not self.instructions and not self.tools and self.knowledge is None:
            raise ValueError(f"skill {self.name!r} has neither instructions nor tools nor knowledge")


def define_skill(
    name: str,
    *,
    instructions: Fragment | None = None,
    tools: Iterable[Tool[Any] | Callable[..., Any]] = (),
    knowledge: Knowledge | Source | None = None,
    description: str | None = None,
) -> Skill:
    """Declare what agents can share: `define_agent(..., skills=[...])`.

    - `instructions` stand behind the agent's own, and behind those of the skills before it. A function is called once
      at the start of a run, and recorded.
    - `tools` are functions or pydantic-ai tools, and join the agent's own; all of them have names of their own.
    - `knowledge` is looked up once at the start of a run, and recorded: see `Knowledge`.

    Raises:
        ValueError, TypeError: the declaration is wrong; names the skill.
    """
    made = tuple(cast("Tool[Any]", tool if isinstance(tool, Tool) else Tool(tool)) for tool in tools)
    return Skill(
        name=name,
        description=description,
        instructions=instructions,
        tools=made,
        knowledge=knowledge_of(knowledge),
    )


def absorb(agent: Agent[Any, Any], skills: Sequence[Skill]) -> None:
    """Give an agent the tools of its skills; a second time changes nothing.

    Raises:
        TypeError: one of them is no skill.
        ValueError: two skills, or two tools, have one name; or it has the tools of another skill already.
    """
    what = f"agent {agent.name!r}"
    new = _tools_of(what, skills)
    for tool in declared_tools(agent):
        of, joining = _skill_of(tool), new.pop(tool.name, None)
        if of is None and joining is not None:
            raise ValueError(_twice(what, tool.name, "the agent itself", f"skill {joining[0]!r}"))
        if of is not None and (joining is None or joining[0] != of or joining[1].function is not tool.function):
            raise ValueError(
                f"{what}: it has tool {tool.name!r} of skill {of!r} from another definition; give each its own Agent"
            )
    for skill, tool in new.values():
        _own_tools(agent).add_tool(_marked(tool, skill))


def _tools_of(what: str, skills: Sequence[Skill]) -> dict[str, tuple[str, Tool[Any]]]:
    """Return the tools of skills by name, each with its skill's."""
    tools: dict[str, tuple[str, Tool[Any]]] = {}
    names: set[str] = set()
    for skill in skills:
        if not isinstance(cast("object", skill), Skill):
            raise TypeError(f"{what}: skills are made by define_skill, not {type(skill).__name__}")
        if skill.name in names:
            raise ValueError(f"{what}: two skills are named {skill.name!r}")
        names.add(skill.name)
        for tool in skill.tools:
            if tool.name in tools:
                raise ValueError(_twice(what, tool.name, f"skill {tools[tool.name][0]!r}", f"skill {skill.name!r}"))
            tools[tool.name] = (skill.name, tool)
    return tools


def _twice(what: str, tool: str, one: str, other: str) -> str:
    return f"{what}: tool {tool!r} is of {one} and of {other}; the model sees one set of names, so rename one"


async def begin(
    drive: Drive, skills: Sequence[Skill], knowledge: Knowledge | Source | None, prompt: msgspec.Raw
) -> None:
    """Resolve what the turns of a run are told by its skills and its knowledge, each once, as steps."""
    steps, run = drive.steps, RunNow(drive.steps, "run")
    fragments = [await _fragment(steps, skill, run) for skill in skills]
    drive.skills = "\n\n".join(text for text in fragments if text.strip()) or None
    sources = [(RETRIEVE, steps.agent, knowledge_of(knowledge))]
    sources += [(f"{RETRIEVE}:{skill.name}", skill.name, skill.knowledge) for skill in skills]
    texts = [
        await retrieve(steps, name, title, source, query_of(prompt), run)
        for name, title, source in sources
        if source is not None
    ]
    if any(texts):
        drive.quoted = Quoted("\n\n".join(text for text in texts if text))


async def _fragment(steps: RunSteps, skill: Skill, run: RunNow) -> str:
    thunk = skill.instructions
    if thunk is None or isinstance(thunk, str):
        return thunk or ""
    name = f"skill:instructions:{skill.name}"
    if began_without(steps, name):
        return ""

    async def body() -> Produced:
        text = await call_anyhow(thunk, run)
        if not isinstance(text, str):
            raise TypeError(f"skill {skill.name!r}: its instructions are text, not {type(text).__name__}")
        return Produced(msgspec.Raw(msgspec.json.encode(text)))

    outcome = await steps.turn(Asked(name, {}, body, describe))
    if outcome.error is not None:
        raise StepFailed(step=name, type=outcome.error.type, message=outcome.error.message)
    return cast("str", msgspec.json.decode(outcome.result))


def _marked(tool: Tool[Any], skill: str) -> Tool[Any]:
    """Return a tool that says which skill it came with; the skill's own is shared, and stays as it is."""
    marked = copy.copy(tool)
    metadata = dict(tool.metadata or {})
    marked.metadata = {**metadata, OPTIONS_KEY: {**metadata.get(OPTIONS_KEY, {}), _OF: skill}}
    return marked


def _skill_of(tool: Tool[Any]) -> str | None:
    return cast("Mapping[str, Any]", (tool.metadata or {}).get(OPTIONS_KEY) or {}).get(_OF)


def _own_tools(agent: Agent[Any, Any]) -> FunctionToolset[Any]:
    return next(toolset for toolset in agent.toolsets if isinstance(toolset, FunctionToolset))
