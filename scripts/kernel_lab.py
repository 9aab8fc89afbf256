"""The lab for scripts/kernel-mutants: Debian's kernel packages, changed modules, and runs of certify with them."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from kernel_changes import FOLDER, first_error

MODULE = {"rxe": "rdma_rxe.ko", "siw": "siw.ko"}
KILLED, CRASHED, SURVIVED = "killed", "crashed", "survived"
NOT_COMPILED, EQUIVALENT, LAB_ERROR, NOT_APPLIED = "did not compile", "equivalent", "lab error", "does not apply"
CONFIRMATIONS = 3  # unconfirmed differences after which only a completed run counts
PANIC = re.compile(r"panic|Oops|kernel BUG|BUG: (?!soft|workqueue)|general protection")
# Module families that the guests do not use.
UNUSED = ("drivers/gpu", "drivers/media", "drivers/staging", "drivers/iio", "drivers/usb", "drivers/hid", "drivers/isdn",
          "drivers/mtd", "drivers/hwmon", "drivers/input", "drivers/net/wireless", "drivers/net/ethernet", "drivers/net/usb",
          "sound")


class Missing(Exception):
    """A program, package or file is missing. The text names it."""


# ---- Results of certify

def signature(case):
    """Return the comparable results of a line of results.ndjson: {"verdict": …, "monitor RULE": …, "kernel": …}."""
    found = {"verdict": case["verdict"]}
    if "violated" in case:
        found["violated"] = case["violated"]["rule"]
    for frame in case.get("frames", []):
        found[f"frames {frame['rule']}"] = "violated"
    for rule, (passed, violated, inconclusive) in case.get("counters", {}).items():
        result = "violated" if violated else "passed" if passed else "inconclusive" if sum(inconclusive) else ""
        if result:
            found[f"monitor {rule}"] = result
    messages = case.get("kernel_messages", []) + ([case.get("actual", "")] if case["verdict"] == "error" else [])
    if any(PANIC.search(text) for text in messages):
        found["kernel"] = "panic"
    elif case.get("kernel_messages"):
        found["kernel"] = "messages"
    return found


class Journal:
    """Reads results.ndjson while certify writes it. Each complete line is parsed once."""

    def __init__(self, path):
        self.path, self.position, self.selected, self.run = path, 0, None, {}

    def update(self):
        """Read the new lines. Return whether there are any."""
        if not self.path.is_file() or self.path.stat().st_size <= self.position:
            return False
        with open(self.path, "rb") as file:
            file.seek(self.position)
            lines = file.read().split(b"\n")
        for line in lines[:-1]:
            self.position += len(line) + 1
            with contextlib.suppress(ValueError):
                self.add(json.loads(line))
        return len(lines) > 1

    def add(self, line):
        if self.selected is None:
            self.selected = len(line.get("cases", []))
        else:
            self.run[line["id"]] = signature(line)


class Baseline:
    """Results of the unchanged module: the values that each item of each case had in repeated runs."""

    def __init__(self, runs, counters, seconds):
        self.runs, self.counters, self.seconds = runs, counters, seconds

    def cases(self):
        return sorted(set.intersection(*(set(run) for run in self.runs))) if self.runs else []

    def flaky(self):
        """Return the cases whose results differ between the runs, each with the differing items."""
        found = {}
        for case in sorted(set().union(*self.runs)):
            items = set().union(*(run.get(case, {"ran": "no"}) for run in self.runs))
            if unstable := sorted(item for item in items if len({run.get(case, {}).get(item) for run in self.runs}) > 1):
                found[case] = unstable
        return found

    def differences(self, case, found):
        """Return the items of a case that have a value that no run of the unchanged module had."""
        runs = [run[case] for run in self.runs if case in run]
        if not runs:
            return []
        rows = []
        for item in sorted(set(found).union(*runs)):
            before = {run.get(item) for run in runs}
            if found.get(item) not in before:
                rows.append({"case": case, "item": item, "before": sorted(map(str, before)), "after": str(found.get(item))})
        # The monitors of a case that ends differently are a consequence.
        return [row for row in rows if row["item"] == "verdict"] or rows

    def missing(self, run):
        return [{"case": case, "item": "ran", "before": ["yes"], "after": "no"} for case in self.cases() if case not in run]

    def counter_differences(self, counters):
        """Return the counters that are zero in the other one only. Their values depend on the timing."""
        if not counters or not all(self.counters):
            return []
        rows = []
        for name in sorted(counters):
            before = {bool(run.get(name, 0)) for run in self.counters}
            if len(before) == 1 and bool(counters[name]) not in before:
                rows.append({"case": "", "item": f"counter {name}", "before": [str(run.get(name, 0)) for run in self.counters],
                             "after": str(counters[name])})
        return rows

    def to_json(self):
        return {"runs": self.runs, "counters": self.counters, "seconds": self.seconds}


# ---- Debian's packages

def require(program, package):
    if not shutil.which(program):
        raise Missing(f"{program} not found: install the package {package}")


def output_of(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise Missing(f"{Path(command[0]).name} failed: {first_error(done.stderr, 'E:')}")
    return done.stdout


class Kernel:
    """The kernel, its headers and the driver's source, unpacked from packages of one version."""

    def __init__(self, work, debs=None):
        self.folder, self.debs = work / "kernel", debs or work / "debs"
        for program, package in (("dpkg-deb", "dpkg"), ("xz", "xz-utils"), ("tar", "tar"), ("make", "make"),
                                 ("objcopy", "binutils")):
            require(program, package)
        images = sorted(self.debs.glob("linux-image-*.deb"))
        if not images and debs:
            raise Missing(f"{debs} has no package linux-image-RELEASE")
        images = images or self.download()
        self.release = images[-1].name.split("_")[0].removeprefix("linux-image-")
        self.version = images[-1].name.split("_")[1].replace("%3a", ":")
        self.series = ".".join(self.release.split(".")[:2])
        self.image = self.folder / f"vmlinuz-{self.release}"
        self.modules = self.folder / "modules" / self.release
        self.headers = self.folder / "tree/usr/src" / f"linux-headers-{self.release}"
        if not (self.folder / f"ready-{self.version}").exists():
            self.unpack()
        config = (self.headers / ".config").read_text()
        self.compiler = re.search(r'^CONFIG_CC_VERSION_TEXT="(\S+)', config, re.M).group(1)
        require(self.compiler, self.compiler.removeprefix("x86_64-linux-gnu-"))

    def download(self):
        """Download the packages with the configured sources of apt. Return the files of the image."""
        require("apt-get", "apt")
        found = re.search(r"Depends: linux-image-(\S+)", output_of("apt-cache", "depends", "linux-image-amd64"))
        if not found:
            raise Missing("apt has no package linux-image-amd64: run apt-get update on a Debian host for x86-64")
        release = found.group(1)
        series = ".".join(release.split(".")[:2])
        shown = output_of("apt-cache", "show", "--no-all-versions", f"linux-image-{release}")
        version = re.search(r"^Version: (\S+)", shown, re.M).group(1)
        names = [f"linux-image-{release}", f"linux-headers-{release}", f"linux-headers-{release.rpartition('-')[0]}-common",
                 f"linux-kbuild-{series}", f"linux-source-{series}"]
        print(f"downloading {', '.join(names)} {version}, about 220 MB", flush=True)
        self.debs.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.debs.parent) as folder:
            user = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []
            output_of("apt-get", "-qq", *user, "download", *(f"{name}={version}" for name in names), cwd=folder)
            for deb in Path(folder).iterdir():
                deb.replace(self.debs / deb.name)
        return sorted(self.debs.glob("linux-image-*.deb"))

    def deb(self, name):
        found = sorted(self.debs.glob(f"{name}_*.deb"))
        if not found:
            raise Missing(f"{self.debs} has no package {name}")
        return found[-1]

    def unpack(self):
        print(f"unpacking the kernel {self.release}", flush=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        tree = self.folder / "tree"
        tree.mkdir(parents=True)
        for name in (f"linux-headers-{self.release}", f"linux-headers-{self.release.rpartition('-')[0]}-common",
                     f"linux-kbuild-{self.series}"):
            output_of("dpkg-deb", "-x", self.deb(name), tree)
        self.relocate(tree)
        image = self.folder / "image"
        image.mkdir()
        excluded = " ".join(f"--exclude='*/kernel/{family}/*'" for family in UNUSED)
        self.shell(f"dpkg-deb --fsys-tarfile '{self.deb(f'linux-image-{self.release}')}' | tar -x -C '{image}' {excluded}")
        self.image = (image / "boot" / self.image.name).replace(self.image)
        self.modules.parent.mkdir()
        (image / "lib/modules" / self.release).replace(self.modules)
        shutil.rmtree(image)
        (self.folder / "source").mkdir()
        names = " ".join(f"'*/{FOLDER}/{device}/*'" for device in MODULE)
        archive = f"./usr/src/linux-source-{self.series}.tar.xz"
        self.shell(f"dpkg-deb --fsys-tarfile '{self.deb(f'linux-source-{self.series}')}' | tar -xO {archive} | xz -dc -T0 |"
                   f" tar -x -C '{self.folder}/source' --strip-components=1 --wildcards {names}")
        (self.folder / f"ready-{self.version}").touch()

    def shell(self, command):
        output_of("bash", "-o", "pipefail", "-c", command)

    def relocate(self, tree):
        """The headers refer to each other by their installed paths."""
        installed = re.compile(r"(?<![\w./-])/usr/(src|lib)/linux-")
        for path in self.headers.rglob("*"):
            if path.name in ("Makefile", ".kernelvariables") or path.suffix == ".mk":
                if path.is_file() and not path.is_symlink():
                    path.write_text(installed.sub(rf"{tree}/usr/\1/linux-", path.read_text()))
        for link in [path for path in (tree / "usr/src").rglob("*") if path.is_symlink()]:
            target = os.readlink(link)
            if target.startswith("/usr/"):
                link.unlink()
                link.symlink_to(f"{tree}{target}")

    def sources(self, device):
        folder = self.folder / "source" / FOLDER / device
        return {path.name: path.read_text() for path in sorted(folder.iterdir()) if path.suffix in (".c", ".h")}


def archive_of(name, content):
    """Return a cpio archive (newc) with one file, padded so that it can follow another archive."""
    def entry(path, mode, data):
        fields = [1 if data else 0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path) + 1, 0]
        head = b"070701" + b"".join(b"%08X" % value for value in fields) + path.encode() + b"\0"
        return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)

    return entry(name, 0o100644, content) + entry("TRAILER!!!", 0, b"")


