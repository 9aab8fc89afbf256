"""The plugin's tables, messages put together, what it does as the main dissector, how it is installed, and that its page
is current."""

import csv
import json
import os
import re
import shutil
import subprocess
from collections import Counter

import pytest
from tshark_runs import ALL, COMMAND, PLUGIN, ROOT, SAMPLES, dissected, needs_tshark, ours, with_plugin, without_plugin

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
    # Packets, bytes; of these sent; received. As `rdmawire analyze` counts them: 506 + 509 packets.
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
    """From the bytes of their packets, in the order of PSNs, at the frame that makes them whole."""
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
    whole = 0
    for _, data, segments, length in frames:
        if not data:
            continue
        expected = b"".join(payload[int(segment)] for segment in segments.split(","))
        assert bytes.fromhex(data) == expected and int(length) == len(expected)
        whole += 1
    assert whole == len(several_of(capture))


def several_of(capture):
    """The completed messages of several packets that `analyze` lists of a capture: their sizes."""
    directory = with_plugin().path / f"tables-{capture.name}"
    subprocess.run([COMMAND, "analyze", capture, "--csv", directory, "--threads", "1"], check=True, timeout=120,
                   stdout=subprocess.DEVNULL)
    with (directory / "messages.csv").open(newline="") as file:
        return [int(row["size"]) for row in csv.DictReader(file) if row["outcome"] == "completed"
                and (int(row["packets"]) > 1 or row["operation"] == "read" and row["first_psn"] != row["last_psn"])]


@pytest.mark.parametrize("name", ["siw-read.pcap.gz", "siw-send.pcap.gz", "siw-write-loss.pcap.gz"])
def test_ddp_messages_are_put_together(name):
    """As many, and as long, as `analyze` has messages that do not fit one segment."""
    frames = rows(SAMPLES / name, "rdmawire.reassembled.length", arguments=("-Y", "rdmawire.reassembled.length"))
    lengths = sorted(int(length) for row in frames for length in row[0].split(","))
    assert lengths == sorted(size for size in several_of(SAMPLES / name) if size > 1428) and len(lengths) > 20


class Sharkd:
    """Wireshark's file handling without a window: files one after another, frames in any order."""

    def __init__(self, home):
        self.home, self.requests = home, []

    def ask(self, method, **parameters):
        self.requests.append({"jsonrpc": "2.0", "id": len(self.requests) + 1, "method": method, "params": parameters})

    def answers(self):
        done = self.home.run("sharkd", "-", input="".join(json.dumps(one) + "\n" for one in self.requests).encode())
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b'{"jsonrpc"')]
        assert [line["id"] for line in lines] == list(range(1, len(self.requests) + 1)), done.stderr
        return [line["result"] for line in lines]


def labels(node):
    """The texts of a tree, ours alone, as PDML and sharkd have them."""
    yield node["l"]
    for below in node.get("n", []):
        yield from labels(below)


def ours_in(answer):
    return [list(labels(node)) for node in answer["tree"] if node.get("f") == "rdmawire"]


@pytest.mark.skipif(not shutil.which("sharkd"), reason="needs sharkd")
def test_files_one_after_another_and_frames_in_any_order():
    """What is said of a frame does not depend on which was looked at before it, on the file that was open before, or on a
    preference that was set and taken back."""
    home = with_plugin()
    one, other = home.place(LOSS), home.place(SAMPLES / "siw-write-loss.pcap.gz")
    order = [41, 26, 999, 35, 27, 26, 1042, 34, 41]
    sharkd = Sharkd(home)
    sharkd.ask("load", file=str(one))
    for frame in order:
        sharkd.ask("frame", frame=frame, proto=True)
    sharkd.ask("load", file=str(other))
    for frame in (300, 66, 50):
        sharkd.ask("frame", frame=frame, proto=True)
    sharkd.ask("load", file=str(one))
    for frame in sorted(order, reverse=True):
        sharkd.ask("frame", frame=frame, proto=True)
    answers = sharkd.answers()
    first = dict(zip(order, answers[1:10]))
    assert ours_in(answers[1]) == ours_in(answers[9]) and len(ours_in(answers[1])) == 1
    for frame, answer in zip(sorted(order, reverse=True), answers[15:]):
        assert ours_in(answer) == ours_in(first[frame]), f"frame {frame}"
    assert ours_in(answers[12]), "the second file has no tree of ours"
    text = "\n".join(ours_in(first[35])[0])
    assert "sequence_error_nak" in text and "Caused by: 34" in text
    # The same as tshark says in two passes.
    packets = home.packets(LOSS, "-2", "-J", "rdmawire")
    for frame in (26, 35, 41):
        tree = ours(packets[frame - 1])
        said = [field.get("showname") for field in tree.iter("field") if field.get("hide") != "yes"]
        shown = [re.sub(r"^\[(.*)\]$", r"\1", label) for label in ours_in(first[frame])[0][1:]]
        assert [label for label in shown if label] == [name for name in said if name], f"frame {frame}"


