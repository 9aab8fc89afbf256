"""The command line of rdmawire: options, output, exit statuses, invalid input."""

import gzip
import json
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "captures" / "samples"
COMMAND = Path(os.environ.get("RDMAWIRE", ROOT / "build" / "dev" / "bin" / "rdmawire"))

pytestmark = pytest.mark.skipif(not COMMAND.exists(), reason=f"needs the command: {COMMAND} is not built")

RPING = SAMPLES / "rping.pcap"
LOSS = SAMPLES / "rc-pingpong-loss.pcap.gz"
NAK = 34  # of LOSS


def run(*arguments, status=0, **options):
    options.setdefault("capture_output", True)
    done = subprocess.run([COMMAND, *map(str, arguments)], timeout=60, **options)
    assert done.returncode == status, done.stderr
    return done


def lines(*arguments, **options):
    return run(*arguments, **options).stdout.decode().splitlines()


def objects(*arguments, **options):
    return [json.loads(line) for line in lines(*arguments, "--json", **options)]


def pcap(*packets, cut=None):
    """A little-endian pcap file of Ethernet frames, a second apart."""
    data = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    for second, packet in enumerate(packets):
        data += struct.pack("<IIII", 1000 + second, 0, len(packet), len(packet)) + packet
    return data[:cut]


# help and usage


@pytest.mark.parametrize("command", [[], ["dissect"], ["explain"]])
def test_help_has_examples_and_exit_statuses(command):
    text = run(*command, "--help").stdout.decode()
    assert "Usage: rdmawire" in text
    assert "Exit status" in text
    assert not command or "Examples:\n" in text


def test_version_contains_commit_compiler_features_and_crc_kernels():
    first, *rest = lines("--version")
    project = re.search(r"project\(rdmawire VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert first == f"rdmawire {project}"
    fields = {line[:10].strip(): line[10:].strip() for line in rest}
    assert list(fields) == ["commit", "compiler", "features", "CRC-32", "CRC-32C", "VCRC", "ICRC mask"]
    assert re.fullmatch(r"unknown|[0-9a-f]{40} \(\d{4}-\d\d-\d\d\)", fields["commit"])
    assert re.fullmatch(r"(gcc|clang) \d+\.\d+.*, C\+\+\d\d", fields["compiler"])
    assert set(fields["features"].split(", ")) <= {"AF_XDP", "ibverbs", "none"}
    assert all(fields.values())


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        ([], "missing subcommand; expected one of: analyze, capture, "),
        (["disect", RPING], 'unknown subcommand "disect"; expected one of: analyze, '),
        (["lab", "bot"], 'lab: unknown subcommand "bot"; expected one of: boot, '),
        (["dissect"], "missing argument FILE"),
        (["dissect", RPING, "--fiter", "bth"], "dissect: unknown option --fiter; did you mean --filter?"),
        (["dissect", RPING, "--frame", "0"], '--frame: expected a frame number or a range such as 5-9 or 5-, got "0"'),
        (["dissect", RPING, "--frame", "9-5"], 'got "9-5"'),
        (["dissect", RPING, "--time", "late"], 'expected one of relative, absolute, epoch, delta, got "late"'),
        (["dissect", RPING, "--color", "blue"], 'expected one of auto, always, never, got "blue"'),
        (["dissect", RPING, "--json", "-V"], "-V cannot be used with --json"),
        (["dissect", RPING, "--roce-port", "70000"], "70000"),
        (["dissect", RPING, "--limit", "0"], "--limit"),
        (["dissect", RPING, "--limit", "-1"], "--limit"),
        (["dissect", RPING, "--filter", "bth.psnn == 1"], "did you mean bth.psn?"),
        (["dissect", RPING, "--filter", "icrc.status == bad", "--no-crc"], "--no-crc"),
        (["explain", "bth.psnn"], "bth.psn"),
        (["explain", "rc.responder.psn.sequence-eror"], "rc.responder.psn.sequence-error"),
        (["explain", "RSP-9"], "RSP-009"),
    ],
)
def test_invalid_usage_exits_with_status_2(arguments, complaint):
    done = run(*arguments, status=2)
    assert complaint in done.stderr.decode()
    assert done.stdout == b""


# dissect


def test_dissect_prints_one_line_per_packet():
    shown = lines("dissect", LOSS, "--frame", NAK)
    assert len(shown) == 1
    assert re.match(r" +34 +5\.907694000  10\.0\.0\.2 → 10\.0\.0\.3  RC Acknowledge .*NAK PSN sequence error", shown[0])
    assert shown[0].endswith("ICRC good")


