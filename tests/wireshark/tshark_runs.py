"""Runs tshark with and without the plugin that was built, and the command beside it.

Wireshark loads no personal plugins as root: then tshark runs as nobody, with a home directory of its own.
"""

import gzip
import json
import os
import re
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "captures" / "samples"
ALL = sorted(path for path in SAMPLES.iterdir() if ".pcap" in path.name)
# One of each kind, for what is the same code as for all of them, unless all is asked for.
SOME = ALL if os.environ.get("RDMAWIRE_FULL") else [
    path for path in ALL if path.name.startswith(("linlinw5-cm", "nvme", "rc-read-loss", "siw-write-loss"))]
COMMAND = Path(os.environ.get("RDMAWIRE", ROOT / "build" / "dev" / "bin" / "rdmawire"))
PLUGIN = Path(os.environ.get("RDMAWIRE_PLUGIN", ROOT / "build" / "dev" / "wireshark" / "rdmawire.so"))
NOBODY = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]


def missing():
    """Why nothing can be run here; empty: it can."""
    if not shutil.which("tshark"):
        return "needs tshark"
    if not COMMAND.exists():
        return f"needs the command: {COMMAND} is not built"
    if not PLUGIN.exists():
        return f"needs the plugin: {PLUGIN} is not built"
    return ""


needs_tshark = pytest.mark.skipif(bool(missing()), reason=missing() or "-")


class Home:
    """A home directory that tshark takes its plugins from, and captures where it may read them."""

    def __init__(self, plugin):
        self.directory = tempfile.TemporaryDirectory(prefix="rdmawire-tshark-")
        self.path = Path(self.directory.name)
        if plugin:
            version = re.search(r"(\d+\.\d+)\.", subprocess.run(
                ["tshark", "--version"], capture_output=True, text=True, timeout=60).stdout)[1]
            folder = self.path / ".local/lib/wireshark/plugins" / version / "epan"
            folder.mkdir(parents=True)
            shutil.copy(PLUGIN, folder)
        self.path.chmod(0o755)
        if os.geteuid() == 0:
            for path in [self.path, *self.path.rglob("*")]:
                shutil.chown(path, "nobody", "nogroup")

    def place(self, capture):
        """The capture where tshark may read it. Wireshark 4.0 opens .zst only when it was built with it: unpacked."""
        capture = Path(capture)
        there = self.path / capture.name.removesuffix(".zst").removesuffix(".gz")
        if not there.exists():
            if capture.suffix == ".gz":
                there.write_bytes(gzip.decompress(capture.read_bytes()))
            elif capture.suffix == ".zst":
                subprocess.run(["zstd", "-dqf", capture, "-o", there], check=True, timeout=60)
            else:
                shutil.copy(capture, there)
            there.chmod(0o644)
        return there

    def run(self, program, *arguments, timeout=120, check=True, **options):
        """A program of Wireshark's with this home, as somebody who is not root."""
        command = [*(NOBODY if os.geteuid() == 0 else []), "env", f"HOME={self.path}",
                   f"XDG_CONFIG_HOME={self.path}/.config", "TZ=UTC", program, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, timeout=timeout, check=False, **options)
        if check:
            assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done

    def tshark(self, *arguments, **options):
        return self.run("tshark", *arguments, **options)

    def packets(self, capture, *arguments):
        """Each packet as an ElementTree of PDML."""
        done = self.tshark("-n", "-r", self.place(capture), "-T", "pdml", *arguments)
        return list(ElementTree.fromstring(done.stdout).iter("packet"))


@lru_cache
def with_plugin():
    return Home(plugin=True)


@lru_cache
def without_plugin():
    return Home(plugin=False)


def dissected(capture):
    """What `rdmawire dissect --json` says: an object a packet."""
    done = subprocess.run([COMMAND, "dissect", "--json", capture], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def ours(packet):
    """The plugin's tree in a packet of PDML; None: it has none."""
    return next((proto for proto in packet.iter("proto") if proto.get("name") == "rdmawire"), None)
