"""The plugin's statistics tables, reassembly, operation as the main dissector, installation, and documentation page."""

import csv
import fcntl
import json
import os
import re
import shutil
import subprocess
from collections import Counter

import pytest
from tshark_runs import (
    ALL, COMMAND, PLUGIN, ROOT, SAMPLES, dissected, needs_tshark, plugin_tree, with_plugin, without_plugin)

pytestmark = needs_tshark
BUILD = PLUGIN.parent.parent
LOSS = SAMPLES / "rc-pingpong-loss.pcap.gz"
RPING = SAMPLES / "rping.pcap"
READ_LOSS = SAMPLES / "rc-read-loss.pcap.zst"


def table(capture, *which):
    home = with_plugin()
    taps = [part for name in which for part in ("-z", name)]
    return home.tshark("-n", "-2", "-q", "-r", home.place(capture), *taps).stdout.decode()


def rows(capture, *fields, arguments=()):
    home = with_plugin()
    out = home.tshark("-n", "-2", "-r", home.place(capture), "-T", "fields",
                      *(part for field in fields for part in ("-e", field)), *arguments).stdout.decode()
    return [line.split("\t") for line in out.splitlines()]


def test_conversations_equal_the_connections():
    lines = [line for line in table(LOSS, "conv,rdmawire").splitlines() if "<->" in line]
    assert len(lines) == 1
    numbers = [int(number) for number in re.findall(r"(?<= )\d+(?= \d+ kB)", lines[0])]
    assert lines[0].startswith("10.0.0.3 QP 0x000011 <-> 10.0.0.2 QP 0x000011")
    assert numbers == [509, 506, 1015]


def test_endpoints_equal_the_queue_pairs():
    lines = [line.split() for line in table(LOSS, "endpoints,rdmawire").splitlines() if " QP 0x" in line]
    # Packets and bytes: total, sent, received. `rdmawire analyze` counts 506 + 509 packets.
    assert [line[:3] + line[3:] for line in lines] == [
        ["10.0.0.3", "QP", "0x000011", "1015", "954410", "506", "475072", "509", "479338"],
        ["10.0.0.2", "QP", "0x000011", "1015", "954410", "509", "479338", "506", "475072"]]


def test_service_response_times_equal_the_latencies():
    line = next(line.split() for line in table(LOSS, "rdmawire,srt").splitlines() if " send " in line)
    # Calls, minimum, maximum, mean, sum. `analyze` has 50 messages per direction, 209168000 + 134611000 ns.
    assert line == ["0", "send", "100", "0.000394", "0.068678", "0.003438", "0.343779"]


def test_statistics_of_operations_and_events():
    text = table(LOSS, "rdmawire,tree", "rdmawire_events,tree")
    counts = dict(re.findall(r"^ *(\S.*?) {2,}(\d+) ", text, re.M))
    assert counts["RDMA packets by operation"] == "1015"
    assert counts["RC SEND Middle"] == "656" and counts["RC Acknowledge"] == "141"
    assert counts["retransmission"] == "18" and counts["nak"] == "14" and counts["lost_in_network"] == "15"
    assert counts["sequence_error_nak"] == "14" and counts["timeout"] == "3" and counts["spurious"] == "1"


def test_follow_contains_the_data_of_both_endpoints():
    text = table(LOSS, "follow,rdmawire,raw,0")
    assert "Node 0: 10.0.0.3:17" in text
    sent = "".join(line for line in text.splitlines() if re.fullmatch(r"\t?[0-9a-f]+", line)).replace("\t", "")
    assert len(sent) // 2 == 2 * 409600  # each message once, without retransmissions
    assert set(sent) == {"7", "b"}


