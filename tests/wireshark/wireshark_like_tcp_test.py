"""Functions that Wireshark has for TCP: texts in the packet list, colors, expert items, streams, graphs, follow."""

import re
import subprocess
import sys

import pytest
from made_frames import bth, pcap, roce
from tshark_runs import ROOT, SAMPLES, Home, needs_tshark, with_plugin, without_plugin

pytestmark = needs_tshark
LOSS = SAMPLES / "rc-pingpong-loss.pcap.gz"
RPING = SAMPLES / "rping.pcap"
SEND = SAMPLES / "rc-send.pcap.gz"


def tshark(capture, *arguments, home=None):
    home = home or with_plugin()
    return home.tshark("-n", "-r", home.place(capture), *arguments).stdout.decode()


def fields(capture, *names, arguments=()):
    out = tshark(capture, "-T", "fields", *(part for name in names for part in ("-e", name)), *arguments)
    return [line.split("\t") for line in out.splitlines()]


def infos(capture, *arguments):
    """Return {frame number: column Info}. Wireshark 4.4 computes _ws.col.info before the plugin runs."""
    text = tshark(capture, "-o", 'gui.column.format:"No.","%m","Info","%i"', *arguments)
    return dict(line.strip().split(" ", 1) for line in text.splitlines())


# ---------------------------------------------------------------------------------------------------- packet list


def test_info_starts_with_the_events_of_the_frame():
    info = infos(LOSS, "-2")
    retransmitted = {row[0] for row in fields(LOSS, "frame.number", arguments=(
        "-2", "-Y", 'rdmawire.analysis.retransmission && rdmawire.analysis.go_back_n.cause != "spurious"'))}
    assert len(retransmitted) > 50
    assert {number for number, text in info.items() if "[RDMA Retransmission] " in text} == retransmitted
    assert info["35"].startswith("[RDMA Retransmission] RC Send Middle QP=")
    assert any(text.startswith("[RDMA Spurious Retransmission] ") for text in info.values())


def test_info_shows_repeated_acknowledgements():
    duplicates = infos(LOSS, "-2", "-Y", "rdmawire.analysis.duplicate_acknowledgement && infiniband.bth.opcode == 17")
    assert duplicates and all("[RDMA Duplicate ACK]" in text for text in duplicates.values())


def test_info_is_unchanged_without_the_preference():
    off = ("-o", "rdmawire.info_prefixes:FALSE", "-o", "rdmawire.only_plausible_rpc:FALSE")
    assert tshark(LOSS, *off) == tshark(LOSS, home=without_plugin())
    assert "[RDMA Retransmission]" in tshark(LOSS)


def test_perftest_sends_are_not_malformed():
    """The built-in RPC-over-RDMA dissector accepts every SEND, and fails for short ones."""
    for name in ("rc-send.pcap.gz", "rc-read.pcap.gz", "siw-send.pcap.gz", "rc-pingpong-loss.pcap.gz"):
        capture = SAMPLES / name
        assert "alformed" not in tshark(capture), name
        home = with_plugin()
        errors = home.tshark("-n", "-r", home.place(capture)).stderr.decode()
        assert "Dissector bug" not in errors, name
    assert "Malformed" in tshark(SEND, "-o", "rdmawire.only_plausible_rpc:FALSE")


def rpc_call():
    """Return an RPC-over-RDMA message, version 1, that contains an RPC call of NFS. RFC 8166, RFC 5531"""
    header = bytes.fromhex("11223344" "00000001" "00000020" "00000000" "00000000" "00000000" "00000000")
    call = bytes.fromhex("11223344" "00000000" "00000002" "000186a3" "00000003" "00000000"
                         "00000000" "00000000" "00000000" "00000000")
    return header + call


def test_rpc_over_rdma_is_still_dissected(tmp_path):
    capture = tmp_path / "rpc.pcap"
    capture.write_bytes(pcap([roce(bth(4, psn=100) + rpc_call())]))
    protocols = tshark(capture, "-T", "fields", "-e", "frame.protocols")
    assert "rpcordma" in protocols
    assert protocols == tshark(capture, "-T", "fields", "-e", "frame.protocols", "-o", "rdmawire.only_plausible_rpc:FALSE")


def colors(*arguments):
    """Return the coloring rules of the default profile that the frames match, and whether they are retransmissions."""
    return [tuple(row) for row in fields(LOSS, "frame.coloring_rule.name", "rdmawire.analysis.retransmission",
                                         arguments=("--color", *arguments))]


@pytest.mark.parametrize("passes", [[], ["-2"]], ids=["one", "two"])
def test_default_profile_colors_retransmissions(passes):
    found = colors(*passes)
    retransmitted = [rule for rule, retransmission in found if retransmission]
    assert len(retransmitted) == 90 and set(retransmitted) == {"Bad RDMA"}
    assert sum(rule == "RDMA connection error" for rule, _ in found) == 14
    assert {"UDP", "TCP", "ARP"} <= {rule for rule, _ in found}, "Wireshark's own rules remain"
    assert not any("RDMA" in rule for rule, _ in colors(*passes, "-o", "rdmawire.coloring_rules:FALSE"))


