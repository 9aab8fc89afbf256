#!/usr/bin/python3
"""rdmawire lab: errors, and no leftovers after each error.

usage: lab_test.py RDMAWIRE [ROUNDS]

ROUNDS is the number of interruptions at random moments (5). Exit status 77: skipped, with the reason.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RDMAWIRE = sys.argv[1]
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
RUNTIME = Path(tempfile.mkdtemp(prefix="labt"))
ENVIRONMENT = {**os.environ, "XDG_RUNTIME_DIR": str(RUNTIME)}
started = []
LABS = RUNTIME / "rdmawire" / "lab"


def lab(*arguments, timeout=240, **options):
    environment = {**ENVIRONMENT, **options.pop("environment", {})}
    return subprocess.run(
        [RDMAWIRE, "lab", *arguments], capture_output=True, text=True, timeout=timeout, env=environment, **options
    )


def start(*arguments, **options):
    environment = {**ENVIRONMENT, **options.pop("environment", {})}
    process = subprocess.Popen(
        [RDMAWIRE, "lab", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **options,
    )
    started.append(process)
    return process


def own_processes():
    """Other processes with the runtime directory of this test."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if f"XDG_RUNTIME_DIR={RUNTIME}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:100])
        except OSError:
            continue
    return found


def expect_no_leftovers():
    deadline = time.monotonic() + 10
    while own_processes() and time.monotonic() < deadline:
        time.sleep(0.05)  # the kernel terminates orphaned processes with a delay
    assert not own_processes(), own_processes()
    left = list(LABS.iterdir()) if LABS.exists() else []
    assert not left, left


def usage():
    for wrong in (
        [],
        ["run"],
        ["boot", "--device", "mlx5"],
        ["run", "--name", "../x", "--", "true"],
        ["run", "--kernel", "/no/such/kernel", "--", "true"],
        ["run", "--kernel", RDMAWIRE, "--", "true"],
        ["run", "--guests", "2", "--faults", "drp", "--", "true"],
        ["run", "--in", "nowhere", "--", "true"],
    ):
        done = lab(*wrong)
        assert done.returncode == 2 and done.stderr and not done.stdout, (wrong, done)
    assert "nowhere" in lab("run", "--in", "nowhere", "--", "true").stderr
    assert "Examples:" in lab("--help").stdout


def run_forwards_streams_and_status():
    done = lab("run", "--", "sh", "-c", "cat; echo err >&2; exit 42", input="in\n")
    assert done.returncode == 42 and done.stdout == "in\n" and done.stderr.endswith("err\n"), done
    assert "is running:" in done.stderr, "the boot time is reported"
    expect_no_leftovers()


def boot_runs_until_interrupted():
    first = start("boot", "--json", "--guests", "2", "--name", "pair", "-o", str(RUNTIME / "x.pcapng"))
    described = ""
    while not described.endswith("\n}\n"):
        line = first.stdout.readline()
        assert line, first.stderr.read()
        described += line
    described = json.loads(described)
    assert described["name"] == "pair" and len(described["guests"]) == 2, described
    status = json.loads(lab("status", "--json").stdout)
    assert status["labs"] == [described] and status["cache"]["bytes"] > 1e6, status
    assert "pair" in lab("status").stdout
    second = lab("run", "--name", "pair", "--", "true")
    assert second.returncode == 3 and "a lab named pair is running" in second.stderr, second
    # A switch connects the guests and records their traffic.
    ping = lab("run", "--in", "pair/2", "--", "ping", "-c", "1", "-W", "10", "10.77.0.1")
    assert ping.returncode == 0, ping
    shell = lab("shell", "--in", "pair", input="echo $((6 * 7)); exit\n")
    assert shell.returncode == 0 and "42" in shell.stdout, shell
    # A second lab runs in parallel with another name.
    other = lab("run", "--", "hostname")
    assert other.returncode == 0, other
    first.send_signal(signal.SIGINT)
    assert first.wait(30) == 0, first.stderr.read()
    counted = subprocess.run(
        [RDMAWIRE, "dissect", "--filter", "icmp or arp", str(RUNTIME / "x.pcapng")], capture_output=True, text=True
    )
    assert counted.returncode == 0 and counted.stdout.count("\n") >= 2, counted
    expect_no_leftovers()


