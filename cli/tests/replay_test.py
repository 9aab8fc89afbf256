"""rdmawire replay to files and to the null wire. The player's tests cover other wires."""

import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import zlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "captures" / "samples"
COMMAND = Path(os.environ.get("RDMAWIRE", ROOT / "build" / "dev" / "bin" / "rdmawire"))
RPING = SAMPLES / "rping.pcap"

pytestmark = pytest.mark.skipif(not COMMAND.exists(), reason=f"needs the command: {COMMAND} is not built")


def run(*arguments, status=0, **options):
    done = subprocess.run([COMMAND, *map(str, arguments)], timeout=60, capture_output=True, text=True, **options)
    assert done.returncode == status, done.stderr
    return done


def replay(*arguments, **options):
    return run("replay", *arguments, **options)


def packets(path):
    return [json.loads(line) for line in run("dissect", path, "--json").stdout.splitlines()]


def fields(packet, protocol):
    return next((layer["fields"] for layer in packet["layers"] if layer["protocol"] == protocol), None)


def test_replay_to_file_preserves_packets(tmp_path):
    done = replay(RPING, "--wire", f"file:{tmp_path}/out.pcap")
    assert done.stdout.startswith("sent 379 frames, ")
    assert done.stderr.startswith(f"rdmawire: sending to file:{tmp_path}/out.pcap (a file)")
    before, after = packets(RPING), packets(tmp_path / "out.pcap")
    assert [(p["time"], p["layers"]) for p in before] == [(p["time"], p["layers"]) for p in after]


def test_mapping_file_is_written_completed_and_used(tmp_path):
    mapping, out = tmp_path / "map.json", tmp_path / "out.pcapng"
    assert "1 connection; complete the live values" in replay(RPING, "--write-map", mapping).stderr
    text = mapping.read_text()
    for captured, live in ((8415281, 77), ('"10.0.0.2"', '"192.168.1.2"'), ('"0x4bc"', '"0x999"')):
        assert f'{{"captured": {captured}, "live": null}}' in text
        text = text.replace(f'{{"captured": {captured}, "live": null}}', f'{{"captured": {captured}, "live": {live}}}')
    mapping.write_text(text)
    done = replay(RPING, "--map", mapping, "--others", "keep", "--wire", f"file:{out}", "--json")
    report = json.loads(done.stdout)
    assert report["sent"]["frames"] == 379
    assert report["connections"][0]["name"] == "connection 1"
    first = next(p for p in packets(out) if p["frame"] == 18)
    assert fields(first, "bth")["psn"] == 77
    assert fields(first, "ip")["dst"] == "192.168.1.2"
    assert first["icrc"]["status"] == "good"
    assert {p["icrc"]["status"] for p in packets(out) if "icrc" in p} == {"good"}
    assert 0x999 in {fields(p, "reth")["rkey"] for p in packets(out) if fields(p, "reth")}


def test_report_matches_schema(tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "docs" / "reference" / "schemas" / "replay.schema.json").read_text())
    for more in ([], ["--topspeed"], ["--fault", "drop every 7"], ["--exclude", "arp"], ["--limit", "5"]):
        for wire in ("null", f"file:{tmp_path}/x.pcapng"):
            report = json.loads(replay(RPING, "--wire", wire, "--speed" if "--topspeed" not in more else "--loops",
                                       "1000" if "--topspeed" not in more else "2", "--json", *more).stdout)
            jsonschema.validate(report, schema)


def test_dry_run_shows_each_rewrite():
    done = replay(RPING, "-m", "qp:10.0.0.2/0x11=0x777", "-m", "psn:10.0.0.3=77", "--dry-run")
    blocks = dict(block.split("\n", 1) for block in done.stdout.split("frame ")[1:])
    assert "  bth.dest_qp 0x11 → 0x777\n  bth.psn 8415281 → 77\n" in blocks["18"]
    assert "no mapping for a.address" in done.stderr
    assert "379 frames read" in done.stderr


@pytest.mark.parametrize(
    "arguments, status, complaint",
    [
        ([RPING], 2, "--wire"),
        ([], 2, "missing argument FILE"),
        (["/no/such.pcap", "--wire", "null"], 3, "/no/such.pcap"),
        ([RPING, "--wire", "nul"], 2, "nul"),
        ([RPING, "--wire", "null", "-m", "qp:0x99=1"], 2, "the capture contains no such endpoint of a connection"),
        ([RPING, "--wire", "null", "-m", "/no/such.json"], 3, "/no/such.json: cannot read the file: No such file"),
        ([RPING, "--wire", "null", "--faults", "/no/such"], 3, "cannot read /no/such: No such file or directory"),
        ([RPING, "--write-map", "/no/such/map"], 3, "cannot write /no/such/map: No such file or directory"),
        ([RPING, "--wire", "null", "--fault", "dorp"], 2, "did you mean drop?"),
        ([RPING, "--wire", "null", "--include", "bth.opcod == 4"], 2, "--include"),
        ([RPING, "--wire", "null", "--pps", "5", "--topspeed"], 2, "--pps cannot be used with --topspeed"),
        ([RPING, "--wire", "null", "--bps", "5X"], 2, 'expected a rate such as 1000, 100k, 10M or 2.5G, got "5X"'),
        ([RPING, "--wire", "null", "--pps", "0"], 2, "expected a rate above 0"),
        ([RPING, "--wire", "null", "--bps", "0"], 2, "expected a rate above 0"),
        ([RPING, "--wire", "null", "--speed", "0"], 2, "expected a number greater than 0"),
        ([RPING, "--wire", "null", "--max-bytes", "0"], 2, "expected a size"),
        ([RPING, "--wire", "null", "--pause", "5"], 2, 'expected a duration such as 10ms, 1.5s or 200us, got "5"'),
        ([RPING, "--wire", "verbs:mlx5_7"], 2, "--allow-target mlx5_7"),
        ([RPING, "--wire", "null", "--wire", "null"], 2, "--split"),
        ([RPING, "--wire", "pakcet:eth0"], 2, "did you mean packet?"),
        ([RPING, "--wire", "null,lnk=5"], 2, "did you mean link?"),
        ([RPING, "--wire", "packet:eth0", "--split"], 2, "--split requires two wires, got 1"),
        (["/no/such.pcap", "--wire", "pakcet:eth0", "--split"], 2, "--split requires two wires, got 1"),
        ([RPING, "--wire", "file:/tmp/x", "--wire", "pakcet:x", "--split"], 2, 'unknown kind "pakcet"'),
        ([RPING, RPING, "--wire", "null", "--wire", "null", "--wire", "null"], 2, "2 captures and 3 wires"),
        ([RPING, "--wire", "null", "--fault", "corrupt bth.pns"], 2, "did you mean bth.psn"),
        ([RPING, "--wire", "null", "-K", "-l", "0", "--ip-step", "9"], 2, "--preload with --loops 0 cannot be used with"),
        ([RPING, "--wire", "null", "-K", "-l", "0", "--fault", "drop every 7"], 2, "--preload with --loops"),
        ([RPING, "--wire", "packet:no-such"], 3, "no-such"),
        ([RPING, "--wire", "packet:lo"], 2, "--allow-target lo"),
    ],
)
def test_invalid_arguments_are_reported(arguments, status, complaint):
    assert complaint in replay(*arguments, status=status).stderr


