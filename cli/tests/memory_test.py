"""Memory limits are kept, and the results do not depend on the number of threads. A limit that is too low is an error."""

import importlib.util
import json
import os
import resource
import subprocess
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(os.environ.get("RDMAWIRE", ROOT / "build" / "dev" / "bin" / "rdmawire"))

pytestmark = pytest.mark.skipif(not COMMAND.exists(), reason=f"needs the command: {COMMAND} is not built")

SCHEMAS = {name: json.loads((ROOT / "docs" / "reference" / "schemas" / f"{name}.schema.json").read_text())
           for name in ("analyze", "check")}
MEBI = 1 << 20

# Enough frames to exceed the limits that --memory 64M implies.
FLOODS = {
    "queue-pairs": 100_000,  # connections of one packet
    "pairs": 90_000,  # the same, and directions between addresses
    "twice": 30_000,
    "datagrams": 100_000,
    "unreliable": 100_000,
    "damaged": 9_000,  # connections with findings
    "retransmitted": 48_000,  # connections with state
    "regions": 6_000,
    "incast": 15_000,  # receivers
    "sockets": 6_000,  # iWARP connections
    "requests": 4_000,  # CM exchanges
    "multipath": 40_000,  # MRC connections
    "mixture": 30_000,
}


def load_floods():
    spec = importlib.util.spec_from_file_location("flood", ROOT / "tests" / "memory" / "flood.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


flood = load_floods()


@pytest.fixture(scope="module")
def captures(tmp_path_factory):
    where, made = tmp_path_factory.mktemp("floods"), {}

    def get(kind, frames):
        if (kind, frames) not in made:
            made[kind, frames] = flood.write(where / f"{kind}-{frames}.pcap", kind, frames)
        return made[kind, frames]

    return get


def run(*arguments, address_space=None):
    """Run the command. Return status, output and errors."""

    def limit():
        if address_space:
            resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))

    with subprocess.Popen([COMMAND, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          preexec_fn=limit) as process:
        output, errors = process.communicate(timeout=300)
        return process.returncode, output, errors.decode()


def peak(*arguments):
    """The peak of the resident memory in bytes."""
    process = subprocess.Popen([COMMAND, *map(str, arguments)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (0, 1)
    return usage.ru_maxrss * 1024


@pytest.mark.parametrize("command", ["analyze", "check"])
@pytest.mark.parametrize("kind", FLOODS)
def test_threads_give_the_same_report_beyond_limits(captures, kind, command):
    capture = captures(kind, FLOODS[kind])
    results = [run(command, "--json", "--memory", "64M", "--threads", threads, capture) for threads in (1, 2, 7)]
    status, output, errors = results[0]
    assert errors == ""
    report = json.loads(output)
    jsonschema.Draft202012Validator(SCHEMAS[command]).validate(report)
    assert report["input"]["memory"] == 64 * MEBI
    if command == "analyze":
        assert report["input"]["exact"] is False
        assert report["summary"]["packets"] == FLOODS[kind]
    assert results[1] == results[0]
    assert results[2] == results[0]


@pytest.mark.parametrize("command", ["analyze", "check"])
@pytest.mark.parametrize("kind", ["queue-pairs", "retransmitted", "damaged", "sockets", "requests", "multipath", "mixture"])
def test_peak_is_within_the_limit(captures, kind, command):
    capture = captures(kind, 3 * FLOODS[kind])
    small = captures("regions", 10)
    program = peak(command, "--json", "--threads", 1, small)  # a debug build is larger
    most = peak(command, "--json", "--memory", "64M", "--threads", 1, capture)
    assert most <= 64 * MEBI + max(program - 16 * MEBI, 0)


@pytest.mark.parametrize("command", ["analyze", "check"])
def test_connection_of_one_packet_needs_400_bytes(captures, command):
    frames = 200_000
    most = peak(command, "--threads", 1, "--rows", 1, captures("queue-pairs", frames))
    few = peak(command, "--threads", 1, "--rows", 1, captures("queue-pairs", 20_000))
    per_connection = (most - few) / (frames - 20_000)
    print(f"{command}: {per_connection:.0f} bytes per connection")
    assert per_connection <= 400


@pytest.mark.parametrize("command", ["analyze", "check"])
def test_refused_memory_gives_a_report_and_status_3(captures, command):
    """The system refuses memory at several points, also while the report is written."""
    capture, statuses = captures("queue-pairs", 60_000), set()
    for address_space in range(100, 260, 20):
        status, output, errors = run(command, "--json", capture, address_space=address_space * MEBI)
        if status == 127:  # The shared libraries do not fit into this address space.
            continue
        statuses.add(status)
        assert status in (0, 3), (address_space, status, errors)
        if status == 3:
            assert "out of memory" in errors, (address_space, errors)
        if output:
            json.loads(output)
    assert 3 in statuses


@pytest.mark.parametrize("command", ["analyze", "check"])
@pytest.mark.parametrize("size", ["", "0", "1", "63M", "-1G", "1X", "1G1", "G", "nan", "1e12", "65T", "9" * 40, "1 G", "1G\n"])
def test_invalid_sizes_are_usage_errors(captures, command, size):
    status, output, errors = run(command, "--memory", size, captures("regions", 10))
    assert (status, output) == (2, b"")
    assert "--memory" in errors


def test_text_states_eviction_and_limit(captures):
    capture = captures("queue-pairs", 100_000)
    text = run("analyze", "--memory", "64M", capture)[1].decode()
    assert "limit of 64 MiB, set with --memory" in " ".join(text.split())
    assert "connections evicted" in text
    text = run("check", "--memory", "64M", capture)[1].decode()
    assert "limit of 64 MiB, set with --memory" in " ".join(text.split())
    assert "inexact" not in run("analyze", captures("regions", 10))[1].decode()


def test_json_states_the_limit(captures):
    report = json.loads(run("analyze", "--json", "--memory", "512MiB", captures("regions", 10))[1])
    assert report["input"]["memory"] == 512 * MEBI
