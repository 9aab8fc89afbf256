"""Runs tshark with and without the built plugin, and the rdmawire command.

As root, Wireshark does not load personal plugins. Therefore tshark runs as an unprivileged user, with a temporary home directory.
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
# One capture of each kind, for tests that need not run on all captures. RDMAWIRE_FULL=1 selects all.
SOME = ALL if os.environ.get("RDMAWIRE_FULL") else [
    path for path in ALL if path.name.startswith(("linlinw5-cm", "nvme", "rc-read-loss", "siw-write-loss"))]
COMMAND = Path(os.environ.get("RDMAWIRE", ROOT / "build" / "dev" / "bin" / "rdmawire"))
PLUGIN = Path(os.environ.get("RDMAWIRE_PLUGIN", ROOT / "build" / "dev" / "wireshark" / "rdmawire.so"))
NOBODY = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]


def missing():
    """Return why the tests cannot run, or ""."""
    if not shutil.which("tshark"):
        return "requires tshark"
    if not COMMAND.exists():
        return f"requires {COMMAND}"
    if not PLUGIN.exists():
        return f"requires {PLUGIN}"
    return ""


needs_tshark = pytest.mark.skipif(bool(missing()), reason=missing() or "-")


class Home:
    """A home directory with Wireshark's plugins, and captures that tshark can read."""

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
        """Return a copy of the capture that tshark can read, uncompressed: not every Wireshark 4.0 opens .zst."""
        capture = Path(capture)
        copied = self.path / capture.name.removesuffix(".zst").removesuffix(".gz")
        if not copied.exists():
            if capture.suffix == ".gz":
                copied.write_bytes(gzip.decompress(capture.read_bytes()))
            elif capture.suffix == ".zst":
                subprocess.run(["zstd", "-dqf", capture, "-o", copied], check=True, timeout=60)
            else:
                shutil.copy(capture, copied)
            copied.chmod(0o644)
        return copied

    def run(self, program, *arguments, timeout=120, check=True, **options):
        """Run a program of Wireshark with this home directory, as an ordinary user."""
        command = [*(NOBODY if os.geteuid() == 0 else []), "env", f"HOME={self.path}",
                   f"XDG_CONFIG_HOME={self.path}/.config", "TZ=UTC", program, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, timeout=timeout, check=False, **options)
        if check:
            assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done

    def tshark(self, *arguments, **options):
        return self.run("tshark", *arguments, **options)

    def packets(self, capture, *arguments):
        """Return the PDML packets as ElementTree elements."""
        done = self.tshark("-n", "-r", self.place(capture), "-T", "pdml", *arguments)
        return list(ElementTree.fromstring(done.stdout).iter("packet"))


@lru_cache
def with_plugin():
    return Home(plugin=True)


@lru_cache
def without_plugin():
    return Home(plugin=False)


def dissected(capture):
    """Return the objects of `rdmawire dissect --json`, one per packet."""
    done = subprocess.run([COMMAND, "dissect", "--json", capture], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def plugin_tree(packet):
    """Return the plugin's tree of a PDML packet, or None."""
    return next((proto for proto in packet.iter("proto") if proto.get("name") == "rdmawire"), None)
