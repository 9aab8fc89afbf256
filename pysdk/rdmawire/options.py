"""Types of the options of devices and queue pairs, for type checkers and editors.

The names and defaults are those of C++ cases, which read the options. A test compares the names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypedDict

__all__ = ["DeviceOptions", "EnhancedOptions", "QueuePairOptions", "StreamOptions", "TargetOptions", "WishOptions"]


class TargetOptions(TypedDict, total=False):
    """Options of :func:`rdmawire.conformance.certify` for the device. None: the default."""

    family: Literal["roce", "iwarp"] | None
    """Reference devices: the kind of device."""
    faults: str | Iterable[str] | None
    """Reference devices: names of injected faults."""
    wire: str | None
    """Agents: the wire to the port, "packet:eth1"."""
    kernel: str | None
    """Lab: "debian", "newest", or the path of a kernel."""
    modules: str | None
    """Lab: the directory lib/modules/RELEASE of a kernel path."""
    agent: str | None
    """Lab: the path of rdmawire-agent."""
    credentials: str | None
    """Agents: the path of a file with the key."""
    allow: str | Iterable[str] | None
    """Agents: addresses to which frames may be sent."""
    multicast: bool | None
    """Agents: whether multicast frames may be sent."""
    frames_per_second: int | None
    """Agents: maximum rate of frames. 0: no limit."""
    congestion_management: bool | None
    """Whether congestion management is enabled on the device, which verbs cannot query."""
    slow: bool | None
    """Whether to run cases that take more than a minute."""
    dangerous: bool | None
    """Whether to run cases that may stop the device."""


class DeviceOptions(TargetOptions, total=False):
    """Options of :func:`rdmawire.open_device` and :func:`rdmawire.conformance.preflight`."""

    seed: int | None
    """Reference devices: seed of their random numbers."""


class QueuePairOptions(TypedDict, total=False):
    """Options of :meth:`rdmawire.Device.qp`."""

    mtu: int
    """Path MTU in bytes. Default: 1024."""
    receives: int
    """Number of posted receive requests. Default: 0."""
    receive_bytes: int
    """Size of each receive request. Default: 1024."""
    region_bytes: int
    """Size of the registered memory. Default: 8192."""
    region_access: str | Iterable[str]
    """Access rights of the region. Default: all."""
    reads_at_once: int
    """max_dest_rd_atomic of the device. Default: 4."""
    own_reads: int
    """max_rd_atomic of the device. Default: 4."""
    timeout: int
    """Timeout code of the device, for 4.096 µs * 2^timeout. Default: 14."""
    retry_cnt: int
    """Default: 7."""
    rnr_retry: int
    """Default: 7."""
    min_rnr_timer: int
    """Timer code of the device's RNR NAKs. Default: 12."""
    send_wr: int
    """Size of the send queue. Default: 32."""
    inline_bytes: int
    """Maximum size of inline data. Default: 0."""
    send_ops: str | Iterable[str]
    """Operations of the extended send interface (ibv_qp_ex)."""
    send_sge: int
    """Maximum number of SGEs of a send request. Default: 1."""
    completions: int
    """Size of the completion queue. Default: 256."""
    shared_receives: bool
    """Whether receive requests are posted to a shared receive queue."""
    xrc_target: bool
    """XRC: a target with a shared receive queue of its own. Otherwise an initiator."""
    xrc_domain: int
    """XRC: number of the domain of a target."""
    qkey: int
    """UD: Q_Key. Default: 0x11111111."""
    state: Literal["reset", "init", "rtr", "rts"]
    """Final state. Default: "rts"."""
    hop_limit: int
    """Default: 64."""
    traffic_class: int
    """Default: 0."""
    service_level: int
    """Default: 0."""
    over: Literal["ipv4", "ipv6", "vlan", "roce_v1"]
    """Lower layers of the frames. Default: "ipv4"."""
    notifies: bool
    """Whether the completion queue notifies of completions."""
    first_psn: int
    """First PSN of the tester. Default: random."""
    device_psn: int
    """First PSN of the device. Default: random."""


class EnhancedOptions(TypedDict, total=False):
    """Enhanced RDMA connection setup data of MPA (RFC 6581, 9)."""

    ird: int
    """Default: 4."""
    ord: int
    """Default: 4."""
    a: bool
    b: bool
    c: bool
    d: bool


class WishOptions(TypedDict, total=False):
    """MPA setup of the reference endpoint."""

    revision: int
    markers: bool
    crc: bool
    enhanced: bool
    peer_to_peer: bool
    rtr_send: bool
    rtr_write: bool
    rtr_read: bool
    rdmac: bool


class StreamOptions(TypedDict, total=False):
    """Options of :meth:`rdmawire.Device.stream`."""

    device_initiates: bool
    """Whether the device is the MPA initiator. Default: False."""
    revision: int
    """MPA revision of the tester's frame. Default: 1, or 2 with ``enhanced``."""
    markers: bool
    """Whether the tester requests markers in data from the device. Default: False."""
    crc: bool
    """Whether the tester requests CRCs. Default: True."""
    enhanced: bool | EnhancedOptions | None
    """Enhanced setup data of the tester's frame. True: the defaults."""
    private_data: bytes | bytearray | memoryview
    """Private data of the tester's frame."""
    mss: int
    """Maximum size of the device's TCP segments. Default: 1460."""
    device_private_data: bytes | bytearray | memoryview
    """Private data of the device's frame."""
    reads_at_once: int
    """IRD of the device. Default: 4."""
    own_reads: int
    """ORD of the device. Default: 4."""
    wishes: WishOptions | None
    """MPA setup of the device. The call fails if the device cannot be configured."""
    receives: int
    """Number of receive requests posted before the stream exists. Default: 0."""
    receive_bytes: int
    """Size of each receive request. Default: 1024."""
    region_bytes: int
    """Size of the registered memory. Default: 8192."""
    region_access: str | Iterable[str]
    """Access rights of the region. Default: all."""
    send_wr: int
    """Size of the send queue. Default: 32."""
    completions: int
    """Size of the completion queue. Default: 256."""
    notifies: bool
    """Whether the completion queue notifies of completions."""