@pytest.mark.parametrize("passes", [(), ("-2",)], ids=["one pass", "two passes"])
def test_repeated_read_responses_are_marked(passes):
    home = with_plugin()
    names = ("frame.number", "ip.src", "infiniband.bth.destqp", "infiniband.bth.psn", "infiniband.bth.opcode",
             "rdmawire.analysis.repeated_response", "rdmawire.analysis.flags", "rdmawire.icrc.status")
    out = home.tshark("-n", *passes, "-r", home.place(READ_LOSS), "-Y", "infiniband.bth.opcode in {13..16}", "-T", "fields",
                      *(part for name in names for part in ("-e", name))).stdout.decode()
    expected, marked, flagged, seen = set(), set(), set(), set()
    for number, source, qp, psn, _, repeated, flags, icrc in (line.split("\t") for line in out.splitlines()):
        assert icrc in ("good", "1")  # Wireshark 4.0 prints the number
        if (source, qp, psn) in seen:
            expected.add(number)
        seen.add((source, qp, psn))
        marked |= {number} if repeated in ("1", "True") else set()
        flagged |= {number} if flags else set()
    assert len(expected) == 2629
    assert marked == expected
    assert marked <= flagged
    text = home.tshark("-n", *passes, "-r", home.place(READ_LOSS), "-o", 'gui.column.format:"Info","%i"').stdout.decode()
    assert sum("[RDMA Repeated Response]" in line for line in text.splitlines()) == len(marked)


def test_follow_contains_each_read_response_once():
    text = table(READ_LOSS, "follow,rdmawire,raw,1")
    sent = "".join(line for line in text.splitlines() if re.fullmatch(r"\t?[0-9a-f]+", line)).replace("\t", "")
    assert len(sent) // 2 == 50 * 16384


@pytest.mark.parametrize("snap", [0, 70])
def test_payload_lengths_add_up_to_the_messages(tmp_path, snap):
    capture = LOSS
    if snap:
        capture = tmp_path / "short.pcap"
        subprocess.run(["editcap", "-F", "nsecpcap", "-s", str(snap), LOSS, capture], check=True, stderr=subprocess.DEVNULL)
    found = rows(capture, "ip.src", "infiniband.bth.psn", "rdmawire.payload.length")
    lengths = {(source, psn): int(length) for source, psn, length in found if length not in ("", "0")}
    assert sum(lengths.values()) == 2 * 409600


def test_payload_lengths_of_iwarp_are_those_of_its_segments():
    found = rows(SAMPLES / "siw-send.pcap.gz", "rdmawire.payload.length", "rdmawire.payload")
    lengths = [int(length) for row, _ in found for length in row.split(",") if length]
    payloads = [len(payload) // 2 for _, row in found for payload in row.split(",") if payload]
    assert [length for length in lengths if length] == payloads and len(payloads) > 100


@pytest.mark.parametrize("capture", [path for path in ALL if path.name.startswith("rc-")], ids=lambda path: path.name)
def test_messages_are_reassembled(capture):
    """Compares reassembled messages with the payloads of their packets, in PSN order."""
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
        content = bytes.fromhex(raw[str(packet["frame"])])
        payload[packet["frame"]] = content[begin - udp["offset"] - 8:len(content) - 4 - pad]
    reassembled = 0
    for _, data, segments, length in frames:
        if not data:
            continue
        expected = b"".join(payload[int(segment)] for segment in segments.split(","))
        assert bytes.fromhex(data) == expected and int(length) == len(expected)
        reassembled += 1
    assert reassembled == len(multi_packet_sizes(capture))


def multi_packet_sizes(capture):
    """Return the sizes of the completed messages of several packets that `analyze` lists."""
    directory = with_plugin().path / f"tables-{capture.name}"
    subprocess.run([COMMAND, "analyze", capture, "--csv", directory, "--threads", "1"], check=True, timeout=120,
                   stdout=subprocess.DEVNULL)
    with (directory / "messages.csv").open(newline="") as file:
        return [int(row["size"]) for row in csv.DictReader(file) if row["outcome"] == "completed"
                and (int(row["packets"]) > 1 or row["operation"] == "read" and row["first_psn"] != row["last_psn"])]


@pytest.mark.parametrize("name", ["siw-read.pcap.gz", "siw-send.pcap.gz", "siw-write-loss.pcap.gz"])
def test_ddp_messages_are_reassembled(name):
    """The number and size equal those of the messages of `analyze` that exceed one segment."""
    frames = rows(SAMPLES / name, "rdmawire.reassembled.length", arguments=("-Y", "rdmawire.reassembled.length"))
    lengths = sorted(int(length) for row in frames for length in row[0].split(","))
    assert lengths == sorted(size for size in multi_packet_sizes(SAMPLES / name) if size > 1428) and len(lengths) > 20


class Sharkd:
    """Runs Wireshark's core without a window: several files, frames in any order."""

    def __init__(self, home):
        self.home, self.requests = home, []

    def request(self, method, **parameters):
        self.requests.append({"jsonrpc": "2.0", "id": len(self.requests) + 1, "method": method, "params": parameters})

    def responses(self):
        done = self.home.run("sharkd", "-", input="".join(json.dumps(request) + "\n" for request in self.requests).encode())
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b'{"jsonrpc"')]
        assert [line["id"] for line in lines] == list(range(1, len(self.requests) + 1)), done.stderr
        return [line["result"] for line in lines]


