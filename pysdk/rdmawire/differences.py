"""Differences between two frames, field by field."""

from __future__ import annotations

from typing import Any, NamedTuple

from rdmawire._core import Frame, Header, header_table

__all__ = ["Difference", "differences"]

_PARTS = ("icrc", "vcrc", "mpa_crc", "trailer", "link")


class Difference(NamedTuple):
    """A field with different values in two frames."""

    name: str
    """``bth.psn``, ``payload``, ``icrc``, ``link`` or ``headers``. The second header of a kind is ``ip#2``."""
    left: Any
    """Value in the first frame. None: the frame has no such part."""
    right: Any

    def __str__(self) -> str:
        return f"{self.name}: {_text(self.left)} ≠ {_text(self.right)}"


def differences(left: Frame, right: Frame) -> list[Difference]:
    """Return the fields that differ, in the order of the headers. Equal frames have none. Times are not compared.

    >>> from rdmawire import BTH, Ether, IPv4, UDP
    >>> frame = Ether() / IPv4(ttl=64) / UDP() / BTH(psn=7)
    >>> hop = frame.copy()
    >>> hop[IPv4].ttl = 63
    >>> [str(one) for one in differences(frame, hop)]
    ['ip.ttl: 64 ≠ 63', 'ip.checksum: 0x7aba ≠ 0x7bba']
    """
    for one in (left, right):
        if not isinstance(one, Frame):
            raise TypeError(f"differences(): expected frames, got {type(one).__name__}")
    found = []
    ours, theirs = _names(left), _names(right)
    if list(ours) != list(theirs):
        found.append(Difference("headers", tuple(ours), tuple(theirs)))
    for name, header in ours.items():
        other = theirs.get(name)
        if other is not None:
            found += _of_headers(name, header, other)
    if left.payload != right.payload:
        found.append(Difference("payload", left.payload, right.payload))
    for part in _PARTS:
        one, another = getattr(left, part), getattr(right, part)
        if one != another:
            found.append(Difference(part, one, another))
    return found


def _names(frame: Frame) -> dict[str, Header]:
    """Return the headers by name. The names of repeated headers have a number."""
    named: dict[str, Header] = {}
    counts: dict[str, int] = {}
    for layer in frame.layers:
        name = header_table(type(layer)).name
        counts[name] = counts.get(name, 0) + 1
        named[name if counts[name] == 1 else f"{name}#{counts[name]}"] = layer
    return named


def _of_headers(name: str, left: Header, right: Header) -> list[Difference]:
    found = []
    for field in header_table(type(left)).fields:
        if field.part:
            continue
        one, another = getattr(left, field.attribute), getattr(right, field.attribute)
        if one != another:
            found.append(Difference(f"{name}.{field.attribute}", one, another))
    return found


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return f"{len(value)} bytes {value[:16].hex(' ')}" + (" …" if len(value) > 16 else "")
    if isinstance(value, tuple):
        return " / ".join(value)
    if isinstance(value, int) and not hasattr(value, "name") and value > 9999:
        return f"{value:#x}"
    return str(getattr(value, "name", value))