# ---- Runs in the lab

def counters_of(runtime, name):
    """Return the counters of the device in the guest that uses the runtime directory, read through a free agent channel."""
    for path in Path(runtime).rglob("agent.1"):
        with contextlib.suppress(OSError, ValueError, KeyError), socket.socket(socket.AF_UNIX) as channel:
            channel.settimeout(5)
            channel.connect(str(path))
            stream = channel.makefile("rw")

            def call(number, command, stream=stream, **arguments):
                stream.write(json.dumps({"id": number, "do": command, **arguments}) + "\n")
                stream.flush()
                while (answer := json.loads(stream.readline())).get("id") != number:
                    pass
                return answer["result"]

            call(1, "hello", protocol=1, controller="kernel-mutants")
            device = call(2, "open", name=name)["device"]
            found = call(3, "counters", device=device)
            call(4, "bye")
            return {**found["counters"], **found["hw_counters"], **found["device_hw_counters"]}
    return None


@dataclass
class Outcome:
    """A run of certify. `ended` is "", "stopped" after a difference, or "time limit"."""
    status: int
    ended: str
    text: str  # the end of the messages
    run: dict
    counters: dict


class Certifier:
    """Runs certify with one kernel, module directory and cache of the lab."""

    def __init__(self, program, kernel, device, options, folder, cache):
        self.program, self.kernel, self.device, self.options = program, kernel, device, options
        self.folder, self.cache, self.process = folder, cache, None

    def run(self, report, *more, limit, stop=lambda run: False, resume=False):
        """Run certify with --report, and end it as soon as `stop` returns true for the results so far."""
        if not resume:
            shutil.rmtree(report, ignore_errors=True)
        return self.run_command("--resume" if resume else "--report", report, "--no-expected", *self.options, *more,
                                journal=report / "results.ndjson", limit=limit, stop=stop)

    def preflight(self, limit):
        """Boot the guest and check the setup. This builds the image of the lab."""
        return self.run_command("--preflight", journal=self.folder / "no-results", limit=limit, stop=lambda run: False)

    def run_command(self, *options, journal, limit, stop):
        command = [self.program, "certify", "--device", f"lab:{self.device}", "--kernel", self.kernel.image,
                   "--modules", self.kernel.modules, *options]
        # Paths of Unix sockets have at most 107 characters.
        with tempfile.TemporaryDirectory(prefix="kernel-mutants-") as runtime, \
                open(self.folder / "certify.log", "w+", encoding="utf-8", errors="replace") as log:
            environment = {**os.environ, "XDG_CACHE_HOME": str(self.cache), "XDG_RUNTIME_DIR": runtime}
            self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=subprocess.STDOUT, env=environment, start_new_session=True)
            results = Journal(journal)
            try:
                ended, counters = self.watch(results, runtime, limit, stop)
            finally:
                self.end()
            log.seek(0)
            text = log.read()[-4000:]
        results.update()
        return Outcome(self.process.returncode, ended, text, results.run, counters)

    def watch(self, results, runtime, limit, stop):
        begin, counters, read = time.monotonic(), None, 0
        while self.process.poll() is None:
            if time.monotonic() - begin > limit:
                return "time limit", counters
            if results.update():
                if stop(results.run):
                    return "stopped", counters
                # Values at the end of the run: nine tenths of the cases have a result.
                if len(results.run) >= 0.9 * results.selected and time.monotonic() - read > 3:
                    counters, read = counters_of(runtime, f"{self.device}0") or counters, time.monotonic()
            time.sleep(0.3)
        return "", counters

    def end(self):
        for number, seconds in ((signal.SIGINT, 30), (signal.SIGKILL, 30)):
            if self.process and self.process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(seconds)


