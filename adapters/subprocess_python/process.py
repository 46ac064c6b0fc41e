"""One script in a process of its own: started, listened to, and ended in any case."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import cache
from importlib.resources import files
from typing import IO, NamedTuple

__all__ = ["Ended", "run_script"]

CHUNK_BYTES = 64 * 1024


class Ended(NamedTuple):
    """What a process told; why it was ended, if it was; and its exit code, which is negative for a signal."""

    told: bytes
    cut: str | None
    code: int


async def run_script(asked: bytes, *, wall_s: float, bytes_max: int) -> Ended:
    """Run what is `asked` to its end: at the longest for `wall_s`, and until it has told more than `bytes_max`.

    Then it is killed, with whatever is left in its process group; so it is when this task is cancelled.
    """
    with tempfile.TemporaryDirectory(prefix="clew-script-") as folder, tempfile.TemporaryFile() as given:
        given.write(asked)
        given.seek(0)
        async with _pipe() as (reader, write):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-c", _child()),
                cwd=folder,
                env={},
                stdin=given,
                stdout=write,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
            write.close()
            told = bytearray()
            cut: str | None = None
            try:
                async with asyncio.timeout(wall_s):
                    if await _listen(reader, told, bytes_max):
                        await process.wait()
                    else:
                        cut = "it told more than is read of it"
            except TimeoutError:
                cut = f"it took longer than {wall_s:g} s"
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                code = await process.wait()
    return Ended(bytes(told), cut, code)


@asynccontextmanager
async def _pipe() -> AsyncGenerator[tuple[asyncio.StreamReader, IO[bytes]]]:
    """Open a pipe whose reading end is ours to close, whoever still holds the other one."""
    read, write = os.pipe()
    with os.fdopen(read, "rb", buffering=0) as from_it, os.fdopen(write, "wb", buffering=0) as to_it:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), from_it)
        try:
            yield reader, to_it
        finally:
            transport.close()


async def _listen(reader: asyncio.StreamReader, told: bytearray, bytes_max: int) -> bool:
    """Take what a process tells, and return whether that was all."""
    while chunk := await reader.read(CHUNK_BYTES):
        told += chunk
        if len(told) > bytes_max:
            return False
    return True


@cache
def _child() -> str:
    return (files("clew.adapters.subprocess_python") / "child.py").read_text(encoding="utf-8")
