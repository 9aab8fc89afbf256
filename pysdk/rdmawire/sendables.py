"""Frames as users pass them to a wire or a capture file: Frames, bytes, scapy packets, or several of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rdmawire import _core

__all__ = ["is_scapy", "several", "without_scapy"]


def is_scapy(thing: object) -> bool:
    """Return whether the object is a packet of scapy. scapy is not imported."""
    return any(one.__name__ == "Packet" and one.__module__ == "scapy.packet" for one in type(thing).__mro__)


def without_scapy(frame: Any) -> Any:
    """Return a scapy packet or a header as a Frame with its link type, other objects unchanged."""
    if type(frame) is _core.Frame:
        return frame
    if isinstance(frame, _core.Header):
        made = _core.Frame(frame)
        if made.link == "ethernet" and not isinstance(frame, _core.Ether):
            name = type(frame).__name__
            raise _core.UsageError(f"{name} is not a frame: put it after lower headers, such as Ether() / IPv4() / UDP()")
        return made
    if not is_scapy(frame):
        return frame
    from rdmawire.scapy import from_scapy

    return from_scapy(frame)


def several(frames: Any) -> Iterator[Any] | None:
    """Return an iterator over several frames, or None for a single frame and for invalid objects."""
    # An object with __bytes__ is one frame, even if it is iterable. The extension module rejects invalid objects.
    if isinstance(frames, str) or hasattr(frames, "__bytes__"):
        return None
    try:
        memoryview(frames)
    except TypeError:
        pass
    else:
        return None
    try:
        iterator: Iterator[Any] = iter(frames)
    except TypeError:
        return None
    return iterator
