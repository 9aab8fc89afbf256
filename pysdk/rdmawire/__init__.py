"""RDMA on the wire, from Python: read, written, explained, replayed, certified and fuzzed.

Native InfiniBand, RoCEv1, RoCEv2 and iWARP, by the same tables as the command ``rdmawire`` and at the same speed.
"""

from rdmawire import _core
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

__all__ = [
    "Capture",
    "CaptureError",
    "CaptureWriter",
    "CheckReport",
    "ClosedError",
    "DeviceError",
    "Error",
    "LiveCapture",
    "Packet",
    "ParseError",
    "Report",
    "Table",
    "UsageError",
    "WireError",
    "__version__",
    "analyze",
    "check",
    "create_capture",
    "explain",
    "live_devices",
    "open_capture",
    "open_live",
]
__all__ += _core.__all__
