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
    ParseError,
    UsageError,
    WireError,
    __version__,
)

__all__ = [
    "CaptureError",
    "ClosedError",
    "DeviceError",
    "Error",
    "ParseError",
    "UsageError",
    "WireError",
    "__version__",
]
__all__ += _core.__all__
