"""scripts/first-day with the reference device in place of a NIC."""

import json
import os
import socket
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
COMMAND = Path(os.environ.get("RDMAWIRE", ROOT / "build" / "dev" / "bin" / "rdmawire"))

pytestmark = pytest.mark.skipif(not COMMAND.exists(), reason=f"needs the command: {COMMAND} is not built")

RULE = "rc.responder.psn.sequence-error"


def first_day(*arguments, status=0):
    done = subprocess.run([ROOT / "scripts" / "first-day", *map(str, arguments)], capture_output=True, text=True, timeout=300,
                          env=os.environ | {"RDMAWIRE": str(COMMAND)})
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_all_steps_run_once_and_results_are_in_the_archive(tmp_path):
    day = tmp_path / "day"
    run = ("--out", day, "--only", "RSP-009", "--only", "RSP-010", "--", "--fault", "naks-every-packet")
    text = first_day(*run)
    order = ["host", "selftest", "preflight", "ics", "first", "failed", "second", "compare", "verify-first", "verify-second"]
    assert [line.split()[0] for line in text.splitlines() if "status" in line] == order
    assert "first      all cases that cannot stop the device: status 1" in text and f"Send back {day}.tar.gz." in text
    assert "Use --anonymize" in text
    assert json.loads((day / "failed" / "report.json").read_text())["cases"][0]["attempts"][4]["verdict"] == "fail"
    assert "unchanged" in (day / "compare.txt").read_text()
    with tarfile.open(f"{day}.tar.gz") as archive:
        names = archive.getnames()
    assert {"day/summary.txt", "day/ics.json", "day/first/manifest.json", "day/preflight.txt"} <= set(names)
    assert first_day(*run).count("ran earlier") == len(order)


def test_anonymized_archive_has_no_addresses(tmp_path):
    day = tmp_path / "day"
    first_day("--out", day, "--only", "RSP-009", "--anonymize", "--key-text", "4711", "--", "--fault", "naks-every-packet")
    content = {}
    with tarfile.open(f"{day}-anonymized.tar.gz") as archive:
        for member in archive.getmembers():
            if member.isfile():
                content[member.name] = archive.extractfile(member).read()
    (case,) = json.loads(content["day/first/results.json"])["cases"]
    assert (case["id"], case["verdict"]) == (RULE, "fail")
    assert f"day/first/captures/{RULE}.pcapng" in content
    # Search for the addresses of the device and the tester in frames, comments and texts, and for the name of this
    # host.
    assert bytes([10, 0, 0, 200]) in (day / "first" / "captures" / f"{RULE}.pcapng").read_bytes()
    for name, data in content.items():
        for secret in bytes([10, 0, 0, 200]), b"0a00:00c8", b"10.0.0.", f'"{socket.gethostname()}"'.encode():
            assert secret not in data, (name, secret)


def test_unsuitable_bench_stops_the_day(tmp_path):
    text = first_day("--out", tmp_path / "day", "--", "--device", f"agent:unix:{tmp_path}/none", "--wire", "unix:none",
                     "--allow", "10.0.0.2", status=1)
    assert "Correct the failed checks, and start the same command again." in text
    assert not (tmp_path / "day" / "first").exists() and not (tmp_path / "day" / "preflight.status").exists()
    assert (tmp_path / "day.tar.gz").exists()


def test_unsuitable_bench_has_an_empty_anonymized_archive(tmp_path):
    text = first_day("--out", tmp_path / "day", "--anonymize", "--", "--device", f"agent:unix:{tmp_path}/none", "--wire",
                     "unix:none", "--allow", "10.0.0.2", status=1)
    assert "Traceback" not in text
    with tarfile.open(tmp_path / "day-anonymized.tar.gz") as archive:
        assert not [member for member in archive if member.isfile()]


def test_interrupted_run_continues(tmp_path):
    day = tmp_path / "day"
    run = ("--out", day, "--only", "RSP-009", "--only", "RSP-010", "--")
    first_day(*run)
    # Simulate an interruption: a partial journal, and no status file.
    lines = (day / "first" / "results.ndjson").read_text().splitlines(keepends=True)
    (day / "first" / "results.ndjson").write_text("".join(lines[:2]))
    (day / "first.status").unlink()
    first_day(*run)
    assert len((day / "first" / "results.ndjson").read_text().splitlines()) == len(lines)


@pytest.mark.parametrize("arguments, message", [((), "--out"), (("--out", "x"), 'missing after "--"'), (("--nonsense",), "--out")])
def test_usage_errors(tmp_path, arguments, message):
    done = subprocess.run([ROOT / "scripts" / "first-day", *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and message in done.stderr
    assert not list(tmp_path.iterdir())


def test_help_names_the_steps_page():
    done = subprocess.run([ROOT / "scripts" / "first-day", "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "first-day-with-hardware.md" in done.stdout
    assert (ROOT / "docs" / "how-to" / "first-day-with-hardware.md").exists()
