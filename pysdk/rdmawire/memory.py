"""Memory of a device: regions and windows."""

from __future__ import annotations

from typing import Any

from rdmawire import _core

__all__ = ["MemoryRegion", "MemoryWindow"]


class MemoryRegion:
    """A memory region of the device. Its memory is initially zero."""

    def __init__(self, core: _core._Region) -> None:
        self._core = core

    @property
    def addr(self) -> int:
        """Virtual address at the device."""
        return self._core.addr

    @property
    def lkey(self) -> int:
        """Key for work requests of the device."""
        return self._core.lkey

    @property
    def rkey(self) -> int:
        """Key for remote access, for iWARP the STag."""
        return self._core.rkey

    @property
    def handle(self) -> int:
        """Handle in the agent's protocol."""
        return self._core.handle

    def __len__(self) -> int:
        return self._core.size

    def read(self, length: int | None = None, offset: int = 0) -> bytes:
        """Return ``length`` bytes from ``offset``. Default: to the end of the region."""
        return self._core.read(offset, len(self) - offset if length is None else length)

    def write(self, data: Any, offset: int = 0) -> None:
        """Write bytes, as the device's application."""
        self._core.write(offset, data)

    def fill(self, pattern: str = "byte", value: int = 0) -> None:
        """Fill the region: "byte" with ``value``, "counter" counting up from ``value``, "random" with this seed."""
        self._core.fill(pattern, value)

    def checksum(self, length: int | None = None, offset: int = 0) -> int:
        """Return zlib's CRC-32, computed at the device."""
        return self._core.checksum(offset, len(self) - offset if length is None else length)

    def release(self) -> None:
        """Deregister the region. Fails while other objects use it."""
        self._core.release()

    def __repr__(self) -> str:
        try:
            return f"<MemoryRegion {self.addr:#x}, {len(self)} bytes, lkey {self.lkey:#x}, rkey {self.rkey:#x}>"
        except _core.ClosedError:
            return "<MemoryRegion (closed)>"


class MemoryWindow:
    """A bound memory window of type 2."""

    def __init__(self, core: _core._Window) -> None:
        self._core = core

    @property
    def rkey(self) -> int:
        """Key of the bound window."""
        return self._core.rkey

    def release(self) -> None:
        """Deallocate the window."""
        self._core.release()
