"""The plugin's tables, messages put together, what it does as the main dissector, how it is installed, and that its page
is current."""

import os
import re
import subprocess
from collections import Counter

import pytest
from tshark_runs import ALL, COMMAND, PLUGIN, ROOT, SAMPLES, dissected, needs_tshark, with_plugin, without_plugin

pytestmark = needs_tshark
BUILD = PLUGIN.parent.parent
LOSS = SAMPLES / "rc-pingpong-loss.pcap.gz"
RPING = SAMPLES / "rping.pcap"


def table(capture, *which):
    home = with_plugin()
    taps = [part for name in which for part in ("-z", name)]
    return home.tshark("-n", "-2", "-q", "-r", home.place(capture), *taps).stdout.decode()


def rows(capture, *fields, arguments=()):
    home = with_plugin()
    out = home.tshark("-n", "-2", "-r", home.place(capture), "-T", "fields",
                      *(part for field in fields for part in ("-e", field)), *arguments).stdout.decode()
    return [line.split("\t") for line in out.splitlines()]


def test_conversations_are_the_connections():
    lines = [line for line in table(LOSS, "conv,rdmawire").splitlines() if "<->" in line]
    assert len(lines) == 1
    numbers = [int(number) for number in re.findall(r"(?<= )\d+(?= \d+ kB)", lines[0])]
    assert lines[0].startswith("10.0.0.3 QP 0x000011 <-> 10.0.0.2 QP 0x000011")
    assert numbers == [509, 506, 1015]


def test_endpoints_are_the_queue_pairs():
    lines = [line.split() for line in table(LOSS, "endpoints,rdmawire").splitlines() if " QP 0x" in line]
    # Packets, octets; of these sent; received. As `rdmawire analyze` counts them: 506 + 509 packets.
    assert [line[:3] + line[3:] for line in lines] == [
        ["10.0.0.3", "QP", "0x000011", "1015", "954410", "506", "475072", "509", "479338"],
        ["10.0.0.2", "QP", "0x000011", "1015", "954410", "509", "479338", "506", "475072"]]


def test_service_response_times_are_the_latencies():
    line = next(line.split() for line in table(LOSS, "rdmawire,srt").splitlines() if " send " in line)
    # Calls, least, most, mean, sum; `analyze` has 50 messages each way, 209168000 + 134611000 ns.
    assert line == ["0", "send", "100", "0.000394", "0.068678", "0.003438", "0.343779"]


def test_statistics_of_operations_and_events():
    text = table(LOSS, "rdmawire,tree", "rdmawire_events,tree")
    counts = dict(re.findall(r"^ *(\S.*?) {2,}(\d+) ", text, re.M))
    assert counts["RDMA packets by operation"] == "1015"
    assert counts["RC SEND Middle"] == "656" and counts["RC Acknowledge"] == "141"
    assert counts["retransmission"] == "18" and counts["nak"] == "14" and counts["lost_in_network"] == "15"
    assert counts["sequence_error_nak"] == "14" and counts["timeout"] == "3" and counts["spurious"] == "1"


def test_follow_gives_what_both_ends_sent():
    text = table(LOSS, "follow,rdmawire,raw,26")
    assert "Node 0: 10.0.0.3:17" in text
    sent = "".join(line for line in text.splitlines() if re.fullmatch(r"\t?[0-9a-f]+", line)).replace("\t", "")
    assert len(sent) // 2 == 2 * 409600  # each message once, whatever was sent again
    assert set(sent) == {"7", "b"}


@pytest.mark.parametrize("capture", [path for path in ALL if path.name.startswith("rc-")], ids=lambda path: path.name)
def test_messages_are_put_together(capture):
    """From the octets of their packets, in the order of PSNs, at the frame that makes them whole."""
    frames = rows(capture, "frame.number", "rdmawire.reassembled.data", "rdmawire.segment",
                  "rdmawire.reassembled.length")
    payload = {}
    transport = {"eth", "ipv4", "ipv6", "udp", "bth", "reth", "aeth", "immdt", "ieth"}
    raw = dict(rows(capture, "frame.number", "udp.payload"))
    for packet in dissected(capture):
        begin = max((layer["offset"] + layer["length"] for layer in packet["layers"]
                     if layer["protocol"] in transport), default=0)
        udp = next((layer for layer in packet["layers"] if layer["protocol"] == "udp"), None)
        if udp is None or "icrc" not in packet:
            continue
        pad = packet.get("pad", {"length": 0})["length"]
        octets = bytes.fromhex(raw[str(packet["frame"])])
        payload[packet["frame"]] = octets[begin - udp["offset"] - 8:len(octets) - 4 - pad]
    whole = 0
    for _, data, segments, length in frames:
        if not data:
            continue
        expected = b"".join(payload[int(segment)] for segment in segments.split(","))
        assert bytes.fromhex(data) == expected and int(length) == len(expected)
        whole += 1
    # Every message of several packets that the report has whole, and no other.
    home = with_plugin()
    directory = home.path / f"tables-{capture.name}"
    subprocess.run([COMMAND, "analyze", capture, "--csv", directory, "--threads", "1"], check=True, timeout=120,
                   stdout=subprocess.DEVNULL)
    lines = [line.split(",") for line in (directory / "messages.csv").read_text().splitlines()]
    at = {name: i for i, name in enumerate(lines[0])}
    several = [line for line in lines[1:] if int(line[at["packets"]]) > 1 and line[at["outcome"]] == "completed"]
    reads = [line for line in lines[1:] if line[at["operation"]] == "read" and line[at["outcome"]] == "completed"
             and line[at["first_psn"]] != line[at["last_psn"]]]
    wanted = {id(line) for line in several + reads}
    assert whole == len(wanted)


