"""Text from files, file names and devices cannot control the terminal. Outputs are never the input and never partial."""

import json
import os
import resource
import signal
import socket
import struct
import subprocess
import threading
import time
import unicodedata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "captures" / "samples"
COMMAND = Path(os.environ.get("RDMAWIRE", ROOT / "build" / "dev" / "bin" / "rdmawire"))

pytestmark = pytest.mark.skipif(not COMMAND.exists(), reason=f"needs the command: {COMMAND} is not built")

RPING = SAMPLES / "rping.pcap"
#: Every control character, bidirectional and invisible marks, and invalid UTF-8.
CONTROL = bytes(range(1, 32)) + b"\x7f" + "".join(map(chr, range(0x80, 0xA0))).encode()
BIDI = "\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2028\u2066\u2067\u2068\u2069\ufeff".encode()
INVALID = b"\xff\xfe\xc0\xaf\xed\xa0\x80\xf5"
HOSTILE = CONTROL + BIDI + INVALID
LONG = b"L" * 10_000


def run(*arguments, status=None, **options):
    options.setdefault("capture_output", True)
    done = subprocess.run([COMMAND, *arguments], timeout=60, **options)
    assert status is None or done.returncode == status, done
    return done


def is_harmless(output, colors=False, json_text=False):
    """Assert that terminal output is UTF-8 and contains no control characters except line ends, tabs and colors.

    Lines are short, except those of JSON, which contains complete texts.
    """
    text = output.decode("utf-8")  # raises for invalid UTF-8
    for number, line in enumerate(text.split("\n"), 1):
        if colors:
            for style in ("0", "1", "2", "31", "32", "33", "34", "35", "36", "1;31", "2;32"):
                line = line.replace(f"\x1b[{style}m", "")
        bad = [c for c in line if c != "\t" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")]
        assert not bad, f"line {number}: {bad} in {line[:200]!r}"
        assert json_text or len(line) < 6000, f"line {number} has {len(line)} characters"


def block(kind, body):
    body += bytes(-len(body) % 4)
    length = len(body) + 12
    return struct.pack("<II", kind, length) + body + struct.pack("<I", length)


def option(code, value):
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


def hostile_capture():
    """A pcapng file with hostile text in all texts, an interface that lost packets, and a truncated end."""
    packets = []
    data, at = RPING.read_bytes(), 24
    while at < len(data) and len(packets) < 40:
        size = struct.unpack_from("<I", data, at + 8)[0]
        packets.append(data[at + 16 : at + 16 + size])
        at += 16 + size
    text = HOSTILE + LONG
    options = b"".join(option(code, text) for code in (1, 2, 3, 4))
    file = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + options)
    file += block(1, struct.pack("<HHI", 1, 0, 0) + b"".join(option(c, text) for c in (1, 2, 3, 12, 15)))
    for number, packet in enumerate(packets):
        padded = packet + bytes(-len(packet) % 4)
        file += block(6, struct.pack("<IIIII", 0, 0, 1000 + number, len(packet), len(packet)) + padded + option(1, text))
    file += block(5, struct.pack("<III", 0, 0, 2000) + option(1, text) + option(5, struct.pack("<Q", 7)))
    return file + block(6, bytes(40))[:30]


@pytest.fixture(scope="module", params=["name", "content"])
def hostile(request, tmp_path_factory):
    """A capture with a hostile name, or with hostile contents."""
    directory = tmp_path_factory.mktemp("hostile")
    if request.param == "content":
        path = os.fsencode(directory / "x.pcapng")
    else:
        path = os.fsencode(directory) + b"/" + HOSTILE.replace(b"/", b"") + b".pcapng"
    Path(os.fsdecode(path)).write_bytes(hostile_capture() if request.param == "content" else RPING.read_bytes())
    return path


