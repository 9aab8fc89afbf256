"""Conversion of frames to scapy packets and back.

The bytes and the time are converted. Headers unknown to scapy become ``Raw``. Computed values become fixed values.
scapy sets the time of a new packet to its creation time. The functions import scapy when they are called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rdmawire import _core

if TYPE_CHECKING:
    from scapy.packet import Packet

__all__ = ["from_scapy", "to_scapy"]


def to_scapy(frame: _core.Frame) -> Packet:
    """Return the frame as a scapy packet, decoded with scapy.contrib.roce.

    Raises TypeError for other objects, ImportError if scapy is not installed.
    """
    if not isinstance(frame, _core.Frame):
        raise TypeError(f"to_scapy(): expected a Frame, got {type(frame).__name__}")
    try:
        import scapy.all  # noqa: F401  (registers the layers)
        import scapy.contrib.roce
        from scapy.config import conf
    except ImportError as error:
        raise ImportError("to_scapy() requires the package scapy: pip install 'rdmawire[scapy]'") from error

    if frame.link == "bth":
        outermost = scapy.contrib.roce.BTH
    else:
        outermost = conf.l2types.num2layer.get(frame.link_type, conf.raw_layer)
    made = outermost(bytes(frame))
    if frame.time_ns is not None:
        from scapy.utils import EDecimal

        made.time = EDecimal(frame.time_ns) / 10**9
    if frame.wire_length > len(frame):
        made.wirelen = frame.wire_length
    return made


def from_scapy(packet: Packet) -> _core.Frame:
    """Return a frame of the bytes that scapy builds. All fields of the frame are set.

    Raises TypeError for other objects, and for packets that start with another header than a link layer, IP or BTH.
    Raises ImportError if scapy is not installed.
    """
    try:
        from scapy.config import conf
        from scapy.packet import Packet
    except ImportError as error:
        raise ImportError("from_scapy() requires the package scapy: pip install 'rdmawire[scapy]'") from error

    if not isinstance(packet, Packet):
        raise TypeError(f"from_scapy(): expected a scapy packet, got {type(packet).__name__}")
    outermost = type(packet)
    link: str | int
    if outermost.__module__ == "scapy.contrib.roce" and outermost.__name__ == "BTH":
        link = "bth"
    elif outermost in conf.l2types.layer2num:
        link = conf.l2types.layer2num[outermost]
    elif outermost.__module__ == "scapy.packet" and outermost.__name__ in ("Raw", "NoPayload"):
        link = "ethernet"
    else:
        raise TypeError(
            f"from_scapy(): {outermost.__name__} cannot be the first header of a frame: expected a packet that starts "
            "with Ether, IP, IPv6, BTH or another link layer"
        )
    return _core.parse(bytes(packet), link, wire_length=packet.wirelen or 0, time_ns=int(packet.time * 10**9))