class Job:
    """A copy of the driver's source, its objects, and a cache of the lab with the changed module."""

    def __init__(self, folder, kernel, device, program, options):
        self.folder, self.kernel, self.device, self.options = folder, kernel, device, options
        self.tree, self.cache, self.sources = folder / device, folder / "cache", kernel.sources(device)
        self.built = self.folder / MODULE[device]
        self.digests, self.baseline = {}, None
        self.tree.mkdir(parents=True, exist_ok=True)
        source = kernel.folder / "source" / FOLDER / device
        for path in source.iterdir():
            copy = self.tree / path.name
            if not copy.is_file() or copy.read_bytes() != path.read_bytes():
                shutil.copyfile(path, copy)
        self.certifier = Certifier(program, kernel, device, options.certify_options, folder, self.cache)

    def make(self):
        """Compile the module. Return an error message, or an empty text."""
        self.built.unlink(missing_ok=True)
        done = subprocess.run(["make", "-C", str(self.kernel.headers), f"M={self.tree}", f"CC={self.kernel.compiler}",
                               f"CONFIG_RDMA_{self.device.upper()}=m", "modules"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              env={**os.environ, "LC_ALL": "C"})
        if done.returncode:
            return first_error(done.stdout, "error:") or "make failed"
        subprocess.run(["objcopy", "--strip-debug", self.tree / MODULE[self.device], self.built], check=True)
        return ""

    def code(self):
        """Return the digest of each object without debug information."""
        found, stripped = {}, self.folder / "stripped.o"
        for path in sorted(self.tree.glob("*.c")):
            if path.with_suffix(".o").is_file() and not path.name.endswith(".mod.c"):
                subprocess.run(["objcopy", "--strip-debug", path.with_suffix(".o"), stripped], check=True)
                found[path.name] = hashlib.sha256(stripped.read_bytes()).hexdigest()
        return found

    def prepare(self):
        """Compile the unchanged module."""
        if error := self.make():
            raise Missing(f"the unchanged module does not compile: {error}")
        self.digests = self.code()

    def build(self, change):
        """Compile the module with the change. Return "ok" or a result, and an error message."""
        try:
            for name, text in change.changed.items():
                (self.tree / name).write_text(text)
            if error := self.make():
                return NOT_COMPILED, error
            return (EQUIVALENT, "the compiler generates the same code") if self.code() == self.digests else ("ok", "")
        finally:
            for name in change.changed:
                (self.tree / name).write_text(self.sources[name])

    def install(self, layers):
        """Make a cache of the lab whose module layer is followed by the changed module. Later archives take precedence."""
        shutil.rmtree(self.cache, ignore_errors=True)
        folder = self.cache / "rdmawire/lab"
        folder.mkdir(parents=True)
        for layer in layers.iterdir():
            if not layer.name.startswith("kernel-own-"):
                (folder / layer.name).symlink_to(layer)
                continue
            (folder / layer.name).mkdir()
            for path in layer.iterdir():
                if path.name != "modules.cpio":
                    (folder / layer.name / path.name).symlink_to(path)
            archive = (layer / "modules.cpio").read_bytes()
            name = f"lib/modules/{self.kernel.release}/kernel/{FOLDER}/{self.device}/{MODULE[self.device]}"
            (folder / layer.name / "modules.cpio").write_bytes(
                archive + b"\0" * (-len(archive) % 4) + archive_of(name, self.built.read_bytes()))

    def examine(self, change, layers):
        """Return the row of a change."""
        begin = time.monotonic()
        row = {"id": change.id, "file": change.file, "line": change.line, "kind": change.kind, "diff": change.diff,
               "build": "ok", "verdict": "", "detail": "", "differing": 0, "differences": [], "unconfirmed": []}
        row["build"], row["detail"] = (NOT_APPLIED, change.error) if change.error else self.build(change)
        row["build_seconds"] = round(time.monotonic() - begin, 1)
        if row["build"] == "ok":
            self.install(layers)
            row.update(self.compare())
        else:
            row["verdict"] = row["build"]
        row["seconds"] = round(time.monotonic() - begin, 1)
        return row

    def compare(self):
        """Certify the changed module. Return the verdict and the differences from the unchanged module."""
        ignored, unconfirmed, boots, resume = set(), [], 0, False
        for attempt in range(2 * CONFIRMATIONS):
            early = self.options.first and attempt < CONFIRMATIONS
            outcome = self.certifier.run(self.folder / "report", limit=self.options.timeout, resume=resume,
                                         stop=lambda run: early and bool(self.differing(run, ignored)))
            rows = self.differing(outcome.run, ignored)
            if not outcome.run and outcome.ended != "time limit":
                if verdict := failed_boot(outcome, boots):
                    return verdict
                boots, resume = boots + 1, False
                continue
            resume = True
            if crash := crash_of(outcome, self.baseline):
                return result(CRASHED, crash, rows, unconfirmed)
            if not outcome.ended:
                rows += [row for row in self.baseline.missing(outcome.run) if (row["case"], row["item"]) not in ignored]
            if confirmed := self.confirmed(rows):
                return result(KILLED, describe(confirmed[0]), confirmed + [row for row in rows if row not in confirmed],
                              unconfirmed)
            unconfirmed += rows
            ignored.update((row["case"], row["item"]) for row in rows)
            if not outcome.ended:
                return self.compare_counters(outcome, unconfirmed)
        return result(SURVIVED, "no difference was confirmed", [], unconfirmed)

    def differing(self, run, ignored):
        return [row for case, found in run.items() for row in self.baseline.differences(case, found)
                if (row["case"], row["item"]) not in ignored]

    def confirmed(self, rows):
        """Return the differences that occur again in a separate run of their cases, of at most 24 cases."""
        found = [row for row in rows if row["item"] == "ran"]
        cases = list(dict.fromkeys(row["case"] for row in rows if row["item"] != "ran"))[:24]
        for start in range(0, 0 if found else len(cases), 8):
            only = [part for case in cases[start:start + 8] for part in ("--only", case)]
            again = self.certifier.run(self.folder / "confirm", *only, limit=self.options.timeout)
            repeated = {(row["case"], row["item"], row["after"]) for row in self.differing(again.run, set())}
            if found := [row for row in rows if (row["case"], row["item"], row["after"]) in repeated]:
                break
            if not again.run or crash_of(again, self.baseline):
                return rows
        return found

    def compare_counters(self, outcome, unconfirmed):
        rows = self.baseline.counter_differences(outcome.counters)
        if rows:
            again = self.certifier.run(self.folder / "confirm", limit=self.options.timeout)
            names = {row["item"] for row in self.baseline.counter_differences(again.counters)}
            unconfirmed = unconfirmed + [row for row in rows if row["item"] not in names]
            rows = [row for row in rows if row["item"] in names]
        return result(KILLED if rows else SURVIVED, describe(rows[0]) if rows else "", rows, unconfirmed)


def describe(row):
    return f"{row['case']} {row['item']}: {' or '.join(row['before'])} → {row['after']}".strip()


def result(verdict, detail, rows, unconfirmed):
    return {"verdict": verdict, "detail": detail, "differing": len({row["case"] for row in rows}), "differences": rows[:20],
            "unconfirmed": unconfirmed[:20]}


def failed_boot(outcome, boots):
    """Return the result of a failed boot. The second one is an error of the lab, unless the guest panics or lacks a device."""
    detail = first_error(outcome.text, "lab:") or f"certify ended with status {outcome.status}"
    if "setup of the guest failed" in outcome.text or PANIC.search(outcome.text):
        return result(CRASHED, detail, [], [])
    return result(LAB_ERROR, detail, [], []) if boots else None


def crash_of(outcome, baseline):
    """Return why the guest counts as crashed, or an empty text."""
    if outcome.ended == "time limit":
        return f"the time limit was exceeded after {len(outcome.run)} cases"
    usual = {case for run in baseline.runs for case, found in run.items() if found.get("kernel") == "panic"}
    for case, found in outcome.run.items():
        if found.get("kernel") == "panic" and case not in usual:
            return f"{case}: kernel panic or lockup"
    return first_error(outcome.text, "lost") or "the device was lost" if outcome.status == 3 else ""
