"""The agent that a user names: `MODULE:AGENT`, looked for in the current directory first."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, cast

from pydantic_ai import Agent

from ...actors.agent import AgentDefinition
from .exits import Refused

__all__ = ["load_agent"]

AnyDefinition = AgentDefinition[Any, Any]


def load_agent(name: str) -> AnyDefinition:
    """Import what `MODULE:AGENT` names: an agent, a definition, or a function without arguments that returns one.

    Raises:
        Refused: it cannot be loaded, or is no agent; says what to do.
    """
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise Refused(f"{name!r} does not name an agent: write MODULE:AGENT, such as support.desk:agent")
    if module_name.endswith(".py") or os.sep in module_name:
        dotted = module_name.removesuffix(".py").replace(os.sep, ".").strip(".")
        raise Refused(f"{name!r} names a file; name its module, from the directory it is in: {dotted}:{attribute}")
    module = _import(module_name)
    value = _attribute(module, attribute)
    if not isinstance(value, Agent | AgentDefinition) and callable(value):
        value = _call(cast("Callable[[], object]", value), name)
    if isinstance(value, AgentDefinition):
        return cast("AnyDefinition", value)
    if not isinstance(value, Agent):
        kind = type(value).__name__
        raise Refused(f"{name} is a {kind}, not an agent, an agent definition or a function that returns one")
    try:
        return AgentDefinition(agent=cast("Agent[Any, Any]", value))
    except (TypeError, ValueError) as error:
        raise Refused(f"{name}: {error}") from error


def _import(name: str) -> ModuleType:
    here = os.getcwd()  # noqa: PTH109  (sys.path holds text)
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{name}.".startswith(f"{missing.name}."):
            raise Refused(f"importing {name} failed: {missing}. Install it where clew is installed.") from missing
        raise Refused(
            f"there is no module {name!r} in {here} or installed with clew. "
            "Run this in the directory that holds it, or install it."
        ) from missing
    except (Exception, SystemExit) as error:
        raise Refused(f"importing {name} failed: {type(error).__name__}: {error} (CLEW_DEBUG=1 shows where)") from error


def _attribute(module: ModuleType, path: str) -> object:
    value: object = module
    for part in path.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            known = sorted(key for key, one in vars(module).items() if isinstance(one, Agent | AgentDefinition))
            found = f"agents there: {', '.join(known)}" if known else "no agents are there"
            raise Refused(f"module {module.__name__} has no {path!r}; {found}") from None
    return value


def _call(factory: Callable[[], object], name: str) -> object:
    try:
        inspect.signature(factory).bind()
    except (TypeError, ValueError) as error:
        raise Refused(f"{name} is a function that cannot be called without arguments: {error}") from error
    try:
        made = factory()
    except Exception as error:
        raise Refused(f"{name}() failed: {type(error).__name__}: {error} (CLEW_DEBUG=1 shows where)") from error
    if inspect.iscoroutine(made):
        made.close()
        raise Refused(f"{name} is an async function; give one that is not, or the agent itself")
    return made