def test_lines_summarize_each_packet():
    def essence(capture, frame):
        (shown,) = lines("dissect", SAMPLES / capture, "--frame", frame)
        return shown.split("  ", 4)[-1] if shown.startswith("     ") else shown

    assert re.search(
        r"CM REQ .*  qp 0x11  psn 10321873  RC  mtu 1024  service TCP 7174  10\.0\.0\.3:60484 → 10\.0\.0\.2  ICRC good",
        essence("rping.pcap", 15),
    )
    assert re.search(
        r"RDMA READ Request +qp 0x11 +psn 10321873 +va 0x55b324a0a470  rkey 0x50e  len 4000  AckReq",
        essence("rping.pcap", 20),
    )
    assert re.search(
        r"TCP 32770 → 7174  RDMA Read Response +1144 B  stag 0xb1f87f00  to 0x55d069608fe8  last", essence("siw-rping.pcap", 28)
    )
    assert re.search(r"TCP 32770 → 7174  SYN  seq 3612485363 ", essence("siw-rping.pcap", 17))
    assert re.search(r"NVMe Connect  cid 0x0  queue 0  size 31", essence("nvme-over-rdma.pcap.zst", 18))


def test_tree_of_stream_shows_pdus():
    tree = run("dissect", SAMPLES / "siw-rping.pcap", "--frame", 24, "-V").stdout.decode()
    assert "PDU 1 of 1  40 bytes of this frame" in tree
    assert re.search(r"\n      3  rdmap  RDMAP control  1 byte\n.*\n +opcode +3 +Send\n", tree)


def test_frame_limit_and_filter_select_packets():
    def numbers(*arguments):
        return [int(line.split()[0]) for line in lines("dissect", LOSS, *arguments)]

    assert numbers("--frame", "5-7,34,36-37") == [5, 6, 7, 34, 36, 37]
    assert numbers("--limit", "3") == [1, 2, 3]
    assert numbers("--filter", "aeth.syndrome.kind == nak", "--limit", "2") == [34, 179]
    assert numbers("--frame", "1-100", "--filter", "aeth.syndrome.kind == nak") == [34]
    last = numbers()[-1]
    assert numbers("--frame", f"{last}-") == [last]


def test_time_styles():
    def when(style):
        return lines("dissect", LOSS, "--frame", "34-35", "--time", style)

    assert "  1795238507.825068000  " in when("epoch")[0]
    assert "  2026-11-21 05:21:47.825068000  " in when("absolute")[0]
    assert "  0.000000000  " in when("delta")[0]
    assert "  0.007444000  " in when("delta")[1]


def test_tree_and_hexdump():
    tree = run("dissect", LOSS, "--frame", NAK, "-V").stdout.decode()
    assert "nak_code             0                     PSN sequence error: " in tree
    dump = lines("dissect", LOSS, "--frame", NAK, "-x")
    assert dump[0].lstrip().startswith("34 ")
    assert dump[1].startswith("0000 │52 54 00") and dump[1].endswith("eth ip")
    both = run("dissect", LOSS, "--frame", NAK, "-V", "-x").stdout.decode()
    assert "\n   54  aeth" in both and "\n0030 " in both


def test_json_is_one_object_per_packet():
    (packet,) = objects("dissect", LOSS, "--frame", NAK)
    assert packet["frame"] == NAK
    assert packet["time"] == "1795238507.825068000"
    assert [layer["protocol"] for layer in packet["layers"]] == ["eth", "ip", "udp", "bth", "aeth"]
    assert packet["layers"][-1]["fields"]["syndrome.nak_code_name"] == "PSN sequence error"
    assert packet["icrc"]["status"] == "good"
    assert len(objects("dissect", LOSS)) == len(lines("dissect", LOSS))


def test_json_of_stream_contains_pdus():
    (packet,) = objects("dissect", SAMPLES / "siw-rping.pcap", "--frame", 24)
    assert packet["wire"] == "iwarp"
    (unit,) = packet["pdus"]
    assert (unit["offset"], unit["length"], unit["reassembled"]) == (66, 40, False)
    assert [layer["protocol"] for layer in unit["layers"]] == ["fpdu", "ddp", "rdmap", "ddp_untagged"]
    assert unit["layers"][2]["fields"]["opcode_name"] == "Send"