def labels(node):
    """Yield the labels of a tree, as in PDML and sharkd."""
    yield node["l"]
    for child in node.get("n", []):
        yield from labels(child)


def plugin_trees(response):
    return [list(labels(node)) for node in response["tree"] if node.get("f") == "rdmawire"]


@pytest.mark.skipif(not shutil.which("sharkd"), reason="requires sharkd")
def test_output_is_independent_of_file_and_frame_order():
    """The output of a frame is independent of previously shown frames and files, and of a reset preference."""
    home = with_plugin()
    first_file, second_file = home.place(LOSS), home.place(SAMPLES / "siw-write-loss.pcap.gz")
    order = [41, 26, 999, 35, 27, 26, 1042, 34, 41]
    sharkd = Sharkd(home)
    sharkd.request("load", file=str(first_file))
    for frame in order:
        sharkd.request("frame", frame=frame, proto=True)
    sharkd.request("load", file=str(second_file))
    for frame in (300, 66, 50):
        sharkd.request("frame", frame=frame, proto=True)
    sharkd.request("load", file=str(first_file))
    for frame in sorted(order, reverse=True):
        sharkd.request("frame", frame=frame, proto=True)
    responses = sharkd.responses()
    first = dict(zip(order, responses[1:10]))
    assert plugin_trees(responses[1]) == plugin_trees(responses[9]) and len(plugin_trees(responses[1])) == 1
    for frame, response in zip(sorted(order, reverse=True), responses[15:]):
        assert plugin_trees(response) == plugin_trees(first[frame]), f"frame {frame}"
    assert plugin_trees(responses[12]), "the second file has no plugin tree"
    text = "\n".join(plugin_trees(first[35])[0])
    assert "sequence_error_nak" in text and "Caused by: 34" in text
    # sharkd's output equals tshark's with two passes.
    packets = home.packets(LOSS, "-2", "-J", "rdmawire")
    for frame in (26, 35, 41):
        tree = plugin_tree(packets[frame - 1])
        names = [field.get("showname") for field in tree.iter("field") if field.get("hide") != "yes"]
        shown = [re.sub(r"^\[(.*)\]$", r"\1", label) for label in plugin_trees(first[frame])[0][1:]]
        assert [label for label in shown if label] == [name for name in names if name], f"frame {frame}"


def protocols(home, capture, *arguments):
    out = home.tshark("-n", "-r", home.place(capture), "-T", "fields", "-e", "frame.protocols", *arguments).stdout
    return [line.split(":") for line in out.decode().splitlines()]