def test_coloring_rule_of_the_profile_with_the_same_name_is_kept():
    """As after saving the rules, with a rule that the user changed."""
    home = Home(plugin=True)
    profile = home.path / ".config/wireshark"
    profile.mkdir(parents=True)
    (profile / "colorfilters").write_text("@Bad RDMA@rdmawire.aeth@[0,0,0][65535,0,0]\n")
    for path in (home.path / ".config").rglob("*"):
        path.chmod(0o755)
    out = home.tshark("-n", "--color", "-r", home.place(LOSS), "-Y", 'frame.coloring_rule.name == "Bad RDMA"', "-T",
                      "fields", "-e", "frame.coloring_rule.string").stdout.decode()
    assert set(out.split("\n")) == {"rdmawire.aeth", ""}


# ---------------------------------------------------------------------------------------------------- expert items


def experts(capture, *arguments):
    """Return {(severity, summary): count}."""
    text = tshark(capture, "-q", "-z", "expert", *arguments)
    found, severity = {}, ""
    for line in text.splitlines():
        if heading := re.match(r"(Errors|Warns|Notes|Chats) \(", line):
            severity = heading[1]
        elif row := re.match(r" +(\d+) +(\w+) +rdmawire +(.*)", line):
            found[severity, row[3]] = int(row[1])
    return found


def test_each_kind_of_expert_item_has_one_text():
    found = experts(LOSS, "-2")
    texts = [text for _, text in found]
    assert len(texts) == len(set(texts)) < 12
    retransmissions = [count for (_, text), count in found.items() if text.startswith("go-back-N retransmission")]
    assert retransmissions == [90]
    assert not any(re.search(r"\bframe \d", text) for text in texts)


@pytest.mark.parametrize("capture", [RPING, SEND, SAMPLES / "ucmatose.pcap", SAMPLES / "linlinw5-cm.pcap"],
                         ids=lambda path: path.name)
def test_healthy_transfers_over_rxe_have_no_errors(capture):
    found = experts(capture, "-2")
    assert not [text for severity, text in found if severity in ("Errors", "Warns")]
    notes = [text for severity, text in found if severity == "Notes" and "Linux rxe" in text]
    assert len(notes) == 2, found
    # The rule and its evaluation remain in the tree.
    rules = {row[0] for row in fields(capture, "rdmawire.violation.rule", arguments=("-2", "-Y", "rdmawire.violation"))}
    assert any("bth.sender.migration.state-constant" in rule for rule in rules)
    assert not tshark(capture, "-2", "-Y", "rdmawire.analysis.flags && rdmawire.violation")


def test_deviation_of_another_stack_remains_an_error(tmp_path):
    """The same packets with a UDP source port that rxe does not compute."""
    def packet(migrated, psn):
        return roce(bth(4, psn=psn, pad=0)[:1] + bytes([0x40 if migrated else 0x00]) + bth(4, psn=psn)[2:] + b"abcdefgh")
    capture = tmp_path / "other.pcap"
    capture.write_bytes(pcap([packet(False, 100), packet(False, 101)]))
    found = experts(capture, "-2")
    assert not [text for _, text in found if "Linux rxe" in text]


def test_each_rule_has_an_expert_field():
    names = {line.split("\t")[2] for line in with_plugin().tshark("-G", "fields").stdout.decode().splitlines()
             if line.startswith("F\t") and "\trdmawire.rule." in line}
    rules = set(re.findall(r"`([a-z]+(?:\.[a-z0-9-]+){3})`", (ROOT / "docs/reference/rules.md").read_text()))
    assert len(names) > 350
    assert {name.removeprefix("rdmawire.rule.") for name in names} >= rules
    capture = SAMPLES / "siw-write.pcap.gz"
    rule = "fpdu.sender.format.length-pad-crc"
    assert tshark(capture, "-2", "-Y", f"rdmawire.rule.{rule}").count("\n") == tshark(
        capture, "-2", "-Y", f'rdmawire.violation.rule == "{rule}"').count("\n") > 0


# --------------------------------------------------------------------------------------------------------- streams


@pytest.mark.parametrize("passes", [[], ["-2"]], ids=["one", "two"])
def test_streams_are_numbered_from_zero_without_gaps(passes):
    for name in ("rping.pcap", "nvme-over-rdma.pcap.zst", "ud-pingpong.pcap", "siw-rping.pcap", "linlinw5-cm.pcap"):
        pairs = {(int(stream), int(connection)) for stream, connection in fields(
            SAMPLES / name, "rdmawire.stream", "rdmawire.analysis.connection",
            arguments=(*passes, "-Y", "rdmawire.stream"))}
        assert sorted(stream for stream, _ in pairs) == list(range(len(pairs))) and pairs, name


def test_seen_before_matches_only_repeated_packets():
    assert tshark(LOSS, "-Y", "rdmawire.analysis.seen_before").count("\n") == 90


