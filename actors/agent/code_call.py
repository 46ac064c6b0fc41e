"""One call of a script as a step of its own, as if the model had asked for it by itself: gate, key, tries and all.

The step is `TOOL_STEP/tool:NAME:ID` within that of the script's tool.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import msgspec
from pydantic import ValidationError
from pydantic_ai import RunContext
from pydantic_ai.durable_exec import (
    DurableOperation,
    ToolsetCallToolId,
    ToolsetCallToolParams,
    ToolsetValidateToolArgumentsId,
)
from pydantic_ai.exceptions import (
    ApprovalRequired,
    CallDeferred,
    ModelAPIError,
    ModelRetry,
    ToolFailed,
    UnexpectedModelBehavior,
    UserError,
)
from pydantic_ai.messages import ToolReturn
from pydantic_ai.tools import Tool
from pydantic_ai.toolsets import FunctionToolset, ToolsetTool
from pydantic_core import to_jsonable_python

from ...journal import NotRepresentable
from ..errors import StepFailed
from .approval import Refused
from .composed import may_ask_people
from .edited import against_schema, path_of
from .operation import BoundStep
from .options import OPTIONS_KEY, policy_of
from .payload import encode_payload
from .scope import Drive
from .sealing import Plain
from .siblings import current_scope

__all__ = ["CallEnd", "ScriptRun", "call_tool"]

_STEP_ERRORS = (StepFailed, NotRepresentable, ModelRetry, UnexpectedModelBehavior, UserError, ModelAPIError)
"""What a recorded failure is raised again as; whatever else comes is not about this call, and goes on."""

_FOUND_IN = "script"


class CallEnd(NamedTuple):
    """How a call of a script ended: with an output, or for a reason `error` that the message explains to the model."""

    output: Any = None
    error: str | None = None
    message: str = ""


@dataclass(frozen=True)
class ScriptRun:
    """Where a script runs: the context of its tool; its drive, and the id its steps are named under, in a thread."""

    context: RunContext[Any]
    drive: Drive | None = None
    run_id: str | None = None

    def is_settled(self, tool: str, id_: str) -> bool:
        """Whether the journal has the outcome of a call."""
        return self.drive is not None and self.drive.steps.record.is_settled(f"{current_scope()}tool:{tool}:{id_}")


class _Said(NamedTuple):
    """What a tool returned or said, as it is recorded; the names of its kinds are those of any tool's result."""

    kind: str
    result: Any = None
    message: str = ""


async def call_tool(run: ScriptRun, tool: Tool[Any], id_: str, given: dict[str, Any]) -> CallEnd:
    """Call a tool with this input, or return what is recorded of the call.

    Waits for people where the tool asks for it: then the run is let go of, and comes here again with their answer.
    """
    try:
        arguments = _validated(tool, given, run.context.validation_context)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        return _misfit(run, tool, path_of(first["loc"]), first["msg"])
    if (wrong := against_schema(tool, given)) is not None:
        return _misfit(run, tool, *wrong)
    call = _Call(run, tool, id_, arguments)
    try:
        return await call.validate() or await call.make()
    except _STEP_ERRORS as error:
        return CallEnd(error="failed", message=_reason(error))


