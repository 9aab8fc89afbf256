"""RDMA on the wire, from Python: read, written, explained, replayed, certified and fuzzed.

Native InfiniBand, RoCEv1, RoCEv2 and iWARP, by the same tables as the command ``rdmawire`` and at the same speed.
"""

from rdmawire import _core, conformance
from rdmawire._core import *
from rdmawire._core import (
    CaptureError,
    ClosedError,
    DeviceError,
    Error,
    LiveCapture,
    Packet,
    ParseError,
    UsageError,
    WireError,
    __version__,
)
from rdmawire.captures import Capture, CaptureWriter, create_capture, live_devices, open_capture, open_live
from rdmawire.report import CheckReport, Report, analyze, check, explain
from rdmawire.tables import Table
from rdmawire.devices import (
    Completion,
    CompletionQueue,
    Device,
    MemoryRegion,
    MemoryWindow,
    QueuePair,
    agent,
    lab,
    open_device,
    reference,
)
from rdmawire.replaying import (
    PlayedFrame,
    ReactiveReport,
    ReplayReport,
    areplay,
    learn_map,
    replay,
    replay_reactive,
)
from rdmawire.wires import Wire, WireCapabilities, WireCounters, open_wire, wire_pair

__all__ = [
    "Capture",
    "CaptureError",
    "CaptureWriter",
    "CheckReport",
    "ClosedError",
    "Completion",
    "CompletionQueue",
    "Device",
    "DeviceError",
    "Error",
    "LiveCapture",
    "MemoryRegion",
    "MemoryWindow",
    "Packet",
    "ParseError",
    "PlayedFrame",
    "QueuePair",
    "ReactiveReport",
    "ReplayReport",
    "Report",
    "Table",
    "UsageError",
    "Wire",
    "WireCapabilities",
    "WireCounters",
    "WireError",
    "__version__",
    "agent",
    "analyze",
    "areplay",
    "check",
    "conformance",
    "create_capture",
    "explain",
    "lab",
    "learn_map",
    "live_devices",
    "open_capture",
    "open_device",
    "open_live",
    "open_wire",
    "reference",
    "replay",
    "replay_reactive",
    "wire_pair",
]
__all__ += _core.__all__
