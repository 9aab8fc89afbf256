"""What is open until somebody closes it."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Closes"]


class _Core(Protocol):
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...


class Closes:
    """A context manager that is closed at its end. What it is of is the module's object :attr:`_core`."""

    _core: _Core

    @property
    def closed(self) -> bool:
        """It was closed, or what it belongs to was; or this process is a fork of the one that opened it."""
        return self._core.closed

    def close(self) -> None:
        """Closes it: later use raises ClosedError. A second call does nothing."""
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