def test_mapping_of_other_capture_is_refused(tmp_path):
    mapping = tmp_path / "map.json"
    replay(SAMPLES / "rc-write-ipv6.pcap", "--write-map", mapping)
    done = replay(RPING, "--map", mapping, "--wire", f"file:{tmp_path}/x.pcap", status=3)
    assert "is not in" in done.stderr and "available: 10.0.0.3 QP 0x11 ↔ 10.0.0.2 QP 0x11" in done.stderr
    assert not (tmp_path / "x.pcap").exists()


def test_mapping_error_contains_position(tmp_path):
    mapping = tmp_path / "map.json"
    mapping.write_text('{"rdmawire": "flow map 1", "connections": [{"a": {}}]}')
    assert f"{mapping}: /connections/0/a/address: missing captured address" in replay(
        RPING, "--map", mapping, "--wire", "null", status=3).stderr


def test_unmapped_connection_is_refused_before_sending(tmp_path):
    mapping, out = tmp_path / "map.json", tmp_path / "x.pcapng"
    replay(SAMPLES / "srq-pingpong.pcap.gz", "--write-map", mapping)
    content = json.loads(mapping.read_text())
    content["connections"] = content["connections"][:1]
    mapping.write_text(json.dumps(content))
    arguments = [SAMPLES / "srq-pingpong.pcap.gz", "--map", mapping, "--wire", f"file:{out}"]
    assert "has no mapping; use --unmapped keep or --unmapped drop" in replay(*arguments, status=3).stderr
    assert not out.exists()
    assert "not sent" in replay(*arguments, "--unmapped", "drop").stdout


def test_faults_use_and_report_seed(tmp_path):
    rules = tmp_path / "faults"
    rules.write_text("drop probability 10%  # some\n")
    reports = [json.loads(replay(RPING, "--wire", "null", "--topspeed", "--faults", rules, "--seed", 5, "--json").stdout)
               for _ in range(2)]
    assert reports[0]["sent"] == reports[1]["sent"] and reports[0]["seed"] == 5
    assert 0 < reports[0]["faults"][0]["applied"] < 379
    assert json.loads(replay(RPING, "--wire", "null", "--topspeed", "--faults", rules, "--json").stdout)["seed"] is not None


def test_unused_fault_rule_is_reported_with_its_reason():
    done = replay(RPING, "--wire", "null", "--topspeed", "--fault", "drop connection 2 psn +5", status=1)
    message = "no frame matches: the closest ones do not match connection (they belong to connection 1)"
    assert f'fault "drop connection 2 psn +5" was never applied: {message}' in done.stderr
    assert f"drop connection 2 psn +5: 0 done, never applied: {message}" in done.stdout
    report = json.loads(replay(RPING, "--wire", "null", "--topspeed", "--json", "--fault", "truncate 9000",
                               status=1).stdout)
    assert report["faults"][0]["failed"] == 379 and report["faults"][0]["reason"].startswith("not truncated: ")
    # A rule with a probability may have no effect.
    replay(RPING, "--wire", "null", "--topspeed", "--fault", "drop probability 0")


def test_split_sends_each_side_to_one_wire(tmp_path):
    replay(RPING, "--split", "--wire", f"file:{tmp_path}/client.pcapng", "--wire", f"file:{tmp_path}/server.pcapng")
    for name, address in (("client", "10.0.0.3"), ("server", "10.0.0.2")):
        sides = {fields(p, "ip")["src"] for p in packets(tmp_path / f"{name}.pcapng") if fields(p, "ip")}
        assert sides == {address}


def test_split_by_filter_sends_matching_frames_to_first_wire(tmp_path):
    first, second = tmp_path / "first.pcapng", tmp_path / "second.pcapng"
    replay(RPING, "--split-by", "ip.src == 10.0.0.2/32 or arp", "--wire", f"file:{first}", "--wire", f"file:{second}")
    assert {fields(p, "ip")["src"] for p in packets(first) if fields(p, "ip")} == {"10.0.0.2"}
    assert any(fields(p, "arp") for p in packets(first)) and not any(fields(p, "arp") for p in packets(second))
    assert len(packets(first)) + len(packets(second)) == 379


def test_directory_is_replayed_in_timestamp_order(tmp_path):
    for name in ("b.pcap", "a.pcap"):
        shutil.copy(RPING, tmp_path / name)
    (tmp_path / "notes.txt").write_text("no capture")
    report = json.loads(replay(tmp_path, "--wire", "null", "--topspeed", "--json").stdout)
    assert report["sent"]["frames"] == 2 * 379
    (tmp_path / "empty").mkdir()
    assert "contains no capture" in replay(tmp_path / "empty", "--wire", "null", status=3).stderr


def test_pipe_is_read_once():
    command = f"exec {COMMAND} replay <(cat {RPING}) --wire null --topspeed --json"
    done = subprocess.run(["bash", "-c", command], timeout=60, capture_output=True, text=True)
    assert json.loads(done.stdout)["sent"]["frames"] == 379, done.stderr


def test_statistics_are_json_lines_if_standard_error_is_piped():
    done = replay(RPING, "--wire", "null", "--pps", "1000", "--stats", "0.1")
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert len(lines) >= 2 and lines[0]["rdmawire"] == "replay progress 1"
    assert [line["sent"]["frames"] for line in lines] == sorted(line["sent"]["frames"] for line in lines)
    assert 0 < lines[-1]["sent"]["frames"] <= 379 and lines[-1]["size"] > 0


def test_fault_without_connections_replays_a_capture_with_a_damaged_end(tmp_path):
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(RPING.read_bytes()[:20_000])
    whole = json.loads(replay(cut, "--wire", "null", "-t", "--json", status=3).stdout)
    report = json.loads(replay(cut, "--wire", "null", "-t", "--json", "--fault", "drop nth 3", status=3).stdout)
    assert report["sent"]["frames"] == whole["sent"]["frames"] - 1 > 40