def test_completeness_contains_the_captured_parts():
    def last(name):
        return fields(SAMPLES / name, "rdmawire.completeness", "rdmawire.completeness.str",
                      arguments=("-2", "-Y", "rdmawire.completeness"))[-1]
    assert last("rping.pcap") == ["15", "EQRC·"]
    assert last("rc-pingpong-loss.pcap.gz") == ["6", "·QR··"]
    assert last("ud-pingpong.pcap") == ["2", "·Q···"]
    assert last("siw-rping.pcap") == ["15", "EQRC·"]


def test_flow_graph_contains_the_packets_of_connections():
    text = tshark(RPING, "-q", "-z", "flow,rdmawire,network")
    lines = [line for line in text.splitlines() if "RDMA: Stream=0" in line]
    # 360 packets of the connection and 5 CM packets.
    assert len(lines) == 365
    assert "CM REQ" in lines[0] and "CM DREP" in lines[-1]
    assert any("RC SEND Only" in line and "QP=0x000011 PSN=+0" in line for line in text.splitlines())


def test_io_graph_accepts_the_fields():
    field = "rdmawire.analysis.acknowledgement_time"
    text = tshark(LOSS, "-2", "-q", "-z", f"io,stat,0,AVG({field}){field},MAX({field}){field},"
                  "COUNT(rdmawire.analysis.retransmission)rdmawire.analysis.retransmission,"
                  "MAX(rdmawire.analysis.outstanding_bytes)rdmawire.analysis.outstanding_bytes")
    row = next(line for line in text.splitlines() if "<>" in line)
    values = [cell.strip() for cell in row.strip("| ").split("|")][1:]
    assert len(values) == 4 and float(values[0]) > 0 and float(values[1]) >= float(values[0])
    assert int(values[2]) == 90 and int(values[3]) >= 4096


def test_profile_opens_the_conversations_of_queue_pairs():
    recent = (ROOT / "dissectors/wireshark/profile/RDMA/recent").read_text()
    assert "rdmawire" in re.search(r"^gui\.conversation_tabs: (.*)$", recent, re.M)[1].split(",")


def test_text_of_a_packet_does_not_reach_the_packet_list_unescaped(tmp_path):
    """Control characters in the private data of a connection request are not printed."""
    capture = tmp_path / "control.pcap"
    capture.write_bytes(pcap([roce(bth(4, psn=100) + b"\x1b[31m" * 10)]))
    for arguments in ((), ("-V",), ("-q", "-z", "follow,rdmawire,ascii,0")):
        assert "\x1b" not in tshark(capture, *arguments)


def test_follow_of_a_stream_in_one_pass():
    text = tshark(RPING, "-q", "-z", "follow,rdmawire,ascii,0")
    assert "Filter: rdmawire.stream == 0" in text and "rdma-ping-0: ABCDEFG" in text


# -------------------------------------------------------------------------------------------------- comparison table

PAGE = ROOT / "docs/how-to/use-wireshark-plugin.md"


def comparison():
    """Return (filter, number of frames) of each row."""
    text = PAGE.read_text().split("<!-- comparison: begin -->")[1].split("<!-- comparison: end -->")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")]
    return [("rdmawire." + re.match(r"`([^`]+)`", filtered)[1], frames) for _, filtered, frames in rows[1:]]


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    target = tmp_path_factory.mktemp("generated") / "faults"
    subprocess.run([sys.executable, "-m", "synthesize", target, "--cases", "400", "--seed", "7"], check=True,
                   cwd=ROOT / "tests/analysis", stdout=subprocess.DEVNULL, timeout=120)
    return target.with_suffix(".pcap")


def test_page_compares_every_field_of_the_tcp_analysis(generated):
    page = PAGE.read_text()
    names = {line.split("\t")[2] for line in with_plugin().tshark("-G", "fields").stdout.decode().splitlines()
             if "\ttcp.analysis." in line}
    # Parts of a row's field.
    names -= {"tcp.analysis.keep_alive_ack", "tcp.analysis.zero_window_probe_ack", "tcp.analysis.tfo_ack",
              "tcp.analysis.tfo_ignored"}
    assert len(names) > 20
    assert not [name for name in names if f"`{name}`" not in page]


@pytest.mark.parametrize("row", comparison(), ids=lambda row: row[0])
def test_row_of_the_comparison_matches_its_number_of_frames(row, generated):
    filtered, frames = row
    assert str(tshark(generated, "-2", "-Y", filtered).count("\n")) == frames
    assert frames != "0"


def test_expert_items_of_many_events_have_few_texts(generated):
    """Wireshark compares each item with all different texts: thousands of texts made its table quadratic."""
    found = experts(generated, "-2")
    assert sum(found.values()) > 2000 and len(found) < 60


def test_generated_traffic_shows_the_same_classes_in_one_pass(generated):
    for name in ("retransmission", "out_of_order", "duplicate", "nak", "rnr_nak", "cnp", "ecn_marked", "crc_bad"):
        one, two = (tshark(generated, *passes, "-Y", f"rdmawire.analysis.{name}", "-T", "fields", "-e", "frame.number")
                    for passes in ((), ("-2",)))
        one, two = set(one.split()), set(two.split())
        assert len(one ^ two) <= len(two) / 50 and two, name
