"""Comparison with scapy: header values of parsed frames, and bytes of built frames."""

import itertools
import os
import random
import subprocess
import sys
import warnings

import pytest
import rdmawire
import sample_frames
from rdmawire import AETH, BTH, CNP, GRH, TCP, UDP, VLAN, Ether, IPv4, IPv6, Opcode, opcode_row, parse, header_table

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import scapy.all as scapy
    import scapy.contrib.roce as roce
from rdmawire.scapy import from_scapy, to_scapy


def flags(names):
    """Return the value of a scapy flag field from the corresponding single-bit fields, highest bit first."""
    return lambda header: sum(getattr(header, name) << i for i, name in enumerate(reversed(names)))


# scapy's class, the package's class, and the package's field for each field of scapy. Two kinds of fields are
# omitted: options, which scapy parses, and the ICRC, which scapy stores in its BTH class.
HEADERS = [
    (scapy.Ether, Ether, {"dst": "dst", "src": "src", "type": "type"}),
    (scapy.Dot1Q, VLAN, {"prio": "priority", "dei": "dei", "vlan": "id", "type": "type"}),
    (
        scapy.IP,
        IPv4,
        {
            "version": "version",
            "ihl": "header_length",
            "tos": "tos",
            "len": "total_length",
            "id": "identification",
            "flags": flags(["reserved", "df", "mf"]),
            "frag": "fragment_offset",
            "ttl": "ttl",
            "proto": "protocol",
            "chksum": "checksum",
            "src": "src",
            "dst": "dst",
        },
    ),
    (
        scapy.IPv6,
        IPv6,
        {
            "version": "version",
            "tc": "traffic_class",
            "fl": "flow_label",
            "plen": "payload_length",
            "nh": "next_header",
            "hlim": "hop_limit",
            "src": "src",
            "dst": "dst",
        },
    ),
    (scapy.UDP, UDP, {"sport": "src_port", "dport": "dst_port", "len": "length", "chksum": "checksum"}),
    (
        scapy.TCP,
        TCP,
        {
            "sport": "src_port",
            "dport": "dst_port",
            "seq": "seq",
            "ack": "ack_number",
            "dataofs": "data_offset",
            "window": "window",
            "chksum": "checksum",
            "urgptr": "urgent_pointer",
            "flags": flags(["ae", "cwr", "ece", "urg", "ack", "psh", "rst", "syn", "fin"]),
        },
    ),
    (
        roce.BTH,
        BTH,
        {
            "opcode": "opcode",
            "solicited": "se",
            "migreq": "migreq",
            "padcount": "pad",
            "version": "tver",
            "pkey": "pkey",
            "fecn": "fecn",
            "becn": "becn",
            "resv6": "reserved",
            "dqpn": "dest_qp",
            "ackreq": "ack_request",
            "resv7": "reserved2",
            "psn": "psn",
        },
    ),
    (roce.AETH, AETH, {"syndrome": "syndrome", "msn": "msn"}),
    (roce.CNPPadding, CNP, {"reserved1": "reserved", "reserved2": "reserved2"}),
    (
        roce.GRH,
        GRH,
        {
            "ipver": "version",
            "tclass": "traffic_class",
            "flowlabel": "flow_label",
            "paylen": "payload_length",
            "nexthdr": "next_header",
            "hoplmt": "hop_limit",
            "sgid": lambda header: int.from_bytes(bytes(header)[8:24]),
            "dgid": lambda header: int.from_bytes(bytes(header)[24:40]),
        },
    ),
]


def compare(frame, packet):
    """Compare the headers that scapy supports. Return the number of compared fields."""
    count = 0
    for scapy_class, header, fields in HEADERS:
        if scapy_class not in packet:  # scapy does not parse the AETH of a READ response
            continue
        for name, attribute in fields.items():
            value = getattr(packet[scapy_class], name)
            got = attribute(frame[header]) if callable(attribute) else getattr(frame[header], attribute)
            assert got == (int(value) if callable(attribute) else value), f"{header.__name__}: {name}"
            count += 1
    if roce.BTH in packet and frame.icrc is not None:
        assert packet[roce.BTH].icrc == frame.icrc
    return count


