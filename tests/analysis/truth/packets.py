"""Runs tshark over a capture and converts its output to packets."""

import dataclasses
import functools
import subprocess

# Without these options tshark shows other values than the packet contains, or misses iWARP.
OPTIONS = (
    "-n",
    "-o", "tcp.relative_sequence_numbers:FALSE",
    "-o", "tcp.try_heuristic_first:TRUE",
    "-o", "tcp.reassemble_out_of_order:TRUE",
)  # fmt: skip
FIELDS = (
    "frame.number", "frame.time_epoch", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "ip.dsfield.ecn", "ipv6.tclass.ecn",
    "udp.srcport", "udp.dstport", "udp.length", "infiniband.lrh.slid", "infiniband.lrh.dlid", "infiniband.lrh.pktlen",
    "infiniband.grh.sgid", "infiniband.grh.dgid", "infiniband.bth.opcode", "infiniband.bth.padcnt",
    "infiniband.bth.destqp", "infiniband.bth.psn", "infiniband.deth.srcqp", "infiniband.reth.dmalen",
    "infiniband.reth.va", "infiniband.aeth.syndrome", "infiniband.aeth.msn", "infiniband.mad.mgmtclass",
    "infiniband.mad.attributeid", "infiniband.cm.req", "infiniband.cm.req.localqpn", "infiniband.cm.rep",
    "infiniband.cm.rep.remotecommid", "infiniband.cm.rep.localqpn", "tcp.stream", "tcp.srcport", "tcp.dstport",
    "tcp.flags.syn", "tcp.flags.ack", "tcp.payload", "tcp.seq_raw", "tcp.len",
    "tcp.analysis.retransmission", "tcp.analysis.out_of_order", "iwarp_mpa.req", "iwarp_mpa.rep",
    "iwarp_mpa.ulpdulength",
    "iwarp_ddp.tagged_flag", "iwarp_ddp.last_flag", "iwarp_ddp.stag", "iwarp_ddp.qn", "iwarp_ddp.msn", "iwarp_ddp.mo",
    "iwarp_rdma.opcode", "iwarp_rdma.rdmardsz",
)  # fmt: skip
SEPARATOR, AGGREGATOR = "\t", "\x1e"
ROCE_PORT = 4791


class NoTshark(Exception):
    """tshark is not installed."""


@functools.cache
def rows(path):
    """Return the fields of each frame. A field has all its values, in the order of the frame."""
    command = ["tshark", *OPTIONS, "-r", str(path), "-T", "fields", "-E", f"separator={SEPARATOR}",
               "-E", "occurrence=a", "-E", f"aggregator={AGGREGATOR}"]  # fmt: skip
    for field in FIELDS:
        command += ["-e", field]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    except FileNotFoundError as error:
        raise NoTshark("requires tshark") from error
    return [
        {name: text.split(AGGREGATOR) for name, text in zip(FIELDS, line.split(SEPARATOR), strict=True) if text}
        for line in done.stdout.split("\n")  # splitlines() would also split at the aggregator
        if line
    ]


# ---------------------------------------------------------------------------------------------------------------------
# InfiniBand transport

# The lower five bits of the BTH opcode: operation, position in the message. IBTA vol 1, 9.2.1, table 38.
OPERATIONS = {
    0: ("send", "first"), 1: ("send", "middle"), 2: ("send", "last"), 3: ("send", "last"), 4: ("send", "only"),
    5: ("send", "only"), 6: ("write", "first"), 7: ("write", "middle"), 8: ("write", "last"), 9: ("write", "last"),
    10: ("write", "only"), 11: ("write", "only"), 12: ("read", "only"), 13: ("read_response", "first"),
    14: ("read_response", "middle"), 15: ("read_response", "last"), 16: ("read_response", "only"),
    17: ("acknowledge", "only"), 18: ("atomic_acknowledge", "only"), 19: ("compare_swap", "only"),
    20: ("fetch_add", "only"), 22: ("send", "last"), 23: ("send", "only"),
}  # fmt: skip
RESPONSES = ("read_response", "acknowledge", "atomic_acknowledge")
# Bytes of extension headers between BTH and payload, except DETH and XRCETH.
EXTENSIONS = {3: 4, 5: 4, 6: 16, 9: 4, 10: 16, 11: 20, 12: 16, 13: 4, 15: 4, 16: 4, 17: 4, 18: 12, 19: 28, 20: 28,
              22: 4, 23: 4}  # fmt: skip