class _Call:
    """A call whose arguments fit the tool's schema."""

    def __init__(self, run: ScriptRun, tool: Tool[Any], id_: str, arguments: dict[str, Any]) -> None:
        self._run = run
        self._tool = tool
        self._id = id_
        self._arguments = arguments
        self._toolset = FunctionToolset([tool], id=_FOUND_IN)
        # What the tool sees: the run's own id, and an id of its call that no other call of the run has.
        self._context = dataclasses.replace(
            run.context, tool_name=tool.name, tool_call_id=f"{run.context.tool_call_id}/{id_}", retry=0, max_retries=0
        )

    async def validate(self) -> CallEnd | None:
        """Have the tool's own validator look at the arguments, as a step; None where they may be called with."""
        check = self._tool.args_validator
        if check is None:
            return None

        async def handle(params: ToolsetCallToolParams) -> _Said:
            checked: Any = check(self._seen(params.ctx), **params.tool_args)
            if inspect.isawaitable(checked):
                await checked
            return _Said("tool_return")

        said = await self._step(ToolsetValidateToolArgumentsId("function", toolset_id=_FOUND_IN), handle)(
            self._params(None)
        )
        return None if said.kind == "tool_return" else _end(said)

    async def make(self) -> CallEnd:
        """Make the call, or return what is recorded of it."""
        options: dict[str, Any] = {}
        found: ToolsetTool[Any] | None = None
        if not self._run.is_settled(self._tool.name, self._id):
            found = next(iter((await self._toolset.get_tools(self._context)).values()), None)
            if found is None or found.tool_def.kind not in ("function", "unapproved"):
                return CallEnd(error="not_available", message="this tool is not available now")
            options = {**(found.tool_def.metadata or {}).get(OPTIONS_KEY, {})}
            if found.tool_def.kind == "unapproved":
                options["needs_approval"] = True
            if self._run.drive is None and policy_of(options).asks(_json(self._arguments)):
                return _NOBODY_TO_ASK

        async def handle(params: ToolsetCallToolParams) -> _Said:
            if found is None:
                raise AssertionError(f"{params.name} has its outcome recorded, and is called: a bug of Clew")
            return _said(await self._toolset.call_tool(params.name, params.tool_args, self._seen(params.ctx), found))

        step = self._step(ToolsetCallToolId("function", toolset_id=_FOUND_IN), handle)
        return _end(await step(self._params(found), config=options))

    def _params(self, found: ToolsetTool[Any] | None) -> ToolsetCallToolParams:
        """Return the call as its step is named after it."""
        named = dataclasses.replace(self._context, run_id=self._run.run_id, tool_call_id=self._id)
        return ToolsetCallToolParams(self._tool.name, tool_args=self._arguments, ctx=named, tool=found)

    def _seen(self, context: RunContext[Any]) -> RunContext[Any]:
        """Return the context as the tool sees it."""
        return dataclasses.replace(context, run_id=self._context.run_id, tool_call_id=self._context.tool_call_id)

    def _step(
        self,
        operation: ToolsetCallToolId | ToolsetValidateToolArgumentsId,
        handle: Callable[[ToolsetCallToolParams], Awaitable[_Said]],
    ) -> Callable[..., Awaitable[_Said]]:
        """Return what makes the call, as a step where a thread runs it."""

        async def told(params: ToolsetCallToolParams) -> _Said:
            try:
                return await handle(params)
            except ApprovalRequired:
                return _Said("approval_required")
            except ModelRetry as error:
                return _Said("model_retry", message=error.message)
            except ToolFailed as error:
                return _Said("tool_failed", message=error.message)
            except CallDeferred as error:
                raise UserError(
                    f"tool {params.name!r} is answered later, by somebody else, which a script cannot wait for"
                ) from error

        if self._run.drive is None:

            async def at_once(params: ToolsetCallToolParams, config: object = None) -> _Said:
                del config
                said = await told(params)
                what = f"the result of tool {params.name!r}"
                return said._replace(
                    result=msgspec.json.decode(encode_payload(lambda: _json(said.result), said.result, what))
                )

            return at_once
        declared = DurableOperation[Any, Any, Any](
            operation_id=operation,
            handler=told,
            parameter_transport=_InPlace(),
            cache_identity=_InPlace(),
            result_codec=_AsJson(),
            config_role="tool",
        )
        return BoundStep(declared, refusal=_refusal)


class _AsJson:
    """What a call says, to and from its recorded form."""

    def dump(self, value: _Said) -> dict[str, Any]:
        if value.message:
            return {"message": value.message, "kind": value.kind}
        return {"result": _json(value.result), "kind": value.kind}

    def load(self, payload: Any) -> _Said:
        return _Said(payload["kind"], payload.get("result"), payload.get("message", ""))


class _InPlace:
    """The parameters of a call, which stay where they are."""

    def dump(self, params: object) -> object:
        return params

    def load(self, payload: object, *, runtime: object) -> object:
        del runtime
        return payload

    def project(self, params: object) -> tuple[object, ...]:
        return (params,)


_NOBODY_TO_ASK = CallEnd(error="rejected", message="this call needs somebody's approval, and nobody can be asked here")


def _refusal(refused: Refused) -> dict[str, str]:
    """Return what is recorded of a call that people did not let be made."""
    return {"message": refused.text, "kind": refused.outcome}


def _said(value: Any) -> _Said:
    returned = value.return_value if isinstance(value, ToolReturn) else value
    # A dict that looks like pydantic-ai's own wrapper has a kind of its own, here as with any tool.
    wrapped = isinstance(returned, dict) and cast("dict[str, Any]", returned).get("kind") == "tool-return"
    return _Said("tool_content_result" if wrapped else "tool_return", returned)


def _end(said: _Said) -> CallEnd:
    match said.kind:
        case "tool_return" | "tool_content_result":
            return CallEnd(output=said.result)
        case "model_retry":
            return CallEnd(error="retry", message=said.message)
        case "tool_failed":
            return CallEnd(error="failed", message=said.message)
        case "approval_required":
            return _NOBODY_TO_ASK
        case outcome:
            return CallEnd(error=outcome, message=said.message)


def _validated(tool: Tool[Any], given: Mapping[str, Any], context: object) -> dict[str, Any]:
    """Return the input as the tool takes it, as if it had come from a model: from its JSON."""
    validator: Any = tool.function_schema.validator
    return cast("dict[str, Any]", validator.validate_json(msgspec.json.encode(given), context=context))


def _json(value: Any) -> Any:
    return to_jsonable_python(value)


def _misfit(run: ScriptRun, tool: Tool[Any], path: str, reason: str) -> CallEnd:
    # A reason may repeat the value, which must not be readable where the call's arguments are not.
    sealed = run.drive is not None and not isinstance(run.drive.terms.seal, Plain)
    why = "" if sealed and may_ask_people(tool.metadata) else f": {reason}"
    return CallEnd(error="invalid_input", message=f"its input does not fit, and it was not called: at {path}{why}")


def _reason(error: Exception) -> str:
    return f"{error.type}: {error.message}" if isinstance(error, StepFailed) else str(error)
