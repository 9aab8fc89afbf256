"""The packages that the tests examine, and a fresh root to install them in."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DIRECTORY = Path(os.environ.get("RDMAWIRE_PACKAGES", ROOT / "build" / "packages"))

DEB_NAMES = ("rdmawire", "rdmawire-agent", "rdmawire-wireshark", "librdmawire0.1", "librdmawire-dev", "python3-rdmawire")
RPM_NAMES = ("rdmawire", "rdmawire-agent")


def run(*command, check=True, **options):
    """Run a command and return the finished process with its output as text."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, timeout=1800,
                          **options)
    if check:
        assert done.returncode == 0, f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def find(pattern):
    """The only package that matches a pattern. Skips the test if no package matches."""
    found = sorted(DIRECTORY.glob(pattern))
    if not found:
        pytest.skip(f"needs {pattern} in {DIRECTORY}: scripts/package builds it")
    assert len(found) == 1, found
    return found[0]


def deb(name):
    return find(f"{name}_*.deb")


def rpm(name):
    return find(f"{name}-[0-9]*.rpm")


def unpack(package, directory):
    """Unpack a Debian or RPM package without its scripts."""
    directory.mkdir(parents=True, exist_ok=True)
    if package.suffix == ".deb":
        run("dpkg-deb", "--extract", package, directory)
    else:
        archive = subprocess.run(["rpm2cpio", package], check=True, capture_output=True).stdout
        subprocess.run(["cpio", "--extract", "--make-directories", "--quiet"], check=True, input=archive, cwd=directory)
    return directory


def fresh_machine(script, *files, suite="bookworm", ccache=False):
    """Run a script of bash in a root that contains only Debian's base system and git. `files` are in ~/files there.

    `ccache`: the root uses this machine's compiler cache.
    """
    tool = ROOT / "scripts" / "fresh-machine"
    checked = run(tool, "--suite", suite, "--check", check=False)
    if checked.returncode:
        pytest.skip(checked.stderr.strip() or f"{tool} --check failed")
    options = [part for file in files for part in ("--copy", file)] + ["--ccache"] * ccache
    return run(tool, "--suite", suite, *options, "bash", "-euc", script)


def needs(*programs):
    """Skip a test unless the programs are installed."""
    missing = [program for program in programs if not shutil.which(program)]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


needs_full = pytest.mark.skipif(not os.environ.get("RDMAWIRE_FULL"), reason="takes minutes: RDMAWIRE_FULL=1 runs it")