def test_every_top_level_key_is_documented():
    documented = set(re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", (ROOT / "docs" / "reference" / "dissect-json.md").read_text(), re.M))
    documented = {key for row in documented for key in re.findall(r"\w+", row)}
    seen = set()
    for capture in sorted(SAMPLES.glob("*.pcap*")):
        for packet in objects("dissect", capture, "--limit", 300):
            seen |= packet.keys()
            seen |= {key for unit in packet.get("pdus", []) for key in unit}
    assert {"layers", "icrc", "payload"} <= seen
    assert seen <= documented, seen - documented


def test_no_crc_omits_crc_results():
    assert "icrc" not in objects("dissect", LOSS, "--frame", NAK, "--no-crc")[0]
    assert "ICRC" not in lines("dissect", LOSS, "--frame", NAK, "--no-crc")[0]


def test_roce_port_decodes_additional_udp_port(tmp_path):
    frame = (
        bytes.fromhex("525400000003525400000002080045000030739140004011b3270a0000020a000003c121")
        + (18515).to_bytes(2, "big")
        + bytes.fromhex("001c00001100ffff00000011001857796000000065f72c6f")
    )
    capture = tmp_path / "port.pcap"
    capture.write_bytes(pcap(frame))
    assert "UDP 49441 → 18515" in lines("dissect", capture)[0]
    assert "RC Acknowledge" in lines("dissect", capture, "--roce-port", 18515)[0]


def test_count_in_text_and_json():
    assert any("bth" in line for line in lines("dissect", LOSS, "--count"))
    counted = json.loads(run("dissect", LOSS, "--count", "--json").stdout)
    assert counted["packets"] == len(lines("dissect", LOSS))


def test_output_names_each_of_several_files():
    shown = lines("dissect", RPING, LOSS, "--limit", 1)
    assert shown[0] == f"==> {RPING} <==" and shown[2] == f"==> {LOSS} <=="
    assert [packet["file"] for packet in objects("dissect", RPING, LOSS, "--limit", 1)] == [str(RPING), str(LOSS)]


def test_standard_input_and_compression(tmp_path):
    plain = run("dissect", RPING).stdout
    with RPING.open("rb") as file:
        assert run("dissect", "-", stdin=file).stdout == plain
    assert run("dissect", "-", input=gzip.compress(RPING.read_bytes())).stdout == plain
    packed = tmp_path / "x.pcap.gz"
    packed.write_bytes(gzip.compress(RPING.read_bytes()))
    assert run("dissect", packed).stdout == plain


def test_packets_from_pipe_are_shown_immediately():
    data = RPING.read_bytes()
    with subprocess.Popen([COMMAND, "dissect", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(data[: 24 + 16 + 90 + 16 + 20])  # one packet and part of the next
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], 30)
        assert ready and os.read(process.stdout.fileno(), 65536).count(b"\n") == 1
        process.stdin.close()
        process.stdout.read()
        assert process.wait(30) == 3  # the second packet is truncated


# invalid input


@pytest.mark.parametrize(
    "name, content, complaint",
    [
        ("missing.pcap", None, "No such file"),
        ("empty.pcap", b"", "empty"),
        ("text.pcap", b"frames, I promise\n" * 9, "neither pcap nor pcapng"),
        ("broken.pcap.gz", gzip.compress(pcap(bytes(60)) * 50, mtime=0)[:-20] + b"\0" * 9, "gzip"),
    ],
)
def test_unreadable_file_is_reported_in_one_line(tmp_path, name, content, complaint):
    capture = tmp_path / name
    if content is not None:
        capture.write_bytes(content)
    error = run("dissect", capture, status=3).stderr.decode()
    assert error.startswith("rdmawire: ") and str(capture) in error and complaint in error
    assert error.count("\n") == 1


def test_directory_exits_with_status_3(tmp_path):
    assert "directory" in run("dissect", tmp_path, status=3).stderr.decode()


def test_readable_part_of_truncated_file_is_shown(tmp_path):
    capture = tmp_path / "cut.pcap"
    capture.write_bytes(RPING.read_bytes()[:5000])
    done = run("dissect", capture, status=3)
    shown = done.stdout.decode().splitlines()
    assert len(shown) > 10 and shown == lines("dissect", RPING)[: len(shown)]
    error = done.stderr.decode()
    assert error.count("\n") == 1 and re.search(r"record \d+ at byte \d+", error)
    assert f"after {len(shown)} packets" in error


def test_other_files_are_read_after_an_error(tmp_path):
    done = run("dissect", tmp_path / "missing.pcap", RPING, "--limit", 1, status=3)
    assert b"ICMPv6" in done.stdout and b"missing.pcap" in done.stderr


def pcapng_with_losses():
    def block(kind, body):
        return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

    def statistics(interface, by_interface, by_system):
        counts = struct.pack("<HHQHHQI", 5, 8, by_interface, 7, 8, by_system, 0)
        return block(5, struct.pack("<III", interface, 0, 0) + counts)

    frame = bytes.fromhex("525400000003525400000002080600")
    return (
        block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
        + block(1, struct.pack("<HHI", 1, 0, 0) + struct.pack("<HH4sI", 2, 4, b"eth0", 0))
        + block(1, struct.pack("<HHI", 1, 0, 0))
        + block(6, struct.pack("<IIIII", 0, 0, 0, len(frame), len(frame)) + frame + b"\0")
        + statistics(0, 3, 4)
        + statistics(1, 0, 2)
    )


def test_packets_dropped_while_capturing_are_reported(tmp_path):
    capture = tmp_path / "lost.pcapng"
    capture.write_bytes(pcapng_with_losses())
    assert "the capture lost 9 packets: 7 at eth0" in lines("dissect", capture, "--count")
    assert objects("dissect", capture, "--count")[0]["lost"] == 9
    done = run("dissect", capture)
    assert done.stderr.decode() == f"rdmawire: {capture}: 9 packets were dropped while capturing\n"
    assert run("dissect", RPING).stderr == b""
    assert objects("dissect", RPING, "--count")[0]["lost"] is None


def test_long_names_keep_columns_aligned():
    shown = lines("dissect", RPING, "--frame", 15, "-V")
    long_name = next(line for line in shown if "alternate_local_ack_timeout" in line)
    short_name = next(line for line in shown if "local_ca_guid" in line)
    assert long_name.index("alternate path: code") == short_name.index("the requester's channel adapter")
    part = next(line for line in shown if line.strip().startswith("limit") and "4.294967296 s" in line)
    assert part.index("4.29") == short_name.index("5054:00ff")


def test_malformed_frames_are_findings(tmp_path):
    frame = bytearray.fromhex("525400000003525400000002080045000030739140004011b3270a0000020a000003c12112b7001c0000")
    capture = tmp_path / "malformed.pcap"
    capture.write_bytes(pcap(bytes(frame), bytes(frame[:20]), b"\xff", bytes(range(256)) * 4))
    shown = lines("dissect", capture)
    assert len(shown) == 4
    assert "! truncated: ip at offset 14" in shown[0]
    packets = objects("dissect", capture)
    assert packets[0]["findings"][0]["layer"] == "ip"
    assert run("dissect", capture, "-V", "-x").stdout


def test_closed_pipe_is_not_an_error():
    with subprocess.Popen([COMMAND, "dissect", LOSS, "-V"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(100)
        process.stdout.close()
        assert process.wait(30) == 0
        assert process.stderr.read() == b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_disk_is_an_error():
    with open("/dev/full", "wb") as full:
        done = run("dissect", RPING, status=3, stdout=full, stderr=subprocess.PIPE, capture_output=False)
    assert b"No space left" in done.stderr


# the terminal


def on_a_terminal(arguments, **environment):
    """The output of the command on a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, *map(str, arguments)],
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": "", **environment},
    )
    os.close(theirs)
    written = b""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        written += piece
    os.close(ours)
    assert process.wait(30) == 0
    return written


def with_standard_error(kind, program, *arguments, stdout=subprocess.DEVNULL):
    """Runs a program whose standard error cannot be written. Returns its exit status."""
    options = {"stdout": stdout, "stdin": subprocess.DEVNULL, "timeout": 60}
    if kind == "closed":
        return subprocess.run(["sh", "-c", 'exec "$0" "$@" 2>&-', program, *map(str, arguments)], **options).returncode
    if kind == "full":
        with open("/dev/full", "wb") as full:
            return subprocess.run([program, *map(str, arguments)], stderr=full, **options).returncode
    readable, writable = os.pipe()
    os.close(readable)
    try:
        return subprocess.run([program, *map(str, arguments)], stderr=writable, **options).returncode
    finally:
        os.close(writable)


MESSAGES = [["analyze", "missing"], ["capture", "missing"], ["check", "missing"], ["dissect", "missing"],
            ["extract", "missing", "x.pcap"], ["replay", "missing", "-w", "null"],
            ["replay", RPING, "--pps", 2000, "--stats", 0.05, "-w", "null"], ["certify", "--device", "missing"],
            ["--missing"]]


@pytest.mark.parametrize("kind", ["closed", "full", "pipe"])
@pytest.mark.parametrize("arguments", MESSAGES, ids=lambda words: words[0])
def test_unwritable_standard_error_keeps_the_exit_status(kind, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    readable = subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, timeout=60)
    assert readable.stderr and readable.returncode in (0, 2, 3)
    assert with_standard_error(kind, COMMAND, *arguments) == readable.returncode


@pytest.mark.parametrize("kind", ["closed", "full", "pipe"])
def test_agent_runs_with_unwritable_standard_error(kind):
    agent = COMMAND.parent / "rdmawire-agent"
    if not agent.exists():
        pytest.skip(f"{agent} is not built")
    assert with_standard_error(kind, agent, "--listen", "nonsense") == 3


def test_messages_never_reach_a_file_if_standard_error_is_closed(tmp_path):
    out = tmp_path / "out.pcap"
    assert with_standard_error("closed", COMMAND, "replay", RPING, "-t", "-w", f"file:{out}") == 0
    assert len(lines("dissect", out)) == 379


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["replay", "--help"]])
def test_help_to_a_full_disk_is_an_error(arguments):
    with open("/dev/full", "wb") as full:
        done = run(*arguments, status=3, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert b"standard output: No space left on device" in done.stderr


def test_colors_require_a_terminal():
    one = ["dissect", LOSS, "--frame", NAK]
    assert b"\033" in on_a_terminal(one)
    assert b"\033" not in on_a_terminal(one, NO_COLOR="1")
    assert b"\033" not in on_a_terminal(one, TERM="dumb")
    assert b"\033" not in on_a_terminal([*one, "--color", "never"])
    assert b"\033" not in run(*one).stdout
    assert b"\033" in run(*one, "--color", "always").stdout
    assert b"\033" in run("explain", "bth", "--color", "always").stdout
    assert b"\033" not in run("explain", "bth").stdout


# explain


def test_explain_in_text_and_json():
    assert "remote access error" in run("explain", "nak", "2").stdout.decode()
    (packet,) = objects("explain", "rnr", "14")
    assert packet["parts"]["syndrome.wait"] == 1280000
    assert "Base Transport Header" in run("explain").stdout.decode()
    assert "bth" in [header["id"] for header in json.loads(run("explain", "--json").stdout)["headers"]]


def test_generated_pages_are_current():
    assert run("explain", "--reference").stdout.decode() == (ROOT / "docs" / "reference" / "headers.md").read_text()
    assert run("explain", "--rules").stdout.decode() == (ROOT / "docs" / "reference" / "rules.md").read_text()


def test_explain_rules():
    said = run("explain", "rsp-009").stdout.decode()
    assert said.startswith("rc.responder.psn.sequence-error  RSP-009  shall\n") and "clause number not verified" in said
    assert run("explain", "rc.responder.psn.sequence-error").stdout.decode() == said
    assert len(objects("explain", "rules")) >= 244
    some = [rule["alias"] for rule in objects("explain", "*.PSN.*")]
    assert "UC-013" in some and "RSP-001" not in some
    assert objects("explain", "rc.responder.psn") == objects("explain", "rc.responder.psn.*")
    assert "RSP-013" in [rule["alias"] for rule in objects("explain", "C9-105")]
    # Names of headers and values take precedence over rules.
    assert [topic["kind"] for topic in objects("explain", "bth")] == ["header"]
    assert b"unknown name" in run("explain", "rules", "no.such.*", status=2).stderr


@pytest.mark.skipif(not shutil.which("jq"), reason="needs jq")
def test_jq_parses_json_lines():
    written = run("dissect", RPING, "--json").stdout
    done = subprocess.run(["jq", "-c", ".frame"], input=written, capture_output=True, timeout=60)
    assert done.returncode == 0 and len(done.stdout.split()) == len(written.splitlines())


# Options whose values are numbers, by the placeholder in the help text.
NUMBERS = "N|PORT|SIZE|RATE|TIME|SECONDS|BITS|BYTES"
HOSTILE = ["", "x", "-5", "K", "nan", "inf", "1e400", "99999999999999999999", "1e300", "-0", "0x", "9" * 400]


@pytest.mark.parametrize("command", ["analyze", "capture", "dissect", "replay"])
def test_hostile_numbers_are_usage_errors(command, tmp_path):
    options = re.findall(rf"(--[a-z-]+)[ =](?:{NUMBERS})\b", run(command, "--help").stdout.decode())
    assert options
    missing = tmp_path / "missing.pcap"
    for option in sorted(set(options)):
        for value in HOSTILE:
            done = subprocess.run([COMMAND, command, missing, f"{option}={value}"], timeout=60, capture_output=True)
            assert done.returncode in (2, 3), (option, value, done)
            assert done.stderr.startswith(b"rdmawire: "), (option, value, done)
