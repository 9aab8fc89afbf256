"""Live capture on an interface: sample frames on one end of a veth pair, tshark as an ordinary user on the other.

The veth pair is in a separate network namespace.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tshark_runs import SAMPLES, needs_tshark, with_plugin

# Capture requires these capabilities. Wireshark loads personal plugins only if it does not run as root.
CAPABILITIES = "+net_raw,+net_admin"
NAMESPACE = (["unshare", "--net"] if os.geteuid() == 0 else
             ["unshare", "--user", "--map-current-user", "--keep-caps", "--net"])
CAPTURING = ["setpriv", f"--inh-caps={CAPABILITIES}", f"--ambient-caps={CAPABILITIES}", *(
    ["--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.geteuid() == 0 else [])]


def missing_requirement():
    missing = [program for program in ("unshare", "setpriv", "ip", "dumpcap") if not shutil.which(program)]
    if missing:
        return f"requires {', '.join(missing)}"
    done = subprocess.run([*NAMESPACE, *CAPTURING, "ip", "link", "add", "name", "a", "type", "veth"], capture_output=True,
                          text=True, timeout=60)
    return f"cannot create a network namespace: {done.stderr.strip()}" if done.returncode else ""


pytestmark = [needs_tshark, pytest.mark.skipif(bool(missing_requirement()), reason=missing_requirement() or "-")]

FIELDS = ("frame.number", "rdmawire.analysis.connection", "rdmawire.analysis.sender", "rdmawire.analysis.relative_psn",
          "rdmawire.analysis.seen_before", "rdmawire.aeth.syndrome.kind", "rdmawire.icrc.status")
# Fields that depend on the time between packets.
TIMED = ("rdmawire.event", "rdmawire.event.cause", "rdmawire.analysis.outstanding", "rdmawire.analysis.answers_after",
         "rdmawire.message.number", "rdmawire.reassembled.length")


def output(*fields):
    return ["-T", "fields", *(part for field in fields for part in ("-e", field))]


@pytest.mark.parametrize("name", ["rc-pingpong-loss.pcap.gz", "siw-write.pcap.gz"])
def test_live_capture_equals_reading_the_file(name):
    home = with_plugin()
    capture = home.place(SAMPLES / name)
    written = home.path / f"live-{name}.pcapng"
    frames = len(home.tshark("-n", "-r", capture).stdout.splitlines())
    inside = home.path / "live.py"
    shutil.copy(Path(__file__).with_name("live_sender.py"), inside)
    inside.chmod(0o644)
    command = ["env", f"HOME={home.path}", f"XDG_CONFIG_HOME={home.path}/.config", "tshark", "-n", "-l", "-i", "b", "-c",
               str(frames), "-w", str(written), "-P", *output(*FIELDS, *TIMED)]
    done = subprocess.run([*NAMESPACE, sys.executable, inside, capture, *CAPTURING, *command], capture_output=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    live = [line.split("\t") for line in done.stdout.decode().splitlines()]
    assert len(live) == frames, done.stderr.decode()
    # The fields equal those of the sample, except timed ones, and those of the written file, with one pass.
    read = home.tshark("-n", "-r", capture, *output(*FIELDS)).stdout.decode().splitlines()
    assert [line[:len(FIELDS)] for line in live] == [line.split("\t") for line in read]
    reread = home.tshark("-n", "-r", written, *output(*FIELDS, *TIMED)).stdout.decode().splitlines()
    assert live == [line.split("\t") for line in reread]
    assert sum(bool(line[1]) for line in live) > 500