def test_pid_file_exists_while_frames_are_sent(tmp_path):
    pid = tmp_path / "pid"
    process = subprocess.Popen([COMMAND, "replay", RPING, "--wire", "null", "--pps", "200", "--loops", "0",
                                "--pid-file", pid], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(500):
        if pid.exists() and pid.read_text():
            break
        time.sleep(0.01)
    assert int(pid.read_text()) == process.pid
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 0 and not pid.exists()
    assert "cannot write" in replay(RPING, "--wire", "null", "--pid-file", "/no/such/pid", status=3).stderr


def test_ip_step_can_be_applied_to_every_second_loop(tmp_path):
    out = tmp_path / "out.pcapng"
    replay(RPING, "--loops", "4", "--ip-step", "256", "--ip-step-loops", "2", "--include", "bth", "--limit", "1480",
           "--wire", f"file:{out}")
    addresses = [fields(p, "ip")["src"] for p in packets(out)]
    assert {address.rsplit(".", 2)[1] for address in addresses} == {"0", "1"}


def test_cooked_capture_is_replayed_as_ethernet(tmp_path):
    cooked, out = tmp_path / "cooked.pcap", tmp_path / "out.pcap"
    data = RPING.read_bytes()
    with cooked.open("wb") as file:
        file.write(data[:20] + (113).to_bytes(4, "little"))
        at = 24
        while at < len(data):
            length = int.from_bytes(data[at + 8:at + 12], "little")
            frame = data[at + 16:at + 16 + length]
            header = b"\0\0\0\1\0\6" + frame[6:12] + b"\0\0" + frame[12:14]
            body = header + frame[14:]
            file.write(data[at:at + 8] + 2 * len(body).to_bytes(4, "little") + body)
            at += 16 + length
    report = json.loads(replay(cooked, "--wire", f"file:{out}", "--json").stdout)
    assert report["converted"] == report["sent"]["frames"] == 379
    assert [p["layers"][1:] for p in packets(out)] == [p["layers"][1:] for p in packets(RPING)]


def test_interrupted_replay_reports_sent_frames():
    process = subprocess.Popen([COMMAND, "replay", RPING, "--wire", "null", "--pps", "200", "--loops", "0", "--json"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # The wire is reported immediately before the first frame.
    assert "to null" in process.stderr.readline()
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    report = json.loads(out)
    assert process.returncode == 0
    assert report["interrupted"] and report["error"] is None
    assert report["sent"]["frames"] == report["wires"][0]["transmitted"]


def test_capture_larger_than_memory_is_replayed(tmp_path):
    large, limit = tmp_path / "large.pcap", 128 << 20
    body = RPING.read_bytes()
    with large.open("wb") as out:
        out.write(body[:24])
        while out.tell() < 2 * limit:
            out.write(body[24:] * 64)
    done = replay(large, "--wire", "null", "--topspeed", "--hop-limit", "9", "--json",
                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    report = json.loads(done.stdout)
    assert report["sent"]["frames"] % 379 == 0 and report["sent"]["bytes"] > 1.9 * limit


def test_max_gap_of_zero_removes_all_gaps(tmp_path):
    replay(RPING, "--max-gap", "0s", "--wire", f"file:{tmp_path}/out.pcap")
    assert len({p["time"] for p in packets(tmp_path / "out.pcap")}) == 1


FAKE_VERBS = COMMAND.parent.parent / "replay" / "wires" / "librdma_fake_verbs.so"
VETH = """set -e
ip link add near type veth peer name far
for i in near far; do sysctl -qw net.ipv6.conf.$i.disable_ipv6=1; ip link set $i up; done
until ip -o link show dev near | grep -q "state UP"; do :; done
"""


def in_namespace(script, **variables):
    """Runs a shell script with a veth pair near, far, which are also devices of the fake libibverbs if it is loaded."""
    return subprocess.run(["unshare", "-n", "sh", "-c", VETH + script], env=os.environ | variables, timeout=60,
                          capture_output=True, text=True)


def over_fake_verbs(*arguments, **variables):
    command = " ".join(map(str, [COMMAND, "replay", RPING, "--wire", "verbs:near,noreceive", *arguments]))
    return in_namespace(f"exec env LD_PRELOAD={FAKE_VERBS} {command}", FAKE_VERBS_DEVICES="near far", **variables)


needs_fake_verbs = pytest.mark.skipif(os.geteuid() != 0 or not FAKE_VERBS.exists(),
                                      reason="requires root and the fake libibverbs")


@needs_fake_verbs
def test_skipped_group_addresses_are_reported():
    done = over_fake_verbs("--topspeed", "--allow-target", "near")
    groups = [p for p in packets(RPING) if int(fields(p, "eth")["dst"][:2], 16) & 1]
    assert groups and done.returncode == 0, done.stderr
    assert (f"{len(groups)} frames to broadcast or multicast addresses were not sent, the first is frame "
            f"{groups[0]['frame']}; use --allow-multicast") in done.stderr
    assert f"sent {379 - len(groups)} frames" in done.stdout
    done = over_fake_verbs("--topspeed", "--allow-target", "near", "--allow-multicast")
    assert "sent 379 frames" in done.stdout and "multicast" not in done.stderr


# The first completion error is a local length error. All later work requests would be refused.
@needs_fake_verbs
def test_failed_completion_ends_the_replay_with_the_frame_of_the_capture():
    done = over_fake_verbs("--topspeed", "--allow-target", "near", "--allow-multicast", "--loops", "0", "--json",
                           "--exclude", "'frame.number < 11'", FAKE_VERBS_COMPLETION="5=1")
    report = json.loads(done.stdout)
    assert done.returncode == 3 and report["sent"]["frames"] == 4
    assert report["skipped"].keys() <= {"excluded"}
    assert "work request 5 of " in report["error"] and "local length error" in report["error"]
    assert report["error"].endswith(" (first unsent frame of the capture: 15)")


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setcap"), reason="requires root and setcap")
def test_ordinary_user_with_file_capability_sends_to_private_veth():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for file in (COMMAND, RPING):
            shutil.copy(file, folder)
        program = folder / COMMAND.name
        subprocess.run(["setcap", "cap_net_raw+ep", program], check=True)
        done = in_namespace(f"setpriv --reuid 65534 --regid 65534 --clear-groups {program} replay "
                            f"{folder}/{RPING.name} --wire packet:near")
    if "shared libraries" in done.stderr:
        pytest.skip("the command uses libraries that an ordinary user cannot read")
    assert done.returncode == 0, done.stderr
    assert "sending to packet:near (veth in a private network namespace)" in done.stderr
    assert done.stdout.startswith("sent 379 frames"), "also ARP broadcasts"


def test_one_at_a_time_waits_for_enter():
    done = replay(RPING, "--wire", "null", "--one-at-a-time", "--json", input="\n\nq\n")
    assert json.loads(done.stdout)["sent"]["frames"] == 2
    assert "frame 3: press Enter to send" in done.stderr


def test_help_has_examples_and_assignments():
    text = replay("--help").stdout
    assert "Examples:" in text and "Exit status" in text and "qp:0x11=0x777" in text


def outputs_of(path):
    return (["--wire", f"file:{path}", "--topspeed"], ["--write-map", path], ["--wire", "null", "--pid-file", path],
            ["--reactive", "--output", path])


@pytest.mark.parametrize("kind", range(4))
def test_output_that_is_an_input_is_refused(tmp_path, kind):
    capture = tmp_path / "in" / "capture.pcap"
    capture.parent.mkdir()
    shutil.copy(RPING, capture)
    (tmp_path / "symbolic").symlink_to(capture)
    (tmp_path / "hard").hardlink_to(capture)
    inputs = [capture, capture.parent] if kind < 3 else [capture]
    for source in inputs:
        for path in (capture, tmp_path / "symbolic", tmp_path / "hard"):
            done = replay(source, *outputs_of(path)[kind], status=2)
            assert "is the input file" in done.stderr
            assert capture.read_bytes() == RPING.read_bytes()


def test_output_keeps_its_contents_if_an_input_is_invalid(tmp_path):
    precious = tmp_path / "precious.pcap"
    precious.write_bytes(b"precious")
    replay(tmp_path / "missing.pcap", "--wire", f"file:{precious}", status=3)
    replay(precious, "--wire", f"file:{tmp_path}/new.pcap", status=3)
    assert not (tmp_path / "new.pcap").exists()
    replay(RPING, "--wire", f"file:{precious}", "--wire", "null", "--split", status=2)
    assert precious.read_bytes() == b"precious"


def test_two_outputs_to_one_file_are_refused(tmp_path):
    for second in ("same.pcap", "./same.pcap", "other/../same.pcap"):
        done = replay(RPING, "--wire", "file:same.pcap", "--wire", f"file:{second}", "--split", status=2, cwd=tmp_path)
        assert "write the same file" in done.stderr
    replay(RPING, "--wire", "file:/dev/null", "--wire", "file:/dev/null", "--split", "--topspeed")


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_capture_on_standard_output_contains_no_report(tmp_path, more):
    out = tmp_path / "out.pcapng"
    with out.open("wb") as file:
        done = subprocess.run([COMMAND, "replay", RPING, "--wire", "file:-", *more], timeout=60, stdout=file,
                              stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0
    assert [p["time"] for p in packets(out)] == [p["time"] for p in packets(RPING)]
    assert ('"frames":379' if more else "sent 379 frames") in done.stderr


def vlans(path):
    return [fields(p, "vlan")["id"] if fields(p, "vlan") else None for p in packets(path)]


def test_vlan_assignment_changes_all_frames_and_can_be_undone(tmp_path):
    tagged, plain = tmp_path / "tagged.pcap", tmp_path / "plain.pcap"
    replay(RPING, "-m", "vlan:none=100", "--wire", f"file:{tagged}")
    assert vlans(tagged) == [100] * 379
    assert any(fields(p, "arp") for p in packets(tagged))
    replay(tagged, "-m", "vlan:100=none", "--wire", f"file:{plain}")
    assert [p["layers"] for p in packets(plain)] == [p["layers"] for p in packets(RPING)]

    arp = tmp_path / "arp.pcap"
    replay(RPING, "--include", "arp", "--wire", f"file:{arp}")
    replay(arp, "-m", "vlan:*=9", "--wire", f"file:{plain}")
    assert set(vlans(plain)) == {9}
    for vlan in ("300=none", "100=4096"):
        assert f"vlan:{vlan}: " in replay(tagged, "-m", f"vlan:{vlan}", "--wire", "null", status=2).stderr


def test_assignments_without_a_match_are_errors():
    for unused in ("ip:99.0.0.1=1.0.0.1", "ip:99.0.0.0/8=1.0.0.0/8", "port:1=2", "mac:99.0.0.1=02:00:00:00:00:01"):
        done = replay(RPING, "-m", unused, "--dry-run", status=2)
        assert f"{unused}: matches no packet of the captures" in done.stderr
    for used in ("ip:10.0.0.2=1.0.0.1", "ip:10.0.0.0/8=1.0.0.0/8", "port:4000-5000=2"):
        assert "matches no packet" not in replay(RPING, "-m", used, "--dry-run").stderr


@pytest.mark.parametrize("mapping, count", [("ip:10.0.0.2=10.0.0.2", 0), ("qp:10.0.0.2/0x11=0x777", 180)])
def test_rewritten_frames_are_those_that_differ(mapping, count):
    done = replay(RPING, "-m", mapping, "--others", "keep", "--dry-run")
    shown = done.stdout.count("\nframe ") + 1 - done.stdout.count("  as captured\n")
    assert f", {shown} would be rewritten" in done.stderr
    assert shown >= count and (count or not shown)


PINGPONG = SAMPLES / "rc-pingpong.pcap.gz"  # its TCP text exchange precedes the RDMA connection


def log_of(*arguments, status=0):
    return json.loads(replay(*arguments, "-t", "-w", "null", "--json", status=status).stdout)


def test_connections_of_faults_have_the_numbers_of_the_report():
    report = log_of(PINGPONG, "--fault", "drop connection 1 psn +5 try 1 from a")
    assert report["faults"][0]["applied"] == 1
    assert [(c["number"], c["endpoints"]) for c in report["connections"]] == [
        (1, "10.0.0.3 QP 0x11 ↔ 10.0.0.2 QP 0x11")]
    hit, = report["fault_log"]
    frame = next(p for p in packets(PINGPONG) if p["frame"] == hit["frame"])
    assert fields(frame, "bth") and fields(frame, "ip")["src"] == "10.0.0.3"
    assert (hit["side"], hit["connection"], hit["effect"]) == ("a", 1, "dropped")
    assert hit["position"].startswith("request psn +5, try 1, ")
    # The first frame of connection 1 is an RDMA packet, not one of the text exchange.
    frame = log_of(PINGPONG, "--fault", "drop connection 1 first 1")["fault_log"][0]["frame"]
    assert fields(next(p for p in packets(PINGPONG) if p["frame"] == frame), "bth")
    reason = log_of(PINGPONG, "--fault", "drop connection 2", status=1)["faults"][0]["reason"]
    assert "they belong to connection 1" in reason
    text = replay(PINGPONG, "-t", "-w", "null", "--fault", "drop connection 1 first 1").stdout
    assert "connection 1  10.0.0.3 QP 0x11 ↔ 10.0.0.2 QP 0x11: " in text


def test_numbers_of_connections_do_not_depend_on_the_mapping_file(tmp_path):
    source, mapping = SAMPLES / "srq-pingpong.pcap.gz", tmp_path / "map.json"
    replay(source, "--write-map", mapping)
    content = json.loads(mapping.read_text())
    third = content["connections"][2]
    content["connections"] = [third]
    third["name"] = "the third"
    mapping.write_text(json.dumps(content))
    report = log_of(source, "-m", mapping, "--unmapped", "drop", "--fault", "drop connection 3 nth 1")
    assert [(c["name"], c["number"]) for c in report["connections"]] == [("the third", 3)]
    assert [hit["connection"] for hit in report["fault_log"]] == [3]
    keeps = log_of(source, "-m", mapping, "--unmapped", "keep", "--fault", "drop connection 1 nth 1")
    assert [hit["connection"] for hit in keeps["fault_log"]] == [1]


def test_connections_of_faults_require_a_capture_that_can_be_read_twice():
    for rule, status in (("drop connection 1", 2), ("drop from b", 2), ("drop every 100", 0)):
        done = subprocess.run(["bash", "-c", f"exec {COMMAND} replay <(cat {RPING}) -w null -t --fault '{rule}'"],
                              timeout=60, capture_output=True, text=True)
        assert done.returncode == status, done.stderr
        assert ("require a capture file instead of a pipe" in done.stderr) == bool(status)


def test_faults_are_listed_with_frames_in_text_json_and_comments(tmp_path):
    out = tmp_path / "out.pcapng"
    arguments = [RPING, "-w", f"file:{out}", "--fault", "drop nth 100", "--fault", "duplicate every 150"]
    text = replay(*arguments).stdout
    lines = [line for line in text.splitlines() if ": dropped by rule 1: " in line]
    assert len(lines) == 1 and lines[0].startswith("frame 100 from ") and lines[0].endswith(": drop nth 100")
    # The dropped frame does not reach the second rule.
    report = json.loads(replay(*arguments, "--json").stdout)
    assert [(hit["frame"], hit["rule"], hit["effect"]) for hit in report["fault_log"]] == [
        (100, 1, "dropped"), (151, 2, "sent 2 times"), (301, 2, "sent 2 times")]
    assert report["fault_log_omitted"] == 0
    comments = {}
    for file in (out,):
        data = file.read_bytes()
        comments = {number: data.count(f"frame {number}: sent 2 times by rule 2".encode()) for number in (151, 301)}
    assert comments == {151: 2, 301: 2}
    many = replay(RPING, "-w", "null", "-t", "--fault", "mark ce").stdout
    assert many.count(" by rule 1: mark ce") == 20 and "more effects of faults (--json lists all)" in many


def test_log_of_faults_ends_with_the_last_sent_frame():
    report = log_of(RPING, "--fault", "mark ce where ip.version == 4", "--limit", "20")
    assert len(report["fault_log"]) == report["faults"][0]["applied"]
    assert max(hit["frame"] for hit in report["fault_log"]) <= report["read"] <= 40


def test_dry_run_shows_faults():
    done = replay(RPING, "-n", "--fault", "drop every 100", "--fault", "corrupt payload random bits 1 nth 5", "--seed", 3)
    assert "frame 100  dropped by rule 1: drop every 100\n" in done.stdout
    assert done.stdout.count(" by rule 1: ") == 3 and done.stdout.count(" random bits of the payload flipped by rule 2") == 1
    assert "frame 99  as captured\n" in done.stdout
    assert "faults applied 4 times with --seed 3" in done.stderr
    changed = replay(RPING, "-n", "-m", "qp:10.0.0.2/0x11=0x777", "--others", "keep", "--fault", "drop nth 18").stdout
    assert "\nframe 18\n  bth.dest_qp 0x11 → 0x777\n" in changed and "  dropped by rule 1: drop nth 18\nframe 19" in changed


def test_dry_run_json_lists_changed_frames():
    jsonschema = pytest.importorskip("jsonschema")
    report = json.loads(replay(RPING, "-n", "--json", "-m", "qp:10.0.0.2/0x11=0x777", "--others", "keep", "--fault", "drop nth 18").stdout)
    jsonschema.validate(report, json.loads((ROOT / "docs" / "reference" / "schemas" / "replay.schema.json").read_text()))
    frame = next(f for f in report["frames"] if f["frame"] == 18)
    assert {"field": "bth.dest_qp", "captured": "0x11", "sent": "0x777"} in frame["changes"]
    assert [hit["frame"] for hit in report["fault_log"]] == [18]
    assert "frames" not in log_of(RPING)


@pytest.mark.parametrize("limit, frames", [(("--limit", 3), 3), (("--max-bytes", 250), 2)])
def test_dry_run_ends_at_limits(limit, frames):
    sent = log_of(RPING, *limit)["sent"]["frames"]
    done = replay(RPING, "-n", *limit)
    assert done.stdout.count("frame ") == sent
    assert f"{sent} frames read" in done.stderr


def test_wire_of_reactive_replay_requires_an_agent():
    for more in ([], ["-n"], ["--device", "lab:rxe"]):
        done = replay(PINGPONG, "--reactive", "--wire", "packet:doesnotexist", *more, status=2)
        assert "--wire with --reactive requires --device agent:ADDRESS" in done.stderr


def test_unmapped_applies_to_connections_that_no_assignment_changes():
    source = SAMPLES / "srq-pingpong.pcap.gz"
    learned = log_of(source, "--split-by", "bth", "-w", "null", "-m", "vlan:none=none")
    numbers = {c["number"] for c in learned["connections"]}
    qp = next(c["endpoints"] for c in learned["connections"] if c["number"] == 2).split(" ↔ ")[0]
    address, number = qp.split(" QP ")
    mapping = f"qp:{address}/{number}=0x777"
    assert len(numbers) == 4
    assert {c["number"] for c in log_of(source, "-m", mapping)["connections"]} == numbers
    assert {c["number"] for c in log_of(source, "-m", mapping, "--unmapped", "keep")["connections"]} == numbers
    dropped = log_of(source, "-m", mapping, "--unmapped", "drop")
    assert {c["number"] for c in dropped["connections"]} == {2}
    assert dropped["skipped"]["unmapped"]["frames"] > 0
    refused = replay(source, "-m", mapping, "--unmapped", "refuse", "-w", "null", status=3)
    assert "connection 1 (" in refused.stderr and "has no mapping" in refused.stderr
    # If no assignment changes a connection, all connections are mapped.
    assert log_of(source, "-m", "vlan:none=7", "--unmapped", "drop")["connections"] == [
        c | {"number": c["number"]} for c in log_of(source, "-m", "vlan:none=7")["connections"]]
    assert "--unmapped requires --map" in replay(source, "--unmapped", "drop", "-w", "null", status=2).stderr


def test_unsent_frames_without_a_mapping_are_counted_by_kind(tmp_path):
    mapping = tmp_path / "map.json"
    replay(SAMPLES / "srq-pingpong.pcap.gz", "--write-map", mapping)
    content = json.loads(mapping.read_text())
    content["connections"] = content["connections"][:1]
    mapping.write_text(json.dumps(content))
    source = SAMPLES / "srq-pingpong.pcap.gz"
    skipped = log_of(source, "-m", mapping, "--unmapped", "drop")["skipped"]
    assert skipped["unmapped"]["frames"] > 0 and skipped["others"]["frames"] > 0
    text = replay(source, "-m", mapping, "--unmapped", "drop", "-t", "-w", "null").stdout
    assert "RDMA connection without a mapping" in text and "other protocols between hosts without a mapping" in text


def test_replay_without_any_mapped_frame_is_an_error():
    source, mapping = SAMPLES / "srq-pingpong.pcap.gz", ("-m", "qp:0x11=0x777", "--unmapped", "drop")
    done = replay(source, *mapping, "--include", "bth.dest_qp == 0x12", "-t", "-w", "null", status=3)
    assert "all frames lack a mapping" in done.stderr and done.stdout.startswith("sent 0 frames, ")
    replay(source, *mapping, "--include", "bth.dest_qp == 0x11", "-t", "-w", "null")


def test_split_of_a_capture_without_rdma_names_the_alternative(tmp_path):
    plain = tmp_path / "plain.pcap"
    replay(PINGPONG, "--exclude", "bth", "-w", f"file:{plain}")
    done = replay(plain, "--split", "-w", "null", "-w", "null", status=3)
    assert "--split requires RDMA connections, which the captures lack (use --split-by EXPR)" in done.stderr
    done = replay(plain, "-t", "-m", "ip:10.9.9.9=10.0.0.9", "-w", "null", status=2)
    assert "between" not in done.stderr


def test_dry_run_of_split_names_the_wire_of_each_frame():
    text = replay(RPING, "-n", "--split", "-w", "null", "-w", "file:/dev/null", status=2)
    text = replay(RPING, "-n", "--split", "-w", "file:/dev/null", "-w", "file:/dev/zero").stdout
    assert "  to file:/dev/null  as captured\n" in text and "  to file:/dev/zero  as captured\n" in text
    assert "no mapping" not in text


def test_continued_psns_and_msns_show_no_problem(tmp_path):
    out = tmp_path / "out.pcap"
    replay(SAMPLES / "rc-atomic.pcap", "-l", 3, "--continue-psns", "--include", "bth", "-t", "-w", f"file:{out}")
    msns = [fields(p, "aeth")["msn"] for p in packets(out) if fields(p, "aeth")]
    assert len(msns) > 100 and all((b - a) % (1 << 24) in (0, 1) for a, b in zip(msns, msns[1:]))
    assert "MSN" not in run("analyze", out).stdout


def with_fcs(path, count=50):
    """Copies the first frames of rping.pcap, with a frame check sequence."""
    data, at, frames = RPING.read_bytes(), 24, []
    with path.open("wb") as file:
        file.write(data[:24])
        for _ in range(count):
            length = int.from_bytes(data[at + 8:at + 12], "little")
            frame = data[at + 16:at + 16 + length].ljust(60, b"\0")
            frames.append(frame)
            frame += zlib.crc32(frame).to_bytes(4, "little")
            file.write(data[at:at + 8] + 2 * len(frame).to_bytes(4, "little") + frame)
            at += 16 + length
    return frames


def raw_frames(path):
    data, at, frames = path.read_bytes(), 24, []
    while at < len(data):
        length = int.from_bytes(data[at + 8:at + 12], "little")
        frames.append(data[at + 16:at + 16 + length])
        at += 16 + length
    return frames


def test_frame_check_sequences_are_recomputed_or_removed(tmp_path):
    source, out = tmp_path / "fcs.pcap", tmp_path / "out.pcap"
    frames = with_fcs(source)
    mapping = ["-m", "ip:10.0.0.2=10.9.0.2", "--others", "keep", "-t", "-w", f"file:{out}"]
    report = json.loads(replay(source, *mapping, "--json").stdout)
    sent = raw_frames(out)
    assert report["fcs"]["frames"] == len(sent) == len(frames) and 20 < report["fcs"]["changed"] <= len(frames)
    assert all(zlib.crc32(frame[:-4]).to_bytes(4, "little") == frame[-4:] for frame in sent)
    assert [frame[:-4] for frame in sent] != frames
    assert "frame check sequence, recomputed in " in replay(source, *mapping).stdout

    stale = json.loads(replay(source, *mapping, "--fcs", "keep", "--json").stdout)
    assert stale["fcs"] == {"frames": len(frames), "changed": 0}
    assert any(zlib.crc32(frame[:-4]).to_bytes(4, "little") != frame[-4:] for frame in raw_frames(out))

    replay(source, "--fcs", "remove", "-t", "-w", f"file:{out}")
    assert raw_frames(out) == frames
    assert "--fcs remove has no effect" in replay(RPING, "--fcs", "remove", "-t", "-w", "null").stderr
    assert "fcs" not in replay(RPING, "-t", "-w", "null").stdout


def test_progress_of_compressed_captures_has_no_total():
    done = replay(PINGPONG, "-w", "null", "--pps", "2000", "--stats", "0.1")
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert lines and all(line["size"] == 0 for line in lines)


def test_requested_rate_is_the_specified_one():
    for option, key, value in (("--pps", "frames_per_second", 500), ("--bps", "bits_per_second", 2_000_000)):
        report = json.loads(replay(RPING, "-w", "null", option, value, "--limit", 50, "--json").stdout)
        assert report["requested"][key] == pytest.approx(value)
    assert "requested  98 ms (500 frames/s, " in replay(RPING, "-w", "null", "--pps", 500, "--limit", 50).stdout
    assert "sent 1 frame, " in replay(RPING, "-w", "null", "--limit", 1).stdout


def test_options_without_effect_are_reported(tmp_path):
    run_null = ("-t", "-w", "null")
    assert "all frames are untagged" in replay(RPING, "--vlan-priority", 3, *run_null).stderr
    assert "no effect" not in replay(RPING, "--vlan-priority", 3, "-m", "vlan:none=7", *run_null).stderr
    assert "it requires an IPv6 header" in replay(RPING, "--include", "ip", "--flow-label", "0x12345", *run_null).stderr
    assert "from 0 to 16777215" in replay(RPING, "--loops", 2, "--qp-step", 99999999, *run_null, status=2).stderr
    assert "--ip-step requires --loops" in replay(RPING, "--ip-step", 2, *run_null, status=2).stderr
    same = replay(RPING, "--loops", 2, "--ip-step", 1, *run_null).stderr
    assert "hosts of different loops get the same address" in same and "use --ip-step 2" in same
    assert "same address" not in replay(RPING, "--loops", 2, "--ip-step", 2, *run_null).stderr


def test_messages_name_the_remedy():
    null = ("-t", "-w", "null")
    tagged = replay(RPING, "-n", "-m", "vlan:none=100", "--vlan-priority", 3).stdout
    assert "  vlan none → 100, priority 3\n" in tagged
    assert "KIND:CAPTURED=LIVE" in replay(RPING, "-m", "10.0.0.2:10.9.9.9", *null, status=3).stderr
    for option, hint in (("-i", "--wire packet:IFACE"), ("--multiplier", "--speed N"), ("--ttl", "--hop-limit N"),
                         ("--unique-ip", "--ip-step N"), ("--efcs", "--fcs remove")):
        assert f"unknown option {option}; use {hint}" in replay(RPING, option, "x", *null, status=2).stderr
    for rule, hint in (("loss probability 3%", "drop probability P"), ("dup", "duplicate")):
        assert f"did you mean {hint}?" in replay(RPING, "--fault", rule, *null, status=2).stderr
    absolute = replay(RPING, "--fault", "drop psn 8415281", *null, status=1).stderr
    assert "do not match psn (PSNs are relative to the first one of the direction)" in absolute
    report = log_of(RPING, "--fault", "corrupt payload byte 0 nth 1 where bth.opcode == \"RC SEND Only\"")
    assert report["faults"][0]["applied"] == 1
    log_of(RPING, "--fault", "corrupt payload byte 0 nth 1 fix icrc")
    long_rule = replay(RPING, "--fault", "corrupt payload byte 7 mask 0xff from 10.0.0.3 to 10.0.0.2 nth 1 nonsense", *null,
                       status=2).stderr
    assert "\n…" in long_rule
    prompts = replay(RPING, "-w", "null", "-o", input="\n\nq\n").stderr
    assert len([line for line in prompts.splitlines() if "press Enter" in line]) == 3


def capture_file(path, frames):
    """A pcap file. Each frame is its bytes, or its bytes and its length on the wire."""
    with path.open("wb") as file:
        file.write(bytes.fromhex("d4c3b2a102000400000000000000000000000400 01000000"))
        for number, frame in enumerate(frames):
            data, length = frame if isinstance(frame, tuple) else (frame, len(frame))
            for value in (1000, number, len(data), length):
                file.write(value.to_bytes(4, "little"))
            file.write(data)
    return path


def raw_frames(path):
    data, at, found = path.read_bytes(), 24, []
    while at < len(data):
        length = int.from_bytes(data[at + 8:at + 12], "little")
        found.append(data[at + 16:at + 16 + length])
        at += 16 + length
    return found


def udp(source, target, payload):
    def checksum(data):
        total = sum(int.from_bytes(data[at:at + 2], "big") for at in range(0, len(data), 2))
        while total >> 16:
            total = (total & 0xffff) + (total >> 16)
        return (~total & 0xffff).to_bytes(2, "big")

    addresses = bytes(source) + bytes(target)
    segment = b"\x10\x00\x20\x00" + (8 + len(payload)).to_bytes(2, "big")
    pseudo = addresses + b"\0\x11" + (8 + len(payload)).to_bytes(2, "big") + segment + b"\0\0" + payload
    segment += checksum(pseudo + b"\0" * (len(pseudo) % 2)) + payload
    header = b"\x45\0" + (20 + len(segment)).to_bytes(2, "big") + b"\x12\x34\x00\x00\x40\x11"
    header += checksum(header + b"\0\0" + addresses) + addresses
    return bytes.fromhex("525400000003 525400000002 0800") + header + segment


def test_one_way_networks_map_source_or_destination(tmp_path):
    out = tmp_path / "out.pcap"
    replay(RPING, "-t", "-m", "src-ip:10.0.0.0/8=172.16.0.0/12", "-m", "dst-ip:10.0.0.2=192.168.1.1", "-w",
           f"file:{out}")
    pairs = {(fields(p, "ip")["src"], fields(p, "ip")["dst"]) for p in packets(out) if fields(p, "bth")}
    assert pairs == {("172.16.0.3", "192.168.1.1"), ("172.16.0.2", "10.0.0.3")}
    assert {p["icrc"]["status"] for p in packets(out) if "icrc" in p} == {"good"}
    assert "matches no packet" in replay(RPING, "-t", "-m", "src-ip:11.0.0.0/8=12.0.0.0/8", "-w", "null", status=2).stderr


def test_truncated_frames_are_shortened(tmp_path):
    management = 0x64
    whole = [frame for frame in raw_frames(RPING) if len(frame) > 200 and frame[42] != management][:5]
    cut = capture_file(tmp_path / "cut.pcap", [(frame[:128], len(frame)) for frame in whole])
    out = tmp_path / "out.pcap"
    report = json.loads(replay(cut, "-t", "--truncated", "shorten", "--json", "-w", f"file:{out}").stdout)
    assert report["shortened"] == report["sent"]["frames"] == 5
    for packet in packets(out):
        assert packet["icrc"]["status"] == "good" and not packet.get("findings")
        assert 128 - 14 - 4 < fields(packet, "ip")["total_length"] <= 128 - 14


def test_mtu_is_applied_in_each_mode(tmp_path):
    payload = bytes(range(256)) * 8
    big = capture_file(tmp_path / "big.pcap", [udp((10, 0, 0, 2), (10, 0, 0, 3), payload)])
    out = tmp_path / "out.pcap"
    skipped = replay(big, "-t", "--mtu", 576, "-w", f"file:{out}", status=3).stdout
    assert "2090 bytes, the maximum of the wire and --mtu is 590" in skipped
    replay(big, "-t", "--mtu", 576, "--too-long", "truncate", "-w", f"file:{out}")
    assert [len(frame) for frame in raw_frames(out)] == [590]
    replay(big, "-t", "--mtu", 576, "--too-long", "shorten", "-w", f"file:{out}")
    frame = raw_frames(out)[0]
    assert int.from_bytes(frame[16:18], "big") == 576 and int.from_bytes(frame[38:40], "big") == 556
    text = replay(big, "-t", "--mtu", 576, "--too-long", "fragment", "-w", f"file:{out}").stdout
    assert "fragmented 1 packet into 4 fragments" in text
    parts = raw_frames(out)
    assert all(len(part) <= 590 for part in parts)
    assert b"".join(part[34:] for part in parts)[8:] == payload
    assert [int.from_bytes(part[20:22], "big") for part in parts] == [0x2000, 0x2000 | 69, 0x2000 | 138, 207]


def test_verbose_prints_each_sent_frame_as_dissect_does():
    done = replay(RPING, "-t", "--limit", 20, "--verbose", "-w", "null")
    lines = done.stdout.splitlines()
    assert lines[20].startswith("sent 20 frames, ")
    dissected = run("dissect", RPING, "--limit", 20).stdout.splitlines()
    # The times differ, and the columns adapt to their widths.
    assert [line.split()[2:] for line in lines[:20]] == [line.split()[2:] for line in dissected]
    assert "--verbose cannot be used with --json" in replay(RPING, "-v", "--json", "-w", "null", status=2).stderr


def test_flow_statistics_count_frames_of_each_flow(tmp_path):
    flows = [udp((10, 0, 0, 2), (10, 0, 0, last), b"x" * 10) for last in (3, 4, 3, 5, 3)]
    several = capture_file(tmp_path / "flows.pcap", [*flows, bytes(12) + b"\x08\x06" + bytes(46)])
    report = json.loads(replay(several, "-t", "--flow-stats", "--json", "-w", "null").stdout)["flow_statistics"]
    assert report["flows"] == 3 and report["frames_without_addresses"] == 1
    assert report["list"][0]["flow"] == "10.0.0.2:4096 → 10.0.0.3:8192 UDP" and report["list"][0]["frames"] == 3
    assert report["list"][0]["bytes"] == 3 * len(flows[0])
    text = replay(several, "-t", "--flow-stats", "-w", "null").stdout
    assert "flows      3 flows" in text and "1 frame without IP addresses" in text


def test_drop_eligible_indicator_is_set(tmp_path):
    out = tmp_path / "out.pcap"
    replay(RPING, "-t", "-m", "vlan:none=7", "--vlan-priority", 3, "--vlan-dei", 1, "-w", f"file:{out}")
    assert {frame[12:16].hex() for frame in raw_frames(out)} == {"81007007"}


def test_saved_options_replay_the_same_frames(tmp_path):
    options, first, second = tmp_path / "options", tmp_path / "first.pcap", tmp_path / "second.pcap"
    replay(RPING, "-t", "-m", "ip:10.0.0.2=192.168.1.2", "--fault", "drop psn +3", "--exclude", "ip.src == 10.0.0.9",
           "-w", f"file:{first}", "--save-opts", options)
    lines = options.read_text().splitlines()
    assert lines[0].startswith("#") and not any("--save-opts" in line for line in lines)
    assert "--fault 'drop psn +3'" in lines
    text = options.read_text().replace(str(first), str(second))
    options.write_text(text)
    replay(f"@{options}", RPING)
    assert first.read_bytes() == second.read_bytes()
    options.write_text("# comment\n-t\n--pps x  # rate\n")
    assert f"(@{options}, line 3)" in replay(f"@{options}", RPING, "-w", "null", status=2).stderr


def test_loops_with_changes_can_be_preloaded(tmp_path):
    outputs = [tmp_path / "streamed.pcap", tmp_path / "preloaded.pcap"]
    for out, more in zip(outputs, ([], ["--preload"]), strict=True):
        report = json.loads(replay(RPING, "-t", "--loops", 3, "--ip-step", 256, "--qp-step", 1, *more, "--json", "-w",
                                   f"file:{out}").stdout)
        assert report["loops"] == 3 and report["sent"]["frames"] == 3 * 379
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    assert "limit the number of loops" in replay(RPING, "-t", "--loops", 0, "--ip-step", 2, "-K", "-w", "null",
                                                 status=2).stderr


def test_ip_step_changes_frames_without_rdma(tmp_path):
    plain = capture_file(tmp_path / "plain.pcap", [udp((10, 0, 0, 2), (10, 0, 0, 3), b"x" * 10)])
    out = tmp_path / "out.pcap"
    replay(plain, "-t", "--loops", 3, "--ip-step", 256, "-w", f"file:{out}")
    assert [frame[26:34].hex() for frame in raw_frames(out)] == ["0a0000020a000003", "0a0001020a000103", "0a0002020a000203"]
    assert [frame[24:26] for frame in raw_frames(out)] != [raw_frames(plain)[0][24:26]] * 3, "the checksum follows"


def test_pid_file_of_a_running_process_is_kept(tmp_path):
    pid, null = tmp_path / "pid", ("-t", "-w", "null")
    pid.write_text(f"{os.getpid()}\n")
    assert f"belongs to process {os.getpid()}" in replay(RPING, *null, "--pid-file", pid, status=3).stderr
    assert pid.read_text() == f"{os.getpid()}\n"
    pid.write_text("keep me\n")
    assert "other than a process ID" in replay(RPING, *null, "--pid-file", pid, status=3).stderr
    assert pid.read_text() == "keep me\n"
    ended = subprocess.Popen(["true"])
    ended.wait()
    pid.write_text(f"{ended.pid}\n")
    replay(RPING, *null, "--pid-file", pid)
    assert not pid.exists()
    (tmp_path / "directory").mkdir()
    replay(RPING, *null, "--pid-file", tmp_path / "directory", status=3)


def test_missing_carrier_is_waited_for():
    script = """
        ip link add name wired type veth peer name other && ip link set wired up
        (sleep 1 && ip link set other up) &
        {command} replay {capture} -t --limit 5 --json -w packet:wired --carrier-wait 20s
        status=$?
        wait
        ip link set other down
        until ip link show wired | grep -q NO-CARRIER
        do sleep 0.1
        done
        {command} replay {capture} -t -w packet:wired --carrier-wait 100ms
        echo "$status $?"
    """.format(command=COMMAND, capture=RPING)
    done = subprocess.run(["unshare", "-n", "sh", "-c", script], timeout=120, capture_output=True, text=True)
    if "Operation not permitted" in done.stderr or "not found" in done.stderr:
        pytest.skip("requires root, ip and unshare")
    assert done.stdout.splitlines()[-1] == "0 3", done.stderr
    assert json.loads(done.stdout.splitlines()[0])["sent"]["frames"] == 5
    assert "no carrier; check the cable and the peer (waiting up to 20 s for the carrier)" in done.stderr
