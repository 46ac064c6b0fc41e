"""Code mode: one tool by which a model composes calls of several others, as data, in one turn."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, cast

from pydantic_ai import RunContext, Tool
from pydantic_ai.exceptions import UserError

from .code_answer import EndedStep, answer_of
from .code_call import CallEnd, ScriptRun, call_tool
from .code_script import InputRefused, ScriptRefused, ScriptStep, read_script
from .composed import COMPOSED, Composed, composed_of
from .operation import check_tool_name
from .options import OPTIONS_KEY, SECONDS_MAX
from .scope import current_drive
from .siblings import current_scope

__all__ = ["code_tool"]

STEPS_MAX = 16
STEPS_LIMIT = 100
"""How many steps a script may have: by default, and at the most."""

WALL_S = 300.0
"""How long after its beginning a script may begin a further step."""

OUTPUT_BYTES_MAX = 64 * 1024
RESULT_BYTES_MAX = 256 * 1024
"""How large an output may be that the model is shown, as JSON, and all of them together."""

_NUMBER = re.compile(r"(#[0-9]+)?/$")
"""The end of a scope: of a step that is the second of its name, the number too."""

_EXPLAINED = """\
Call several tools in one go, as a script of steps. The steps run in order, one after another, and the first that fails
ends the script. Anywhere in an input, {"$from": "ID", "$path": "a.b.0.c"} stands for the output of the earlier step ID,
or the part of it that the path of keys and indexes leads to (no $path: all of it). Nothing else is evaluated.
A key that is really called $from is written $$from. You get each step's output, and that of the last one as `final`.
These are the tools:"""


def code_tool(
    tools: Mapping[str, Tool[Any] | Callable[..., Any]] | Iterable[Tool[Any] | Callable[..., Any]],
    *,
    name: str = "run_script",
    max_steps: int = STEPS_MAX,
    wall_s: float = WALL_S,
    output_bytes_max: int = OUTPUT_BYTES_MAX,
    result_bytes_max: int = RESULT_BYTES_MAX,
) -> Tool[Any]:
    """Return a tool that runs scripts of calls of `tools`, which the model writes: see the page on code mode.

    Each call is a step of its own within the tool's (`tool:run_script:c1/tool:NAME:ID`), with the tool's own attempts,
    key, writes, and gate: a script that comes to a call that needs approval waits there, for days if need be, and goes
    on without making the calls before it again. So it does after a crash; only the call that was cut off is made again,
    with the same key. A call that fails, or is refused, ends the script, and the model is told which ran and which did
    not. The steps run one after another, also those that do not depend on each other.

    A script that is wrong is refused before anything of it runs. `wall_s` is how long after its beginning, in the
    present process and without what it waits for, a further step may begin. The model is not shown an output of more
    than `output_bytes_max` bytes of JSON, nor all of them beyond `result_bytes_max`; the steps behind may refer to it.

    Raises:
        ValueError: there is no tool, two have one name, one cannot be called by a script, or an option is out of range.
    """
    composed = _named(tools, name)
    for option, value, most in (
        ("max_steps", max_steps, STEPS_LIMIT),
        ("wall_s", wall_s, SECONDS_MAX),
        ("output_bytes_max", output_bytes_max, result_bytes_max),
        ("result_bytes_max", result_bytes_max, 1024 * RESULT_BYTES_MAX),
    ):
        if not 0 < value <= most:
            raise ValueError(f"code tool {name!r}: {option} is more than 0 and at most {most:g}, not {value}")
    scripts = _Scripts(composed, max_steps, wall_s, output_bytes_max, result_bytes_max)

    async def run_script(ctx: RunContext[Any], /, **given: Any) -> dict[str, Any]:
        return await scripts.run(ctx, given)

    tool: Tool[Any] = Tool.from_schema(run_script, name, _described(composed), _schema(composed, max_steps), True)  # noqa: FBT003  (pydantic-ai's order)
    tool.metadata = {OPTIONS_KEY: {"attempts": 1, COMPOSED: Composed(composed)}}
    return tool


@dataclass(frozen=True)
class _Scripts:
    """What runs scripts over these tools, within these limits."""

    tools: Mapping[str, Tool[Any]]
    max_steps: int
    wall_s: float
    output_bytes_max: int
    result_bytes_max: int

    async def run(self, context: RunContext[Any], given: Mapping[str, Any]) -> dict[str, Any]:
        try:
            steps = read_script(given, list(self.tools), self.max_steps)
        except ScriptRefused as refused:
            return {"status": "refused", "error": {"code": refused.code, "message": str(refused)}}
        ended = await self._run(_run_of(context), steps)
        return answer_of(
            ended,
            [step.id for step in steps[len(ended) :]],
            output_bytes_max=self.output_bytes_max,
            result_bytes_max=self.result_bytes_max,
        )

    async def _run(self, run: ScriptRun, steps: Sequence[ScriptStep]) -> list[EndedStep]:
        """Run the steps in order, up to the first that fails."""
        now = time.monotonic_ns if run.drive is None else run.drive.steps.now
        until, outputs, ended = now() + round(self.wall_s * 1e9), dict[str, Any](), list[EndedStep]()
        for step in steps:
            if now() > until and not run.is_settled(step.tool, step.id):
                late = f"the script has taken more than {self.wall_s:g} s, so this step was not begun"
                end = CallEnd(error="timed_out", message=late)
            else:
                end = await self._step(run, step, outputs)
            ended.append(EndedStep(step, end))
            if end.error is not None:
                break
            outputs[step.id] = end.output
        return ended

    async def _step(self, run: ScriptRun, step: ScriptStep, outputs: Mapping[str, Any]) -> CallEnd:
        try:
            given = step.resolve(outputs)
        except InputRefused as refused:
            return CallEnd(error="invalid_input", message=f"{refused}; it was not called")
        return await call_tool(run, self.tools[step.tool], step.id, given)


def _run_of(context: RunContext[Any]) -> ScriptRun:
    """Return where a script runs: in steps of its own, if its tool is a step.

    In an agent that runs inside of a tool without steps of its own, a script is part of that tool's step: run again,
    it may be another script, and must not come to what was recorded of the first.
    """
    drive = current_drive()
    own = f"{context.run_id}/tool:{context.tool_name}:{context.tool_call_id}"
    if drive is None or _NUMBER.sub("", f"{drive.run_id}/{current_scope()}") != own:
        return ScriptRun(context)
    return ScriptRun(context, drive, drive.steps.names.begin_agent_run())


def _named(
    tools: Mapping[str, Tool[Any] | Callable[..., Any]] | Iterable[Tool[Any] | Callable[..., Any]], code: str
) -> dict[str, Tool[Any]]:
    """Return the tools by the names that scripts call them by.

    Raises:
        ValueError: they cannot be; names the tool.
    """
    given: list[tuple[str | None, Any]] = [(None, tool) for tool in tools]
    if isinstance(tools, Mapping):
        given = list(cast("Mapping[str | None, Any]", tools).items())
    named: dict[str, Tool[Any]] = {}
    for called, one in given:
        tool: Tool[Any] = copy(cast("Tool[Any]", one)) if isinstance(one, Tool) else Tool(one)
        tool.name = tool.name if called is None else called
        try:
            check_tool_name(tool.name)
        except UserError as error:
            raise ValueError(f"code tool {code!r}: {error}") from error
        if tool.name in named:
            raise ValueError(f"code tool {code!r}: two tools are named {tool.name!r}")
        if composed_of(tool.metadata):
            raise ValueError(f"code tool {code!r}: {tool.name!r} runs scripts itself; give this one its tools")
        named[tool.name] = tool
    if not named:
        raise ValueError(f"code tool {code!r}: it has no tools to call")
    return named


def _described(tools: Mapping[str, Tool[Any]]) -> str:
    return "\n".join([_EXPLAINED, *map(_line, tools.values())])


def _line(tool: Tool[Any]) -> str:
    schema = tool.function_schema
    output = f" Output: {json.dumps(schema.return_schema)}" if schema.return_schema else ""
    return f"- {tool.name}: {tool.description or '(not described)'} Input: {json.dumps(schema.json_schema)}{output}"


def _schema(tools: Mapping[str, Tool[Any]], max_steps: int) -> dict[str, Any]:
    step = {
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "How later steps refer to this one: letters, digits, _ and -."},
            "tool": {"type": "string", "enum": list(tools)},
            "input": {"type": "object", "description": "The tool's input; references allowed anywhere in it."},
        },
        "required": ["id", "tool", "input"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"steps": {"type": "array", "minItems": 1, "maxItems": max_steps, "items": step}},
        "required": ["steps"],
        "additionalProperties": False,
    }
