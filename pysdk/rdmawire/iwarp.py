"""Stimuli and expectations for iWARP streams, in test cases and at devices.

>>> import rdmawire
>>> from rdmawire.iwarp import a_read_response, read_request, write
>>> with rdmawire.reference(family="iwarp") as device, device.stream() as qp:
...     qp.mr.write(b"at the device")
...     qp.stream >> read_request(1, qp.stag, qp.mr.addr, size=13)
...     qp.stream.wait(a_read_response(0x5157, 0x1000)).payload
b'at the device'

Each stimulus is a valid FPDU. ``send(7).changed(…)`` modifies it. The first MSN of each queue is 1. Each expectation
states the required contents. The clauses are those of RFC 5040, 5041, 5044, 6581 and 7306.
"""

from __future__ import annotations

from rdmawire._core import Silence, Stimulus, pattern_bytes, silence
from rdmawire._core.iwarp import (
    CRC,
    ENHANCED,
    MARKERS,
    REJECT,
    UNKNOWN_STAG,
    CaseStream,
    Expectation,
    IwarpBench,
    Received,
    a_fin,
    a_read_request,
    a_read_response,
    a_refusal,
    a_reply,
    a_request,
    a_reset,
    a_send,
    a_terminate,
    a_write,
    an,
    an_atomic_response,
    any_terminate,
    atomic_request,
    atomic_response,
    enhanced_data,
    expect,
    immediate,
    mpa_reply,
    mpa_request,
    read_request,
    read_response,
    response_to,
    send,
    send_invalidate,
    send_nowhere,
    send_part,
    send_solicited,
    send_solicited_invalidate,
    stream_closed,
    tagged,
    terminate,
    untagged,
    write,
    write_part,
)

__all__ = [
    "CRC",
    "ENHANCED",
    "MARKERS",
    "REJECT",
    "UNKNOWN_STAG",
    "CaseStream",
    "Expectation",
    "IwarpBench",
    "Received",
    "Silence",
    "Stimulus",
    "a_fin",
    "a_read_request",
    "a_read_response",
    "a_refusal",
    "a_reply",
    "a_request",
    "a_reset",
    "a_send",
    "a_terminate",
    "a_write",
    "an",
    "an_atomic_response",
    "any_terminate",
    "atomic_request",
    "atomic_response",
    "enhanced_data",
    "expect",
    "immediate",
    "mpa_reply",
    "mpa_request",
    "pattern_bytes",
    "read_request",
    "read_response",
    "response_to",
    "send",
    "send_invalidate",
    "send_nowhere",
    "send_part",
    "send_solicited",
    "send_solicited_invalidate",
    "silence",
    "stream_closed",
    "tagged",
    "terminate",
    "untagged",
    "write",
    "write_part",
]
