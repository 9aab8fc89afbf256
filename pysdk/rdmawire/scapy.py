"""To scapy's packets and back, where scapy is installed.

Bytes go across, and the time (scapy gives a packet that it makes the time of its making): what scapy has no class for
is its ``Raw``, and what was automatic in a frame is a value there. scapy is loaded when one of the functions is called, never before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rdmawire import _core

if TYPE_CHECKING:
    from scapy.packet import Packet

__all__ = ["from_scapy", "to_scapy"]

def to_scapy(frame: _core.Frame) -> Packet:
    """The frame as scapy reads it, with scapy.contrib.roce loaded.

    Raises TypeError for anything but a Frame, ImportError where scapy is not installed.
    """
    if not isinstance(frame, _core.Frame):
        raise TypeError(f"to_scapy() takes a Frame, not {type(frame).__name__}")
    try:
        import scapy.all  # noqa: F401  (registers the layers)
        import scapy.contrib.roce
        from scapy.config import conf
    except ImportError as error:
        raise ImportError("to_scapy() needs the package scapy: pip install 'rdmawire[scapy]'") from error

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
    """A frame of what scapy builds of the packet; everything in it counts as given.

    Raises TypeError for anything but a packet of scapy's, ImportError where scapy is not installed.
    """
    try:
        from scapy.config import conf
        from scapy.packet import Packet
    except ImportError as error:
        raise ImportError("from_scapy() needs the package scapy: pip install 'rdmawire[scapy]'") from error

    if not isinstance(packet, Packet):
        raise TypeError(f"from_scapy() takes a packet of scapy's, not {type(packet).__name__}")
    outermost = type(packet)
    link: str | int
    if outermost.__module__ == "scapy.contrib.roce" and outermost.__name__ == "BTH":
        link = "bth"
    else:
        link = conf.l2types.layer2num.get(outermost, "ethernet")
    return _core.parse(bytes(packet), link, wire_length=packet.wirelen or 0, time_ns=int(packet.time * 10**9))