COMMANDS = [
    ["dissect"], ["dissect", "-V"], ["dissect", "-x", "--limit", "3"], ["dissect", "--json"], ["dissect", "--count"],
    ["dissect", "--count", "--json"], ["dissect", "-V", "--color", "always"], ["dissect", "--filter", "\x1b[2J"],
    ["analyze"], ["analyze", "--json"], ["analyze", "--color", "always"], ["analyze", "--connection", "99999"],
    ["check"], ["check", "--json"], ["check", "--list-exercised"], ["check", "--quiet"],
    ["extract", "--frame", "1", "-o", "/dev/null"], ["extract", "--frame", "99999", "-o", "/dev/null"],
    ["replay", "--dry-run"], ["replay", "--wire", "null"], ["replay", "--wire", "null", "--json"],
    ["replay", "--wire", "file:/no/\x1b[2J"], ["analyze", "--html", "/no/\x1b[2J"], ["analyze", "--csv", "/proc/\x1b[2J"],
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_output_cannot_control_the_terminal(hostile, command):
    done = run(*command, hostile)
    colors = "always" in command
    is_harmless(done.stdout, colors, "--json" in command)
    is_harmless(done.stderr, colors)
    assert done.stdout or done.stderr or command[0] == "extract"


def test_several_files_have_printable_names(hostile):
    for command in (["dissect"], ["analyze"], ["analyze", "--capture-points"], ["check"]):
        done = run(*command, hostile, RPING)
        is_harmless(done.stdout), is_harmless(done.stderr)


def test_missing_and_malformed_files_have_printable_names(tmp_path):
    missing = os.fsencode(tmp_path) + b"/missing" + HOSTILE.replace(b"/", b"")
    malformed = os.fsencode(tmp_path) + b"/malformed" + HOSTILE.replace(b"/", b"")
    Path(os.fsdecode(malformed)).write_bytes(b"\x1b[2J not a capture")
    for command in (["dissect"], ["analyze"], ["check"], ["extract", "--frame", "1", "-o", "/dev/null"], ["replay"]):
        for path in (missing, malformed):
            done = run(*command, *(["--wire", "null"] if command == ["replay"] else []), path)
            assert done.returncode in (2, 3) and done.stderr
            is_harmless(done.stdout), is_harmless(done.stderr)


def test_invalid_arguments_are_printable():
    hostile = HOSTILE.replace(b"\0", b"")
    for arguments in ([hostile], [b"--" + hostile], [b"dissect", b"--time", hostile], [b"dissect", b"--frame", hostile, RPING],
                      [b"explain", hostile], [b"check", b"--rule", hostile, RPING], [b"dissect", LONG],
                      [b"replay", b"--wire", hostile, RPING], [b"certify", b"--device", hostile],
                      [b"analyze", b"--from", hostile, RPING], [b"certify", b"--fault", hostile]):  # fmt: skip
        done = run(*arguments)
        assert done.returncode in (2, 3), arguments
        is_harmless(done.stderr)


def test_json_keeps_the_text(hostile):
    done = run("dissect", "--json", hostile)
    comments = [json.loads(line).get("comments") for line in done.stdout.splitlines()]
    if b"x.pcapng" == hostile[-8:]:
        assert all("\x1b" in comment and "\u202e" in comment for one in comments for comment in one)
    assert json.loads(run("analyze", "--json", hostile).stdout)["input"]["files"][0]["name"]


class HostileAgent(threading.Thread):
    """Answers every request with a hostile error message."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rwb") as stream:
                for line in stream:
                    if line == b"\n":
                        continue
                    try:
                        number = json.loads(line)["id"]
                    except ValueError:
                        break
                    text = HOSTILE.decode("latin-1") + LONG.decode()
                    answer = {"id": number, "error": {"errno": 1, "name": text, "message": text}}
                    try:
                        stream.write(json.dumps(answer).encode() + b"\n")
                        stream.flush()
                    except OSError:
                        break


def test_messages_of_an_agent_are_printable(tmp_path):
    agent = HostileAgent(tmp_path / "agent")
    agent.start()
    for more in (["--preflight"], ["--only", "RSP-009"]):
        device = f"agent:unix:{tmp_path / 'agent'}"
        done = run("certify", "--device", device, "--wire", "null", *more)
        assert done.returncode in (1, 2, 3), done
        is_harmless(done.stdout), is_harmless(done.stderr)
        assert b"\\u" in done.stdout + done.stderr, done
    agent.listener.close()


# outputs


@pytest.fixture
def names(tmp_path):
    """A capture and other names of it."""
    path = tmp_path / "x.pcap"
    path.write_bytes(RPING.read_bytes())
    os.link(path, tmp_path / "hard.pcap")
    (tmp_path / "soft.pcap").symlink_to(path)
    yield [path, tmp_path / "hard.pcap", tmp_path / "soft.pcap", f"{tmp_path}/./x.pcap"]
    assert path.read_bytes() == RPING.read_bytes()


def test_output_is_not_the_input(names):
    for name in names:
        for command in (["analyze", names[0], "--html", name], ["extract", names[0], "--frame", "1", "-o", name]):
            done = run(*command, status=2)
            assert b"is the input file" in done.stderr and done.stderr.count(b"\n") == 2, done


def test_csv_table_is_not_the_input(tmp_path):
    capture = tmp_path / "events.csv"
    capture.write_bytes(RPING.read_bytes())
    done = run("analyze", capture, "--csv", tmp_path, status=2)
    assert b"is the input file" in done.stderr and capture.read_bytes() == RPING.read_bytes()


def limit_file_size():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


@pytest.mark.parametrize("output", ["--html", "--csv", "-o"])
def test_full_disk_leaves_the_old_output(tmp_path, output):
    target = tmp_path / ("tables" if output == "--csv" else "x.out")
    command = ["extract", RPING, "--frame", "1-", "-o", target] if output == "-o" else ["analyze", RPING, output, target]
    run(*command, status=0)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    done = run(*command, status=3, preexec_fn=limit_file_size)
    assert b"File too large" in done.stderr and done.stderr.count(b"\n") == 1, done
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("output", ["--html", "-o"])
def test_full_device_is_reported_in_one_line(output):
    command = ["extract", RPING, "--frame", "1-"] if output == "-o" else ["analyze", RPING]
    command += [output, "/dev/full"]
    done = run(*command, status=3)
    assert b"No space left on device" in done.stderr and done.stderr.count(b"\n") == 1, done


@pytest.mark.parametrize("output", ["--html", "-o"])
def test_interrupted_output_is_absent(tmp_path, output):
    large = tmp_path / "large.pcap"
    with large.open("wb") as file:
        file.write(RPING.read_bytes()[:24])
        file.write(RPING.read_bytes()[24:] * 2000)
    target = tmp_path / "x.out"
    command = ["extract", large, "--frame", "1-", "-o", target] if output == "-o" else ["analyze", large, output, target]
    for delay in (0.05, 0.3):
        child = subprocess.Popen([COMMAND, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(delay)
        child.send_signal(signal.SIGINT)
        child.wait(60)
        if child.returncode != 0:
            assert sorted(path.name for path in tmp_path.iterdir()) == ["large.pcap"]
        target.unlink(missing_ok=True)


def test_ctrl_c_ends_every_command_on_a_silent_pipe(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    fifo = str(tmp_path / "fifo")
    extract = ["extract", "--frame", "1", "-o", "/dev/null"]
    for command in (["dissect"], ["analyze"], ["check"], ["analyze", "--follow"], extract):
        child = subprocess.Popen([COMMAND, *command, fifo], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.5)
        begin = time.monotonic()
        child.send_signal(signal.SIGINT)
        child.wait(60)
        assert time.monotonic() - begin < 5, command  # an idle host needs less than 1 s


def test_ten_thousand_files(tmp_path):
    (tmp_path / "first").write_bytes(RPING.read_bytes()[:200])
    files = [tmp_path / "first"]
    for number in range(9_999):
        os.link(files[0], tmp_path / f"{number:04}")
        files.append(tmp_path / f"{number:04}")
    few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))  # noqa: E731
    done = run("analyze", "--json", "--threads", "1", *files, preexec_fn=few)
    assert len(json.loads(done.stdout)["input"]["files"]) == 10_000


def test_file_that_shrinks_while_it_is_read_is_reported(tmp_path):
    path = tmp_path / "x.pcap"
    data = RPING.read_bytes()
    with path.open("wb") as file:
        file.write(data[:24])
        file.write(data[24:] * 3000)
    child = subprocess.Popen([COMMAND, "dissect", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    child.stdout.read(100_000)
    os.truncate(path, 200_000)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 3 and b"was truncated" in err and err.count(b"\n") == 1, err
