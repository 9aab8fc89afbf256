"""What is said and heard on streams of iWARP: the vocabulary of cases, and of stories on a device.

>>> import rdmawire
>>> from rdmawire.iwarp import a_read_response, read_request, write
>>> with rdmawire.reference(family="iwarp") as device, device.stream() as qp:
...     qp.mr.write(b"at the device")
...     qp.stream >> read_request(1, qp.stag, qp.mr.addr, size=13)
...     qp.stream.wait(a_read_response(0x5157, 0x1000)).payload
b'at the device'

Of stimuli the first MSN of each queue is 1, and each is an FPDU made whole and right: ``send(7).changed(…)`` changes it. Of
expectations each states literally what has to come. Clauses are those of RFC 5040, 5041, 5044, 6581 and 7306.
"""

from __future__ import annotations

from rdmawire._core import Silence, Stimulus, pattern_bytes, silence
from rdmawire._core.iwarp import (
    CRC,
    ENHANCED,
    MARKERS,
    NOBODYS_STAG,
    REJECT,
    CaseStream,
    Expectation,
    Heard,
    IwarpBench,
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
    tagged,
    terminate,
    the_end,
    untagged,
    write,
    write_part,
)

__all__ = [
    "CRC",
    "ENHANCED",
    "MARKERS",
    "NOBODYS_STAG",
    "REJECT",
    "CaseStream",
    "Expectation",
    "Heard",
    "IwarpBench",
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
    "tagged",
    "terminate",
    "the_end",
    "untagged",
    "write",
    "write_part",
]
