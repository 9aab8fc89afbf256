"""`cmake --install` and the target `uninstall`, on a build tree of the preset dev."""

import fcntl
import os
from pathlib import Path

import pytest
from packages import ROOT, needs, run

BUILD = ROOT / "build" / os.environ.get("RDMAWIRE_PRESET", "dev")

pytestmark = [needs("cmake"), pytest.mark.skipif(not (BUILD / "bin" / "rdmawire").exists(), reason=f"needs a build in {BUILD}")]


@pytest.fixture(autouse=True)
def manifests():
    """Lock the build tree: `cmake --install` of other tests writes a manifest there."""
    with open(BUILD / "CMakeCache.txt") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def files_of(root):
    return {str(path.relative_to(root)) for path in Path(root).rglob("*")}


@pytest.fixture
def installed(tmp_path):
    """A prefix below a staging root, with the command and one file of the user."""
    (tmp_path / "opt/rdmawire/etc").mkdir(parents=True)
    (tmp_path / "opt/rdmawire/etc/mine").write_text("")
    environment = {**os.environ, "DESTDIR": str(tmp_path)}
    before = files_of(tmp_path)
    for component in ("runtime", "agent", "examples"):
        run("cmake", "--install", BUILD, "--prefix", "/opt/rdmawire", "--component", component, env=environment)
    return tmp_path, before, environment


def test_uninstall_removes_exactly_the_installed_files(installed):
    root, before, environment = installed
    assert "opt/rdmawire/bin/rdmawire" in files_of(root)
    done = run("cmake", "--build", BUILD, "--target", "uninstall", env=environment)
    assert "files removed" in done.stdout
    assert files_of(root) == before


def test_uninstall_without_an_installation_is_an_error():
    if list(BUILD.glob("install_manifest*.txt")):
        pytest.skip(f"{BUILD} is installed: the target would remove it from this host")
    done = run("cmake", "--build", BUILD, "--target", "uninstall", check=False)
    assert done.returncode != 0 and "nothing was installed" in done.stdout + done.stderr
