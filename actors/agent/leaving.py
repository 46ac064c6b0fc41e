"""What is left by `close`, by `with` or by `async with`."""

from __future__ import annotations

from abc import abstractmethod
from types import TracebackType
from typing import Self

__all__ = ["Leavable"]


class Leavable:
    """Something that is read from and then let go of; letting go twice does no harm."""

    @abstractmethod
    def close(self) -> None:
        """End the iteration, and let go of the journal; iterating again goes on."""

    async def aclose(self) -> None:
        """Do the same; for `contextlib.aclosing`."""
        self.close()

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of it."""
        self.close()

    async def __aenter__(self) -> Self:
        """Return it."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of it."""
        self.close()