def test_display_filters_find_what_happened():
    found = rows(LOSS, "frame.number", arguments=("-Y", "rdmawire.analysis.retransmission"))
    again = rows(LOSS, "frame.number", arguments=("-Y", "rdmawire.analysis.again == 1"))
    assert len(again) == 90  # what analyze calls packets sent again
    assert {frame for frame, in again} <= {frame for frame, in found}
    naks = rows(LOSS, "frame.number", arguments=("-Y", 'rdmawire.aeth.syndrome.kind == "NAK"'))
    assert len(naks) == 14


UPPER = {"nvme-rdma", "nvme", "rpcordma", "iser", "smb_direct", "lnet"}


@pytest.mark.parametrize("capture", ALL, ids=lambda path: path.name)
def test_as_main_dissector_payloads_go_to_the_same_dissectors(capture):
    """What upper layer protocol a frame has is the same, whoever dissects what carries it, but where the built-in takes
    payload for one that it is not: short SENDs without such a connection (rpcordma by its looks)."""
    without, home = without_plugin(), with_plugin()
    option = ("-o", "rdmawire.main_dissector:TRUE")

    def protocols(where, *arguments):
        out = where.tshark("-n", "-2", "-r", where.place(capture), "-T", "fields", "-e", "frame.protocols",
                           *arguments).stdout.decode()
        return [set(line.split(":")) & UPPER for line in out.splitlines()]

    before, after = protocols(without), protocols(home, *option)
    assert len(before) == len(after) > 0
    assert [found - {"rpcordma"} for found in before] == [found - {"rpcordma"} for found in after]
    wires = Counter(packet.get("wire") for packet in dissected(capture))
    trees = home.tshark("-n", "-r", home.place(capture), "-Y", "rdmawire.wire", *option).stdout.decode().splitlines()
    assert len(trees) >= wires["roce_v2"] + wires["infiniband"]


def test_installed_where_wireshark_looks(tmp_path):
    done = subprocess.run(["cmake", "--install", BUILD, "--component", "wireshark"], capture_output=True, text=True,
                          timeout=60, env={**os.environ, "DESTDIR": str(tmp_path), "HOME": "/home/somebody"})
    assert done.returncode == 0, done.stderr
    folder = subprocess.run(["pkg-config", "--variable=plugindir", "wireshark"], capture_output=True, text=True,
                            timeout=60, check=True).stdout.strip()
    there = [tmp_path / folder[1:] / "epan/rdmawire.so",
             *tmp_path.glob("home/somebody/.local/lib/wireshark/plugins/*/epan/rdmawire.so")]
    assert [path for path in there if path.exists()], list(tmp_path.rglob("*.so"))
    assert len(list(tmp_path.rglob("profiles/RDMA/colorfilters"))) == 1


def test_without_a_component_named_nothing_of_it_is_installed():
    """An ordinary installation, to whatever prefix, does not write into Wireshark's folders."""
    script = (BUILD / "dissectors/wireshark/cmake_install.cmake").read_text()
    conditions = re.findall(r"^if\((.*)\)$", script, re.M)
    installs = [condition for condition in conditions if "CMAKE_INSTALL_COMPONENT STREQUAL" in condition]
    assert installs
    assert set(installs) == {'CMAKE_INSTALL_COMPONENT STREQUAL "wireshark"'}


def test_profile_is_understood():
    """Its colouring rules and columns name fields that there are."""
    home = with_plugin()
    known = {line.split("\t")[2] for line in home.tshark("-G", "fields").stdout.decode().splitlines()
             if line.startswith("F\t")}
    folder = ROOT / "dissectors/wireshark/profile/RDMA"
    named = set()
    for line in (folder / "colorfilters").read_text().splitlines():
        if line.startswith("#"):
            continue
        _, name, expression, _ = line.split("@", 3)
        named |= set(re.findall(r"rdmawire(?:\.\w+)+", expression))
        done = home.tshark("-n", "-r", home.place(RPING), "-Y", expression, check=False)
        assert done.returncode == 0, f"{name}: {done.stderr.decode()}"
    named |= set(re.findall(r"%Cus:(rdmawire(?:\.\w+)+)", (folder / "preferences").read_text()))
    assert len(named) > 10 and named <= known, named - known


def test_page_names_the_fields():
    fields = with_plugin().tshark("-G", "fields").stdout.decode()
    made = subprocess.run([ROOT / "scripts/wireshark-fields"], input=fields, capture_output=True, text=True,
                          timeout=60, check=True).stdout
    assert made.count("\n") > 100
    assert made in (ROOT / "docs/wireshark.md").read_text(), \
        "docs/wireshark.md is old: tshark -G fields | scripts/wireshark-fields --write"