def kernel_panic_is_reported():
    done = lab("run", "--", "sh", "-c", "echo c >/proc/sysrq-trigger")
    assert done.returncode == 3 and "panicked" in done.stderr and "sysrq triggered crash" in done.stderr, done
    expect_no_leftovers()


def without_qemu():
    with tempfile.TemporaryDirectory() as path:
        for program in ("bash", "sh", "true"):
            os.symlink(shutil.which(program), Path(path) / program)
        done = lab("run", "--", "true", environment={"PATH": path})
    assert done.returncode == 3 and "install the package qemu-system-x86" in done.stderr, done
    expect_no_leftovers()


def a_full_disk():
    """The cache is on a small file system."""
    small = RUNTIME / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(small)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        print("not tested, needs root: a full disk")
        return
    try:
        done = lab("run", "--", "true", environment={"XDG_CACHE_HOME": str(small)})
        assert done.returncode == 3 and "the disk is full" in done.stderr, done
        assert not list((small / "rdmawire" / "lab").iterdir())
    finally:
        subprocess.run(["umount", str(small)], check=True)
    expect_no_leftovers()


def without_a_network():
    """Packages cannot be downloaded because the mirrors are unreachable."""
    with tempfile.TemporaryDirectory() as path:
        configuration = Path(path) / "apt.conf"
        configuration.write_text(
            'Acquire::http::Proxy "http://127.0.0.1:9";\nAcquire::https::Proxy "http://127.0.0.1:9";\n'
            'Acquire::Retries "0";\n'
        )
        done = lab("run", "--", "true", environment={"XDG_CACHE_HOME": path, "APT_CONFIG": str(configuration)})
        assert done.returncode == 3 and "check the network connection" in done.stderr, done
        assert not list((Path(path) / "rdmawire" / "lab").iterdir())
    expect_no_leftovers()


def interrupted_at_any_moment(seed):
    generator = random.Random(seed)
    for number in range(ROUNDS):
        which = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL][number % 3]
        wait = generator.uniform(0, 6)
        process = start("run", "--device", "rxe", "--", "sleep", "1000")
        time.sleep(wait)
        process.send_signal(which)
        status = process.wait(30)
        assert status in (-which, 128 + which), (status, which, wait, process.stderr.read())
        if which == signal.SIGKILL:
            # The next command removes the leftovers.
            assert "0 labs are running" in lab("clean").stdout
        expect_no_leftovers()


def interrupted_while_building(seed):
    generator = random.Random(seed)
    for which in (signal.SIGINT, signal.SIGKILL):
        with tempfile.TemporaryDirectory() as path:
            process = start("run", "--", "true", environment={"XDG_CACHE_HOME": path})
            time.sleep(generator.uniform(0.5, 4))
            process.send_signal(which)
            status = process.wait(30)
            assert status in (-which, 128 + which), (status, which, process.stderr.read())
            if which == signal.SIGKILL:
                assert lab("clean", "--cache", environment={"XDG_CACHE_HOME": path}).returncode == 0
            left = [entry.name for entry in (Path(path) / "rdmawire" / "lab").glob(".building-*")]
            assert not left, left
        assert lab("clean").returncode == 0
        expect_no_leftovers()


def main():
    if not shutil.which("qemu-system-x86_64"):
        print("skipped: requires qemu-system-x86_64 (package qemu-system-x86)")
        return 77
    usage()
    ready = lab("run", "--", "true", timeout=600)
    if ready.returncode == 3 and "check the network connection" in ready.stderr:
        print(f"skipped: needs a network for the guest's packages: {ready.stderr}")
        return 77
    assert ready.returncode == 0, ready
    seed = int(os.environ.get("RDMAWIRE_SEED", random.randrange(1 << 32)))
    print(f"seed {seed}")
    for part in (
        run_forwards_streams_and_status,
        boot_runs_until_interrupted,
        kernel_panic_is_reported,
        without_qemu,
        a_full_disk,
        without_a_network,
        lambda: interrupted_at_any_moment(seed),
        lambda: interrupted_while_building(seed),
    ):
        began = time.monotonic()
        part()
        print(f"{getattr(part, '__name__', part)} {time.monotonic() - began:.1f} s", flush=True)
    return 0


try:
    sys.exit(main())
finally:
    for process in started:
        process.kill()  # no process remains after success
        process.wait()
    shutil.rmtree(RUNTIME, ignore_errors=True)
