"""What a function takes by name, as a type that arguments can be checked against."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast, get_type_hints

import msgspec
from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, TypeAdapter, ValidationError, create_model

from .fitting import Unfit, fit_for, path_of, schema_of

__all__ = ["FunctionInput"]

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class FunctionInput:
    """What a function takes: its parameters by name, or one value of the type `input`.

    Raises:
        TypeError: a parameter cannot be given by name, or its type cannot be checked.
    """

    def __init__(self, name: str, call: Callable[..., Any], input: Any = None) -> None:  # noqa: A002  (the field's word)
        self._fit = None if input is None else fit_for(input, what=f"function {name!r}: its input")
        self._model, self._more = _parameters(name, call) if input is None else (None, None)
        self.type: Any = input if self._model is None else self._model

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of what it takes."""
        return schema_of(self.type)

    def bind(self, given: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return what to call the function with, positional and by name.

        Raises:
            Unfit: the function does not take this.
        """
        if self._fit is not None:
            return (self._fit(dict(given)),), {}
        assert self._model is not None  # noqa: S101  (one of the two is there)
        try:
            held = self._model.model_validate(dict(given))
            more = None if self._more is None else self._more.validate_python(held.model_extra)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise Unfit(path_of(first["loc"]), first["msg"], first["loc"]) from error
        # What was not given is the function's own default.
        fields = self._model.model_fields
        own = {str(fields[field].alias): getattr(held, field) for field in held.model_fields_set if field in fields}
        return (), {**own, **(more or {})}


def _parameters(name: str, call: Callable[..., Any]) -> tuple[type[BaseModel], TypeAdapter[Any] | None]:
    """Return the model of a function's parameters, and what further ones are, where it takes any."""
    try:
        parameters = inspect.signature(call).parameters
        hints = get_type_hints(call, include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        raise TypeError(f"function {name!r}: what it takes cannot be told from it ({error}); give its input") from error
    fields: dict[str, Any] = {}
    more: TypeAdapter[Any] | None = None
    for number, (key, parameter) in enumerate(parameters.items()):
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            more = TypeAdapter(cast("Any", dict)[str, hints.get(key, Any)])
        elif parameter.kind not in _BY_NAME:
            raise TypeError(f"function {name!r}: its arguments are given by name, and {key!r} cannot be")
        else:
            # By a name of our own, since a parameter may be called as something that every model has.
            fields[f"p{number}"] = (hints.get(key, Any), _field(key, parameter))
    config = ConfigDict(extra="forbid" if more is None else "allow", arbitrary_types_allowed=True)
    try:
        return create_model(name, __config__=config, **fields), more
    except PydanticUserError as error:
        raise TypeError(f"function {name!r}: its arguments cannot be checked: {error}") from error


def _field(key: str, parameter: inspect.Parameter) -> Any:
    if parameter.default is inspect.Parameter.empty:
        return Field(alias=key)
    default = parameter.default
    try:
        shown = msgspec.json.decode(msgspec.json.encode(default)) == default
    except (TypeError, ValueError, msgspec.MsgspecError):
        shown = False
    return Field(default, alias=key) if shown else Field(default_factory=lambda: default, alias=key)
