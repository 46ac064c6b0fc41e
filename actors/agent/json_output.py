"""An answer by a JSON schema, which is really checked: an answer that does not fit goes back to the model."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, TypeVar, cast

from pydantic import GetCoreSchemaHandler
from pydantic_ai import StructuredDict
from pydantic_ai.exceptions import UserError
from pydantic_ai.output import OutputSpec
from pydantic_core import CoreSchema, core_schema

__all__ = ["json_output", "output_of"]

Out = TypeVar("Out")

ERRORS_MAX = 5
"""Errors of one answer that the model is told of."""


def json_output(schema: dict[str, Any], *, name: str | None = None) -> type[dict[str, Any]]:
    """Return an output type whose answers are dicts that fit a JSON schema (draft 2020-12) of an object.

    pydantic-ai's `StructuredDict` shows a schema to the model and then takes any object. This checks it: what does not
    fit is told to the model, which may try again as often as the agent's output retries say. `name` is what the model
    is told that the answer is called; by default the schema's title.

    Raises:
        ValueError: it is no JSON schema, or not one of an object.
    """
    from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415  (slow to import, and rare)
    from referencing import Registry  # noqa: PLC0415  (comes with it)

    schema = copy.deepcopy(schema)
    try:
        Draft202012Validator.check_schema(schema)
        shown = StructuredDict(copy.deepcopy(schema), name=name)
    except (SchemaError, UserError) as error:
        reason = error.message if isinstance(error, SchemaError) else str(error)
        raise ValueError(f"the schema of the output cannot be used: {reason}") from error
    # With a registry of its own, so that no schema makes it fetch another one.
    validator = cast("Any", Draft202012Validator(schema, registry=cast("Any", Registry)()))

    def check(value: dict[str, Any]) -> dict[str, Any]:
        errors = cast("Iterator[Any]", validator.iter_errors(value))
        told = [f"{error.json_path}: {error.message}" for error, _ in zip(errors, range(ERRORS_MAX), strict=False)]
        if told:
            raise ValueError("; ".join(told))
        return value

    class Checked(shown):
        """What the model is shown, and a check of what it answers."""

        @classmethod
        def __get_pydantic_core_schema__(cls, source_type: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
            inner = cast("Any", shown).__get_pydantic_core_schema__(source_type, handler)
            return core_schema.no_info_after_validator_function(check, inner)

    Checked.__name__ = Checked.__qualname__ = shown.__name__
    return Checked


def output_of(agent: str, output: OutputSpec[Out] | dict[str, Any]) -> OutputSpec[Out]:
    """Return what an agent answers with as pydantic-ai takes it; a dict is a JSON schema.

    Raises:
        ValueError: the schema is none.
    """
    if not isinstance(output, dict):
        return output
    try:
        return cast("OutputSpec[Out]", json_output(cast("dict[str, Any]", output)))
    except ValueError as error:
        raise ValueError(f"agent {agent!r}: {error}") from error