def protocols(home, capture, *arguments):
    out = home.tshark("-n", "-r", home.place(capture), "-T", "fields", "-e", "frame.protocols", *arguments).stdout
    return [line.split(":") for line in out.decode().splitlines()]


def test_decode_as_ours():
    """Ours in place of the built-in, for that port alone; not without Decode As."""
    home, capture, place = with_plugin(), RPING, "udp.port==4791"
    bth = [number for number, packet in enumerate(dissected(capture))
           if {"bth"} <= {layer["protocol"] for layer in packet["layers"]}
           and not {"mad"} & {layer["protocol"] for layer in packet["layers"]}]
    assert len(bth) > 5
    without, ours_then = protocols(home, capture), protocols(home, capture, "-d", f"{place},rdmawire")
    assert all("infiniband" in without[number] for number in bth)
    assert not any("infiniband" in ours_then[number] for number in bth)


@pytest.mark.skipif(not shutil.which("sharkd"), reason="needs sharkd")
def test_the_preference_and_back():
    """In one process, as in the window: beside the built-in, in its place, and beside it again."""
    home = with_plugin()
    capture = str(home.place(RPING))
    sharkd = Sharkd(home)
    for value in (None, "TRUE", "FALSE"):
        if value:
            sharkd.ask("setconf", name="rdmawire.main_dissector", value=value)
        sharkd.ask("load", file=capture)
        sharkd.ask("frames", column0="infiniband.bth.psn:0", column1="rdmawire.bth.psn:0")
    answers = sharkd.answers()
    beside, instead, again = (answers[number] for number in (1, 4, 7))
    assert beside == again != instead
    theirs, own = ([bool(row["c"][column]) for row in beside] for column in (0, 1))
    assert theirs == own and sum(own) > 300
    # But for management datagrams, which the built-in goes on reading.
    assert [bool(row["c"][1]) for row in instead] == own and 0 < sum(bool(row["c"][0]) for row in instead) < 20


def test_follow_has_both_ends_of_iwarp():
    """What a connection over TCP carried, message by message, as its ends sent it."""
    capture = SAMPLES / "siw-rping.pcap"
    connection = next(row[0] for row in rows(capture, "rdmawire.analysis.connection") if row[0])
    text = table(capture, f"follow,rdmawire,raw,{connection}")
    lines = [line for line in text.splitlines() if re.fullmatch(r"\t?[0-9a-f]+", line)]
    assert any(line.startswith("\t") for line in lines) and any(not line.startswith("\t") for line in lines)
    # rping's text: "rdma-ping-0: ABCD…"
    assert "rdma-ping-0: ABCDEFGH".encode().hex() in "".join(lines).replace("\t", "")


def test_from_standard_input():
    """Where nothing can be read twice, as in a live capture: one pass."""
    home = with_plugin()
    content = home.place(LOSS).read_bytes()
    fields = ("-T", "fields", "-e", "frame.number", "-e", "rdmawire.analysis.relative_psn", "-e", "rdmawire.event")
    piped = home.run("tshark", "-n", "-r", "-", *fields, input=content).stdout
    assert piped == home.tshark("-n", "-r", home.place(LOSS), *fields).stdout
    assert b"\n34\t1\tnak" in piped


def test_display_filters_find_what_happened():
    found = rows(LOSS, "frame.number", arguments=("-Y", "rdmawire.analysis.retransmission"))
    again = rows(LOSS, "frame.number", arguments=("-Y", "rdmawire.analysis.seen_before == 1"))
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
    """Its coloring rules and columns name fields that there are."""
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
    assert made in (ROOT / "docs/how-to/use-wireshark-plugin.md").read_text(), \
        "docs/how-to/use-wireshark-plugin.md is old: tshark -G fields | scripts/wireshark-fields --write"
