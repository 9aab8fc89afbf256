#!/usr/bin/python3
"""rdmawire extract: selection, anonymization and errors.

usage: extract_test.py RDMAWIRE SAMPLES
"""

import subprocess
import sys
import tempfile
from pathlib import Path

RDMAWIRE, SAMPLES = sys.argv[1], Path(sys.argv[2])
RPING = str(SAMPLES / "rping.pcap")


def run(*arguments):
    return subprocess.run([RDMAWIRE, *map(str, arguments)], capture_output=True, text=True, timeout=60)


def lines(path, *arguments):
    return run("dissect", path, "--color", "never", *arguments).stdout.splitlines()


def main(directory):
    out = directory / "x.pcapng"
    # Invalid command lines.
    assert run("extract", RPING, "-o", out).returncode == 2, "no selection"
    assert run("extract", RPING, "--frame", "1").returncode == 2, "no output"
    assert run("extract", RPING, "--frame", "1", "--key", "x", "-o", out).returncode == 2, "a key without --anonymize"
    wrong = run("extract", RPING, "--filter", "bth.opcod == 4", "-o", out)
    assert wrong.returncode == 2 and "did you mean bth.opcode?" in wrong.stderr, wrong
    copy = directory / "copy.pcap"
    copy.write_bytes(Path(RPING).read_bytes())
    assert run("extract", copy, "--frame", "1", "-o", copy).returncode == 2, "output is the input"
    assert copy.read_bytes() == Path(RPING).read_bytes()
    # File errors.
    missing = run("extract", directory / "missing.pcap", "--frame", "1", "-o", out)
    assert missing.returncode == 3 and missing.stderr.count("\n") == 1, missing
    assert run("extract", RPING, "--frame", "1", "-o", "/no/such/directory/x.pcapng").returncode == 3
    copy.write_bytes(Path(RPING).read_bytes()[:3000])
    cut = run("extract", copy, "--frame", "1-", "-o", out)
    assert cut.returncode == 3 and "copy.pcap" in cut.stderr and len(lines(out)) > 5, cut

    assert run("extract", RPING, "--frame", "20", "--around", "3", "-o", out).returncode == 0
    assert len(lines(out)) == 7
    assert run("extract", RPING, "--filter", "cm_req or opcode.operation == acknowledge", "-o", out).returncode == 2
    assert run("extract", RPING, "--filter", "opcode.operation == acknowledge", "-o", out).returncode == 0
    assert len(lines(out)) == len(lines(RPING, "--filter", "bth.opcode == 17")) > 50
    empty = run("extract", RPING, "--frame", "5000", "-o", out)
    assert empty.returncode == 0 and "no packet matched (379 read)" in empty.stderr and lines(out) == [], empty

    # Equal keys give equal pseudonyms. Without a key, pseudonyms are random.
    outputs = []
    for key in (["--key-text", "one"], ["--key-text", "one"], ["--key-text", "two"], [], []):
        assert run("extract", RPING, "--frame", "15-40", "--anonymize", *key, "-o", out).returncode == 0
        outputs.append(lines(out))
        assert len(outputs[-1]) == 26
        assert not any("10.0.0.2" in line or "10.0.0.3" in line or "ICRC bad" in line for line in outputs[-1])
    assert outputs[0] == outputs[1] and outputs[0] != outputs[2] and outputs[3] != outputs[4]
    (directory / "key").write_text("one")
    assert run("extract", RPING, "--frame", "15-40", "--anonymize", "--key", directory / "key", "-o", out).returncode == 0
    assert lines(out) == outputs[0]
    unread = run("extract", RPING, "--frame", "15-40", "--anonymize", "--key", directory / "no-key", "-o", out)
    assert unread.returncode == 3 and "no-key" in unread.stderr, unread
    pcap = run("extract", RPING, "--frame", "15-40", "--anonymize", "--key-text", "one", "-o", directory / "x.pcap")
    assert pcap.returncode == 0 and "cannot store comments" in pcap.stderr, pcap
    assert run("extract", RPING, "--frame", "15-40", "--anonymize", "-o", out).returncode == 0
    comment = run("dissect", out, "-V", "--frame", "20", "--color", "never").stdout
    assert "frame 34 of the original capture, anonymized; original ICRC: good" in comment, comment


with tempfile.TemporaryDirectory() as temporary:
    main(Path(temporary))
