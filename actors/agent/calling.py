"""Calling a user's function, whether it is async or not."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any

from .declared import is_async

__all__ = ["call_anyhow"]


async def call_anyhow(function: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
    """Call a function and wait for it; sync code runs in a thread, so that it holds up nobody else."""
    if is_async(function):
        return await function(*args, **named)
    call = partial(copy_context().run, function, *args, **named)
    # Where there are no threads, it can only run here.
    here = sys.platform == "emscripten"
    found = call() if here else await asyncio.get_running_loop().run_in_executor(None, call)
    return await found if inspect.isawaitable(found) else found