def test_decode_as_replaces_the_built_in_dissector():
    """Only for the selected port, and only with Decode As."""
    home, capture, selector = with_plugin(), RPING, "udp.port==4791"
    bth = [number for number, packet in enumerate(dissected(capture))
           if {"bth"} <= {layer["protocol"] for layer in packet["layers"]}
           and not {"mad"} & {layer["protocol"] for layer in packet["layers"]}]
    assert len(bth) > 5
    default, with_decode_as = protocols(home, capture), protocols(home, capture, "-d", f"{selector},rdmawire")
    assert all("infiniband" in default[number] for number in bth)
    assert not any("infiniband" in with_decode_as[number] for number in bth)


@pytest.mark.skipif(not shutil.which("sharkd"), reason="requires sharkd")
def test_preference_can_be_set_and_reset():
    """Changes the preference in one process, as in the Wireshark window."""
    home = with_plugin()
    capture = str(home.place(RPING))
    sharkd = Sharkd(home)
    for value in (None, "TRUE", "FALSE"):
        if value:
            sharkd.request("setconf", name="rdmawire.main_dissector", value=value)
        sharkd.request("load", file=capture)
        sharkd.request("frames", column0="infiniband.bth.psn:0", column1="rdmawire.bth.psn:0")
    responses = sharkd.responses()
    before, as_main, after = (responses[number] for number in (1, 4, 7))
    assert before == after != as_main
    built_in, plugin = ([bool(row["c"][column]) for row in before] for column in (0, 1))
    assert built_in == plugin and sum(plugin) > 300
    # The built-in dissector still dissects management datagrams.
    assert [bool(row["c"][1]) for row in as_main] == plugin and 0 < sum(bool(row["c"][0]) for row in as_main) < 20


def test_follow_contains_both_endpoints_of_iwarp():
    """Messages of a TCP connection, in the order of the endpoints."""
    capture = SAMPLES / "siw-rping.pcap"
    text = table(capture, "follow,rdmawire,raw,0")
    lines = [line for line in text.splitlines() if re.fullmatch(r"\t?[0-9a-f]+", line)]
    assert any(line.startswith("\t") for line in lines) and any(not line.startswith("\t") for line in lines)
    # rping's data: "rdma-ping-0: ABCD…"
    assert "rdma-ping-0: ABCDEFGH".encode().hex() in "".join(lines).replace("\t", "")


def test_standard_input_equals_reading_the_file():
    """Standard input cannot be read twice: one pass, as in a live capture."""
    home = with_plugin()
    content = home.place(LOSS).read_bytes()
    fields = ("-T", "fields", "-e", "frame.number", "-e", "rdmawire.analysis.relative_psn", "-e", "rdmawire.event")
    piped = home.run("tshark", "-n", "-r", "-", *fields, input=content).stdout
    assert piped == home.tshark("-n", "-r", home.place(LOSS), *fields).stdout
    assert b"\n34\t1\tnak" in piped


def test_display_filters_select_events():
    found = rows(LOSS, "frame.number", arguments=("-Y", "rdmawire.analysis.retransmission"))
    retransmitted = rows(LOSS, "frame.number", arguments=("-Y", "rdmawire.analysis.seen_before"))
    assert len(retransmitted) == 90  # analyze counts the same number of retransmitted packets
    assert {frame for frame, in retransmitted} <= {frame for frame, in found}
    naks = rows(LOSS, "frame.number", arguments=("-Y", 'rdmawire.aeth.syndrome.kind == "NAK"'))
    assert len(naks) == 14


UPPER = {"nvme-rdma", "nvme", "rpcordma", "iser", "smb_direct", "lnet"}