def test_fields_of_the_samples_equal_scapy():
    count = 0
    every = 1 if os.environ.get("RDMAWIRE_FULL") else 4
    for data, link, wire_length in itertools.islice(sample_frames.all_frames(), 0, None, every):
        if link != 1 or len(data) != wire_length:
            continue
        frame = parse(data)
        # scapy lacks MRC and MADs.
        if frame.findings or any(type(h).__name__ in ("MAD", "MRCBTH") for h in frame.layers):
            continue
        count += compare(frame, to_scapy(frame))
    assert count > 100_000 // every


SCAPY_OPCODES = [opcode for opcode in Opcode if opcode in roce._bth_opcodes]


def random_header(header, rng):
    made = header()
    for field in header_table(header).fields:
        if not (field.part or field.computed):
            setattr(made, field.attribute, rng.getrandbits(field.width) if field.form == "number" else rng.randbytes(field.width // 8))
    return made


@pytest.mark.parametrize("opcode", SCAPY_OPCODES, ids=lambda opcode: opcode.name)
@pytest.mark.parametrize("version", [4, 6])
def test_built_frame_of_each_opcode_equals_scapy(opcode, version):
    rng = random.Random(opcode * 10 + version)
    for size in (0, 1, 2, 3, 64, 1024):
        row = opcode_row(opcode)
        payload = rng.randbytes(size) if row.payload else b""
        psn, qp, port = rng.getrandbits(24), rng.getrandbits(24), rng.getrandbits(16)
        headers = [random_header(header, rng) for header in row.headers]
        bth = BTH(opcode=opcode, dest_qp=qp, psn=psn, pkey=0xFFFF)
        ip = IPv4(src="10.0.0.1", dst="10.0.0.2", identification=7) if version == 4 else IPv6(src="fe80::1", dst="fe80::2")
        frame = Ether(src="52:54:00:00:00:01", dst="52:54:00:00:00:02") / ip / UDP(src_port=port) / bth
        for header in headers:
            frame /= header
        frame /= payload

        if version == 4:
            scapy_ip = scapy.IP(src="10.0.0.1", dst="10.0.0.2", id=7)
        else:
            scapy_ip = scapy.IPv6(src="fe80::1", dst="fe80::2")
        packet = scapy.Ether(src="52:54:00:00:00:01", dst="52:54:00:00:00:02") / scapy_ip
        packet /= scapy.UDP(sport=port, dport=4791, chksum=0)
        packet /= roce.BTH(opcode=opcode, dqpn=qp, psn=psn, padcount=-size % 4 if row.payload else 0)
        for header in headers:
            if type(header) is AETH and opcode == Opcode.RC_ACKNOWLEDGE:
                packet /= roce.AETH(syndrome=header.syndrome, msn=header.msn)
            elif type(header) is CNP:
                packet /= roce.CNPPadding(reserved1=header.reserved, reserved2=header.reserved2)
            else:
                packet /= scapy.Raw(bytes(header))
        if payload:
            packet /= scapy.Raw(payload + bytes(-size % 4))
        assert bytes(frame).hex() == bytes(packet).hex()
        assert frame.icrc_status == "good"
        if opcode == Opcode.RD_ACKNOWLEDGE:  # scapy lacks the RDETH and parses it as the AETH
            continue
        compare(frame, to_scapy(frame))


def test_built_tcp_segment_equals_scapy():
    rng = random.Random(9)
    for scapy_ip, ip in [
        (scapy.IP(src="10.0.0.1", dst="10.0.0.2", id=1), IPv4(src="10.0.0.1", dst="10.0.0.2", identification=1)),
        (scapy.IPv6(src="fe80::1", dst="fe80::2"), IPv6(src="fe80::1", dst="fe80::2")),
    ]:
        payload = rng.randbytes(77)
        frame = Ether() / ip / TCP(src_port=1, dst_port=2, seq=3, ack_number=4, ack=1, psh=1, window=512) / payload
        packet = scapy.Ether(src="00:00:00:00:00:00", dst="00:00:00:00:00:00") / scapy_ip
        packet = packet / scapy.TCP(sport=1, dport=2, seq=3, ack=4, flags="PA", window=512) / payload
        assert bytes(frame).hex() == bytes(packet).hex()
        assert compare(frame, to_scapy(frame)) >= 20


def test_grh_fields_equal_scapy():
    frame = Ether() / GRH(sgid="fe80::1", dgid="fe80::2", flow_label=77) / BTH(opcode=Opcode.RC_SEND_ONLY) / b"abc"
    assert compare(frame, to_scapy(frame)) >= 20


def test_conversion_to_scapy_round_trips():
    frame = parse(sample_frames.frames("rping.pcap")[0][0], time_ns=1_500_000_000)
    converted = from_scapy(to_scapy(frame))
    assert converted == frame and converted.time_ns == 1_500_000_000
    packet = scapy.Ether() / scapy.IP(dst="10.0.0.2") / scapy.UDP() / roce.BTH(opcode=4, dqpn=17) / b"data"
    assert from_scapy(packet)[BTH].dest_qp == 17
    assert from_scapy(roce.BTH(opcode=4, dqpn=17, icrc=1)).link == "bth"
    assert from_scapy(scapy.IPv6(dst="fe80::2"))[IPv6].dst == "fe80::2"
    ulpdu = rdmawire.FPDU() / rdmawire.DDP() / b"data"
    assert bytes(to_scapy(ulpdu)) == bytes(ulpdu)
    for wrong in (lambda: to_scapy(b"bytes"), lambda: from_scapy(b"bytes")):
        with pytest.raises(TypeError, match="got bytes"):
            wrong()


class Storage(scapy.Packet):
    fields_desc = [scapy.ByteField("op", 1), scapy.ShortField("id", 7)]


def test_payload_of_scapy_is_appended():
    start = Ether() / IPv4() / UDP() / BTH(opcode="RC_SEND_ONLY")
    assert (start / scapy.Raw(b"data")).payload == b"data"
    assert (BTH(opcode="RC_SEND_ONLY") / Storage(id=9)).payload == b"\x01\0\x09"
    assert rdmawire.Frame(start, Storage() / scapy.Raw(b"x")).payload == b"\x01\0\x07x"


@pytest.mark.parametrize(
    "combine",
    [
        lambda: Ether() / scapy.IP(),
        lambda: Ether() / IPv4() / scapy.UDP(),
        lambda: Ether() / IPv4() / UDP() / roce.BTH(),
        lambda: scapy.IP() / BTH(),
        lambda: scapy.Ether() / (IPv4() / UDP()),
    ],
)
def test_headers_of_scapy_are_refused_with_the_remedy(combine):
    with pytest.raises(TypeError, match="is a header of scapy.* convert the complete scapy packet with rdmawire.scapy"):
        combine()


def test_scapy_packets_are_written_and_sent_with_their_link_type(tmp_path):
    packet = scapy.Ether() / scapy.IP(dst="10.0.0.2") / scapy.UDP() / roce.BTH(opcode=4, dqpn=17) / b"data"
    packet.time = 1.5
    with rdmawire.create_capture(tmp_path / "x.pcapng") as out:
        out.write([packet, packet[scapy.IP], bytes(packet)])
    with rdmawire.open_capture(tmp_path / "x.pcapng") as written:
        ethernet, ip, _ = written
    assert bytes(ethernet) == bytes(packet) and ethernet.time_ns == 1_500_000_000
    assert ip.link == "ipv4" and ip[BTH].dest_qp == 17
    a, b = rdmawire.wire_pair()
    with a, b:
        a.send([packet, packet])
        assert bytes(b.receive()) == bytes(b.receive()) == bytes(packet)
        with pytest.raises(rdmawire.UsageError, match="the frame has link type ipv4, the wire sends ethernet.* start"):
            a.send(packet[scapy.IP])


def test_packet_without_a_link_layer_is_refused():
    with pytest.raises(TypeError, match="UDP cannot be the first header of a frame: expected a packet that starts with Ether"):
        from_scapy(scapy.UDP())
    assert from_scapy(scapy.Raw(bytes(64))).link == "ethernet"


def test_scapy_is_imported_lazily():
    code = "import rdmawire.scapy, sys; sys.exit('scapy' in sys.modules)"
    path = str(sample_frames.Path(rdmawire.__file__).parents[1])
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": path}).returncode == 0
