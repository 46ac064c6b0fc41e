"""Functions of the application that tools call by name: declared once, checked at every call, replaced in tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from .errors import InvalidInput, UnknownFunction

if TYPE_CHECKING:
    from .agent.function_input import FunctionInput

__all__ = ["NO_FUNCTIONS", "Function", "Functions", "define_function", "function"]

P = ParamSpec("P")
R = TypeVar("R")

_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


class Function(Generic[P, R]):
    """A function of the application under its name; called as the function itself."""

    def __init__(self, name: str, call: Callable[P, R], *, input: Any = None) -> None:  # noqa: A002, ANN401  (the field's word; a type form)
        self.name = name
        self.function = call
        self._type = input
        self.__doc__ = call.__doc__

    def __call__(self, *args: P.args, **named: P.kwargs) -> R:
        """Call the function."""
        return self.function(*args, **named)

    def __repr__(self) -> str:
        return f"Function({self.name!r})"

    @cached_property
    def input(self) -> FunctionInput:
        """What it takes."""
        # The checks come with pydantic, which whoever only declares a function need not pay for twice.
        from .agent.function_input import FunctionInput  # noqa: PLC0415  (as above)

        return FunctionInput(self.name, self.function, self._type)


def define_function(name: str, call: Callable[P, R], *, input: Any = None) -> Function[P, R]:  # noqa: A002, ANN401  (as above)
    """Declare a function of the application that tools can call by name: see `ActorSystem(functions=[...])`.

    Its arguments are given by name and checked against its annotations. With `input` (a pydantic model, a
    `msgspec.Struct`, a `TypedDict`, a JSON schema) it is called with one value, what that makes of the arguments.

    Raises:
        ValueError: the name is none.
        TypeError: it is no function, or what it takes cannot be checked.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"a function's name is letters, digits, _, -, . and : (at most 128), not {name!r}")
    if not callable(call):
        raise TypeError(f"function {name!r} is a function, not {type(call).__name__}")
    declared = Function(name, call, input=input)
    _ = declared.input
    return declared


def function(name: str, *, input: Any = None) -> Callable[[Callable[P, R]], Function[P, R]]:  # noqa: A002, ANN401  (as above)
    """Declare the function below as `define_function` does."""

    def declare(call: Callable[P, R]) -> Function[P, R]:
        return define_function(name, call, input=input)

    return declare


class Functions:
    """The functions of an application by name; `observe` is told of each call before it is made.

    Raises:
        TypeError: one of them was not declared by `function` or `define_function`.
        ValueError: two share a name.
    """

    def __init__(
        self,
        functions: Iterable[Function[..., Any]] = (),
        *,
        observe: Callable[[str, Mapping[str, Any]], object] | None = None,
    ) -> None:
        self._by_name: dict[str, Function[..., Any]] = {}
        self._observe = observe
        for one in functions:
            if not isinstance(one, Function):
                raise TypeError(f"{one!r} is not declared: use @function(name) or define_function(name, ...)")
            if one.name in self._by_name:
                raise ValueError(f"two functions are named {one.name!r}")
            self._by_name[one.name] = one

    @property
    def names(self) -> tuple[str, ...]:
        """The names."""
        return tuple(self._by_name)

    def find(self, wanted: str | Function[..., Any]) -> Function[..., Any]:
        """Return the function of this name; what is registered stands in for a function that is given itself.

        Raises:
            UnknownFunction: there is none of this name.
        """
        if isinstance(wanted, Function):
            return self._by_name.get(wanted.name, wanted)
        if wanted not in self._by_name:
            raise UnknownFunction(name=wanted, known=self.names)
        return self._by_name[wanted]

    def check(self, wanted: str | Function[..., Any], arguments: Mapping[str, Any]) -> None:
        """Refuse what a function does not take; raises as `call`, and calls nothing."""
        self._bound(wanted, arguments)

    async def call(self, wanted: str | Function[..., Any], arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401  (whatever it returns)
        """Call a function with these arguments, by name, once they are what it takes.

        Raises:
            UnknownFunction: there is none of this name.
            InvalidInput: it does not take these arguments; names the path.
        """
        from .agent.calling import call_anyhow  # noqa: PLC0415  (only a tool of an agent calls any)

        found, positional, named = self._bound(wanted, arguments)
        if self._observe is not None:
            self._observe(found.name, arguments)
        return await call_anyhow(found.function, *positional, **named)

    def _bound(
        self, wanted: str | Function[..., Any], arguments: Mapping[str, Any]
    ) -> tuple[Function[..., Any], tuple[Any, ...], dict[str, Any]]:
        from .agent.fitting import Unfit  # noqa: PLC0415  (only a tool of an agent calls any)

        found = self.find(wanted)
        try:
            return found, *found.input.bind(arguments)
        except Unfit as unfit:
            raise InvalidInput(function=found.name, path=unfit.path, reason=unfit.reason) from None


NO_FUNCTIONS = Functions()
"""An application without any."""