@pytest.mark.parametrize("capture", ALL, ids=lambda path: path.name)
def test_main_dissector_calls_the_same_upper_layer_dissectors(capture):
    """Ignores RPC over RDMA, for which the built-in dissector mistakes short SENDs."""
    default, home = without_plugin(), with_plugin()
    option = ("-o", "rdmawire.main_dissector:TRUE")

    def protocols(where, *arguments):
        out = where.tshark("-n", "-2", "-r", where.place(capture), "-T", "fields", "-e", "frame.protocols",
                           *arguments).stdout.decode()
        return [set(line.split(":")) & UPPER for line in out.splitlines()]

    before, after = protocols(default), protocols(home, *option)
    assert len(before) == len(after) > 0
    assert [found - {"rpcordma"} for found in before] == [found - {"rpcordma"} for found in after]
    wires = Counter(packet.get("wire") for packet in dissected(capture))
    trees = home.tshark("-n", "-r", home.place(capture), "-Y", "rdmawire.wire", *option).stdout.decode().splitlines()
    assert len(trees) >= wires["roce_v2"] + wires["infiniband"]


def test_plugin_is_installed_in_wireshark_directories(tmp_path):
    with open(BUILD / "CMakeCache.txt") as lock:  # tests of the target uninstall read the manifest
        fcntl.flock(lock, fcntl.LOCK_EX)
        manifest = BUILD / "install_manifest_wireshark.txt"
        before = manifest.read_bytes() if manifest.exists() else None
        done = subprocess.run(["cmake", "--install", BUILD, "--component", "wireshark"], capture_output=True, text=True,
                              timeout=60, env={**os.environ, "DESTDIR": str(tmp_path), "HOME": "/home/somebody"})
        manifest.unlink(missing_ok=True)
        if before is not None:
            manifest.write_bytes(before)
    assert done.returncode == 0, done.stderr
    folder = subprocess.run(["pkg-config", "--variable=plugindir", "wireshark"], capture_output=True, text=True,
                            timeout=60, check=True).stdout.strip()
    there = [tmp_path / folder[1:] / "epan/rdmawire.so",
             *tmp_path.glob("home/somebody/.local/lib/wireshark/plugins/*/epan/rdmawire.so")]
    assert [path for path in there if path.exists()], list(tmp_path.rglob("*.so"))
    assert len(list(tmp_path.rglob("profiles/RDMA/colorfilters"))) == 1


def test_plugin_is_installed_only_by_its_component():
    """Only an installation with --component writes files to Wireshark's directories."""
    script = (BUILD / "dissectors/wireshark/cmake_install.cmake").read_text()
    conditions = re.findall(r"^if\((.*)\)$", script, re.M)
    installs = [condition for condition in conditions if "CMAKE_INSTALL_COMPONENT STREQUAL" in condition]
    assert installs
    assert set(installs) == {'CMAKE_INSTALL_COMPONENT STREQUAL "wireshark"'}


def test_profile_uses_existing_fields():
    """Coloring rules and columns of the profile refer to existing fields."""
    home = with_plugin()
    known = {line.split("\t")[2] for line in home.tshark("-G", "fields").stdout.decode().splitlines()
             if line.startswith("F\t")}
    folder = ROOT / "dissectors/wireshark/profile/RDMA"
    used = set()
    for line in (folder / "colorfilters").read_text().splitlines():
        if line.startswith("#"):
            continue
        _, name, expression, _ = line.split("@", 3)
        used |= set(re.findall(r"rdmawire(?:\.\w+)+", expression))
        done = home.tshark("-n", "-r", home.place(RPING), "-Y", expression, check=False)
        assert done.returncode == 0, f"{name}: {done.stderr.decode()}"
    used |= set(re.findall(r"%Cus:(rdmawire(?:\.\w+)+)", (folder / "preferences").read_text()))
    assert len(used) > 10 and used <= known, used - known


def test_documentation_lists_the_fields():
    fields = with_plugin().tshark("-G", "fields").stdout.decode()
    expected = subprocess.run([ROOT / "scripts/wireshark-fields"], input=fields, capture_output=True, text=True,
                          timeout=60, check=True).stdout
    assert expected.count("\n") > 100
    assert expected in (ROOT / "docs/how-to/use-wireshark-plugin.md").read_text(), \
        "docs/how-to/use-wireshark-plugin.md is outdated: run tshark -G fields | scripts/wireshark-fields --write"
