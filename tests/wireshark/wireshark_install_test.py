"""Installs the plugin and the profile for one user with `cmake --install`.

The commands are those of docs/how-to/use-wireshark-plugin.md.
"""

import os
import re
import shutil
import subprocess

import pytest
from tshark_runs import NOBODY, PLUGIN, ROOT, SAMPLES, Home, needs_tshark

PROFILE = ROOT / "dissectors" / "wireshark" / "profile" / "RDMA"


def series_of(*command):
    """Return the first two numbers of a version that a command prints, or ""."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r"\b(\d+\.\d+)\.\d+", done.stdout)
    return found[1] if found else ""


def missing():
    """Return why the tests cannot run, or ""."""
    for program in ("cmake", "ninja", "pkg-config", *(["setpriv"] if os.geteuid() == 0 else [])):
        if not shutil.which(program):
            return f"requires {program}"
    headers = series_of("pkg-config", "--modversion", "wireshark")
    if not headers:
        return "requires Wireshark's headers (package libwireshark-dev)"
    if shutil.which("tshark") and series_of("tshark", "--version") != headers:
        return f"requires tshark {headers}, the version of the headers"
    as_nobody = NOBODY if os.geteuid() == 0 else []
    if subprocess.run([*as_nobody, "test", "-r", PROFILE / "preferences"], check=False, capture_output=True).returncode:
        return f"requires sources that an unprivileged user can read, because the tests run as root: {PROFILE}"
    return ""


pytestmark = [needs_tshark, pytest.mark.skipif(bool(missing()), reason=missing() or "-")]


@pytest.fixture(scope="module")
def installed():
    """Return a user's home directory that contains only a build tree and the installed files."""
    home = Home(plugin=False)
    build = home.path / "build"
    done = subprocess.run(["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DRDMAWIRE_WIRESHARK_INSTALL=user",
                           "-DRDMAWIRE_TESTS=OFF", "-DRDMAWIRE_PYTHON=OFF"],
                          capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    # Use the existing build of the plugin.
    (build / "wireshark").mkdir(exist_ok=True)
    shutil.copy(PLUGIN, build / "wireshark" / "rdmawire.so")
    if os.geteuid() == 0:
        for path in [build, *build.rglob("*")]:
            shutil.chown(path, "nobody", "nogroup")
    before = files_of(home)
    # Repeated installation succeeds, and --prefix is ignored.
    home.run("cmake", "--install", build, "--component", "wireshark")
    home.run("cmake", "--install", build, "--component", "wireshark", "--prefix", home.path / "prefix")
    home.installed_files = files_of(home) - before
    yield home
    home.directory.cleanup()


def files_of(home):
    return {path.relative_to(home.path) for path in home.path.rglob("*") if path.is_file()
            if path.name != "install_manifest_wireshark.txt"}


def test_plugin_and_profile_are_installed_for_the_user(installed):
    plugin = f".local/lib/wireshark/plugins/{series_of('tshark', '--version')}/epan/rdmawire.so"
    assert {str(path) for path in installed.installed_files} == {
        plugin, *(f".config/wireshark/profiles/RDMA/{path.name}" for path in PROFILE.iterdir())}
    assert (installed.path / plugin).read_bytes() == PLUGIN.read_bytes()
    for path in PROFILE.iterdir():
        assert (installed.path / ".config/wireshark/profiles/RDMA" / path.name).read_bytes() == path.read_bytes()


def test_tshark_loads_the_installed_plugin(installed):
    listed = [[cell.strip() for cell in line.split("\t")] for line in installed.tshark("-G", "plugins").stdout.decode().splitlines()]
    plugin_lines = [line for line in listed if line[0] == "rdmawire.so"]
    assert len(plugin_lines) == 1 and plugin_lines[0][-1].startswith(f"{installed.path}/.local/lib/wireshark/plugins/")
    assert not [line for line in Home(plugin=False).tshark("-G", "plugins").stdout.decode().splitlines()
                if line.startswith("rdmawire.so")]


def test_profile_columns_are_shown(installed):
    """Frame 17, the CM's last message, opens the connection. Frame 18 is its first packet."""
    capture = installed.place(SAMPLES / "rping.pcap")
    columns = [part for name in ("Stream", "PSN +", "In flight", "Event") for part in ("-e", f"_ws.col.{name}")]
    shown = installed.tshark("-n", "-C", "RDMA", "-2", "-r", capture, "-Y", "frame.number in {17, 18}", "-T", "fields",
                             *columns).stdout.decode().splitlines()
    assert [line.split("\t") for line in shown] == [["0", "", "", "opened"], ["0", "0", "1", ""]]