SERVICES = {0: "rc", 1: "uc", 3: "ud", 5: "xrc"}  # by the upper three bits of the opcode. 6, 7: manufacturers
CNP = 0x81


@dataclasses.dataclass(frozen=True)
class Packet:
    """A packet with a BTH. `payload`: bytes without pad, or None for a vendor's headers."""

    frame: int
    time: float
    source: str  # IP address, or "lid N" on native InfiniBand
    destination: str
    port: int  # UDP source port, or 0 if not RoCEv2
    ecn: int
    service: str  # "rc", "uc", "ud", "xrc", "cnp", "vendor"
    operation: str
    position: str
    qp: int  # destination
    source_qp: int | None  # only for UD
    psn: int
    payload: int | None
    read_size: int | None  # bytes, for READ requests
    syndrome: int | None
    msn: int | None

    @property
    def is_response(self):
        return self.operation in RESPONSES


def _number(row, name, default=None):
    return int(row[name][0], 0) if name in row else default


def _packet(row):
    opcode = _number(row, "infiniband.bth.opcode")
    low, service = opcode & 31, SERVICES.get(opcode >> 5, "vendor")
    if opcode == CNP:
        service = "cnp"
    if "infiniband.lrh.slid" in row:
        source, destination = (f"lid {_number(row, f'infiniband.lrh.{side}lid')}" for side in "sd")
        port, ecn = 0, 0
        size = _number(row, "infiniband.lrh.pktlen") * 4 - 8 - (40 if "infiniband.grh.sgid" in row else 0)
    else:
        family = "ip" if "ip.src" in row else "ipv6"
        source, destination = row[f"{family}.src"][0], row[f"{family}.dst"][0]
        port, size = _number(row, "udp.srcport"), _number(row, "udp.length") - 8
        ecn = _number(row, "ip.dsfield.ecn" if family == "ip" else "ipv6.tclass.ecn", 0)
    bth, icrc = 12, 4
    payload = None
    if service != "vendor":
        extensions = {"ud": 8, "cnp": 16, "xrc": 4}.get(service, 0)
        extensions += EXTENSIONS.get(low, 0) if service != "cnp" else 0
        payload = size - bth - icrc - extensions - _number(row, "infiniband.bth.padcnt", 0)
    operation, position = OPERATIONS.get(low, ("other", "only")) if service in SERVICES.values() else (service, "only")
    return Packet(
        frame=_number(row, "frame.number"), time=float(row["frame.time_epoch"][0]), source=source,
        destination=destination, port=port, ecn=ecn, service=service, operation=operation, position=position,
        qp=_number(row, "infiniband.bth.destqp"), source_qp=_number(row, "infiniband.deth.srcqp"),
        psn=_number(row, "infiniband.bth.psn"), payload=payload, read_size=_number(row, "infiniband.reth.dmalen"),
        syndrome=_number(row, "infiniband.aeth.syndrome"), msn=_number(row, "infiniband.aeth.msn"),
    )  # fmt: skip


def infiniband_packets(frames):
    """Return the packets with a BTH, in order of capture.

    tshark does not know MRC, whose packets have opcodes that IBTA leaves to manufacturers.
    """
    first_of_manufacturers = 0xC0
    return [_packet(row) for row in frames
            if _number(row, "infiniband.bth.opcode", first_of_manufacturers) < first_of_manufacturers]
