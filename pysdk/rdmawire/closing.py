"""Base class of objects that are closed."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Closes", "made_by"]

_T = TypeVar("_T")


def made_by(core: object, kind: type[_T], functions: str) -> _T:
    """Return `core` if it has this type. The TypeError for others names the `functions` to use instead."""
    if not isinstance(core, kind):
        raise TypeError(f"expected an object of the extension module, got {type(core).__name__}; use {functions}")
    return core


class _Core(Protocol):
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...


class Closes:
    """A context manager that closes :attr:`_core`, its object in C++, at the end."""

    _core: _Core

    @property
    def closed(self) -> bool:
        """Whether the object or its owner was closed, or this process was forked after it was opened."""
        return self._core.closed

    def close(self) -> None:
        """Close the object. Later use raises ClosedError. A second call has no effect."""
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
