"""scripts/fresh-machine: its command line, its refusals, and the removal of everything after an interruption."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "fresh-machine"

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def run(*arguments, **options):
    return subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, timeout=60, **options)


@pytest.mark.parametrize("arguments, expected", [
    ([], "usage: "),
    (["--suite"], "usage: "),
    (["--suite", "jammy", "true"], 'unknown suite "jammy": bookworm, trixie and noble are supported'),
    (["--fast", "true"], "unknown option --fast"),
])
def test_wrong_usage_is_refused(arguments, expected):
    done = run(*arguments)
    assert (done.returncode, expected in done.stderr) == (2, True), done


@as_root
def test_ordinary_user_is_refused_with_the_reason(tmp_path):
    copy = tmp_path / "fresh-machine"
    shutil.copy(SCRIPT, copy)
    for directory in (tmp_path, *tmp_path.parents):
        if not directory.stat().st_mode & 0o001:
            directory.chmod(0o755)
    done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "bash", copy, "--check"],
                          capture_output=True, text=True)
    assert done.returncode == 3
    assert done.stderr == "fresh-machine: needs root: it mounts and creates users; run it as root or with sudo\n"


@as_root
def test_missing_debootstrap_is_named_with_its_package(tmp_path):
    for name in ("bash", "id"):
        (tmp_path / name).symlink_to(shutil.which(name))
    done = run("--check", env={"PATH": str(tmp_path)})
    assert (done.returncode, done.stderr) == (3, "fresh-machine: needs debootstrap: apt-get install debootstrap\n")


def with_debootstrap(directory, text):
    """An environment in which debootstrap is the given script, with all directories below the given one."""
    programs, temporary = directory / "bin", directory / "tmp"
    programs.mkdir()
    temporary.mkdir()
    (programs / "debootstrap").write_text(f"#!/bin/bash\n{text}\n")
    (programs / "debootstrap").chmod(0o755)
    return temporary, {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "TMPDIR": str(temporary),
                       "XDG_CACHE_HOME": str(directory / "cache"), "HOME": str(directory)}


needs_namespaces = pytest.mark.skipif(
    os.geteuid() != 0 or run("--check").returncode != 0, reason="scripts/fresh-machine --check refuses this machine")


@needs_namespaces
def test_debootstrap_failure_leaves_no_files(tmp_path):
    temporary, environment = with_debootstrap(tmp_path, "echo 'E: no such mirror'; exit 1")
    done = run("true", env=environment)
    assert done.returncode == 3
    assert done.stderr.splitlines()[0] == "E: no such mirror"
    assert done.stderr.splitlines()[1].startswith("fresh-machine: debootstrap could not create bookworm: is there a network")
    assert list(temporary.iterdir()) == []
    assert not list((tmp_path / "cache/rdmawire/fresh-machine").glob("*.tar"))


@needs_namespaces
def test_interruption_leaves_no_files_or_mounts(tmp_path):
    temporary, environment = with_debootstrap(tmp_path, f"touch {tmp_path}/started; sleep 0.5")
    with subprocess.Popen([SCRIPT, "true"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not (tmp_path / "started").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    assert process.returncode == 130
    assert list(temporary.iterdir()) == []
    assert str(temporary) not in Path("/proc/mounts").read_text()


@needs_namespaces
def test_base_system_is_created_by_one_process_at_a_time(tmp_path):
    """A process that finds the base system missing waits for another one that creates it."""
    log = tmp_path / "log"
    _, environment = with_debootstrap(tmp_path, f"echo start >>{log}; sleep 0.5; echo end >>{log}; exit 1")
    processes = [subprocess.Popen([SCRIPT, "true"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                 for _ in range(2)]
    for process in processes:
        process.communicate(timeout=60)
    assert log.read_text().split() == ["start", "end", "start", "end"]
