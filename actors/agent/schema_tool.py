"""A tool from a schema: what it takes is declared apart from the code that does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypedDict, Unpack, cast

from pydantic import ValidationError
from pydantic_ai import Tool
from pydantic_ai.exceptions import UserError
from pydantic_core import InitErrorDetails, PydanticCustomError, SchemaValidator, core_schema

from .declared import is_async
from .fitting import Fit, Unfit, fit_for, schema_of
from .operation import check_tool_name
from .options import NeedsApproval, tool_options
from .tool_step import ToolStep, tool_step

__all__ = ["Execute", "ToolOptions", "define_agent_tool", "tool_of", "what_of"]

Execute = Callable[[Any, ToolStep], Any]
"""Does what a tool is for, with its input and its step; may be async."""


class ToolOptions(TypedDict, total=False):
    """The options of `tool_options`; their text is there."""

    attempts: int
    delay_s: float
    factor: float
    retry_on: Iterable[type[BaseException]] | None
    at_most_once: bool
    timeout_s: float | None
    needs_approval: NeedsApproval
    approval_timeout_s: float
    result_chars_max: int | None


def define_agent_tool(
    name: str, *, description: str, input_schema: Any, execute: Execute, **options: Unpack[ToolOptions]
) -> Tool[Any]:
    """Declare a tool by a schema of its input: `execute(input, step)` is called with what fits it.

    `input_schema` is a JSON schema (draft 2020-12) of an object, a pydantic model, a `msgspec.Struct` or a `TypedDict`;
    `input` is what it makes of the arguments, for a JSON schema the arguments as they are. What does not fit does not
    reach `execute` and is not asked about: the model is told where it is wrong, and may try again. `execute` may be
    async; sync code runs in a thread. `step` is the `ToolStep`, with the key for what is done outside, the synced state
    and the application's functions. The other options are those of `tool_options`.

    Raises:
        ValueError: the name or an option is not what it should be.
        TypeError: the schema is none, or not that of an object, or refers to something outside of it.
    """
    fit = fit_for(input_schema, what=what_of(name))
    if is_async(execute):

        async def call(given: dict[str, Any]) -> Any:
            return await execute(fit(given), tool_step())

        return tool_of(name, description, input_schema, call, fit, options)
    return tool_of(name, description, input_schema, lambda given: execute(fit(given), tool_step()), fit, options)


def what_of(name: str) -> str:
    """Return what a tool's schema is called in errors."""
    return f"tool {name!r}: its input schema"


def tool_of(
    name: str,
    description: str,
    input_schema: Any,
    call: Callable[[dict[str, Any]], Any],
    fit: Fit,
    options: ToolOptions,
) -> Tool[Any]:
    """Return a tool that calls `call` with its arguments as they came, once they fit; raises as `define_agent_tool`."""
    schema = schema_of(input_schema)
    if schema.get("type") != "object":
        raise TypeError(f"{what_of(name)} is that of an object, with 'type': 'object' and its properties")
    try:
        check_tool_name(name)
    except UserError as error:
        raise ValueError(str(error)) from None
    if not name:
        raise ValueError("a tool needs a name")
    tool: Tool[Any] = Tool.from_schema(_by_name(call), name, description, schema)
    # Here, and not in the body: so that nobody is asked to approve what the tool would not take.
    tool.function_schema.validator = SchemaValidator(core_schema.no_info_plain_validator_function(_check(name, fit)))
    tool.metadata = tool_options(**options)
    return tool


def _by_name(call: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
    if is_async(call):

        async def named(**given: Any) -> Any:
            return await call(given)

        return named

    def named_plainly(**given: Any) -> Any:
        return call(given)

    return named_plainly


def _check(name: str, fit: Fit) -> Callable[[Any], dict[str, Any]]:
    """Return a validator that keeps the arguments as they came: they are what is recorded and approved."""

    def check(given: Any) -> dict[str, Any]:
        try:
            if not isinstance(given, dict):
                raise Unfit("$", f"it is an object, not {type(given).__name__}")
            fit(given)
        except Unfit as unfit:
            raise _told(name, given, unfit) from None
        except (OverflowError, ValueError, RecursionError) as error:
            # A number beyond what JSON's readers agree on, half of a surrogate pair, a thousand levels.
            raise _told(name, given, Unfit("$", f"it cannot be read as JSON: {error}")) from error
        return cast("dict[str, Any]", given)

    return check


def _told(name: str, given: Any, unfit: Unfit) -> ValidationError:
    reason = unfit.reason if unfit.at else f"{unfit.reason}, at {unfit.path}"
    told = PydanticCustomError("input_schema", "{reason}", {"reason": reason})
    return ValidationError.from_exception_data(
        name, [InitErrorDetails(type=told, loc=unfit.at, input=_held(given, unfit.at))]
    )


def _held(value: Any, at: Iterable[str | int]) -> Any:
    """Return what is at a place, or the last that there is on the way."""
    for part in at:
        try:
            value = value[part]
        except (LookupError, TypeError):
            break
    return value
