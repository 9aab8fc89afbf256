"""Calls every public function, method and property with None, unfinished, random and extreme arguments.

    python hostile_calls.py LOG --seed 1 --seconds 10

LOG contains the current call, for the report of a crash. A timer interrupts each call as Ctrl-C does. Ends with status 1
if an interrupted call returns too late or a call raises an internal error.
"""

import argparse
import faulthandler
import gc
import inspect
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

import rdmawire
import sample_frames
from rdmawire import _core, conformance, fuzz, iwarp

INTERRUPT_AFTER = 0.4
#: Maximum seconds from the interruption to the end of a call. The default allows for other processes on the host.
MOST_DELAY = 0.5 * float(os.environ.get("RDMAWIRE_SLOWDOWN", "6"))
#: Functions with effects outside of this process: they run programs or resolve names.
EXCLUDED = {
    "agent", "lab", "open_device", "_open_device", "load_core", "main", "open_live", "LiveCapture", "follow",
    "LiveAnalysis", "FollowRun", "certify", "_certify", "run", "fuzz", "Session", "replay", "areplay", "optional",
    "Process", "Target", "TcpTarget", "UdpTarget", "merge_corpus", "minimize_corpus",
}  # fmt: skip
#: Internal texts of pybind11 and nlohmann::json, which users must not see.
INTERNAL = re.compile(r"Unable to cast|json\.exception|std::|incompatible (function|constructor)|basic_string|vector::")


class Interrupted(Exception):
    """The timer of a call has expired."""


running = False


def on_timer(_signal, _frame):
    global running
    if running:
        running = False
        raise Interrupted


SAMPLES = Path(sample_frames.SAMPLES)
EXTREMES = [
    None, -1, 0, 1, 2, 7, 255, 1 << 16, (1 << 31) - 1, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 200,
    -(1 << 63), 0.5, 1.5, -1.0, 1e300, float("nan"), float("inf"), "", "x", "rc", "bth.psn", "10.0.0.2", "\udcff",
    "a\0b", "\x1b[2J", "é" * 5000, b"", b"\0" * 64, bytearray(b"x"), memoryview(b"abc"), [], [None], ["x"], [1 << 64], (),
    {}, {"a": None}, {1: 2}, set(), True, False, object(), int, lambda *a: None, lambda: 1 / 0, Ellipsis, NotImplemented,
]  # fmt: skip


def live_objects():
    """Return open objects of many classes."""
    device, stream_device = rdmawire.reference(), rdmawire.reference(family="iwarp")
    domain, cq, qp = device.domain(), device.completion_queue(), device.rc_qp()
    stream = stream_device.stream()
    wires = rdmawire.wire_pair()
    capture = rdmawire.open_capture(SAMPLES / "rping.pcap")
    report = rdmawire.analyze(SAMPLES / "rping.pcap")
    check = rdmawire.check(SAMPLES / "rping.pcap")
    packet = next(capture.packets())
    frame = next(iter(capture))
    table = capture.table(["bth.psn", "frame.time"])
    objects = [device, stream_device, domain, cq, qp, qp.mr, qp.wire, stream, *wires, capture, report, check, packet,
               frame, frame[0], table, rdmawire.Opcode.RC_SEND_ONLY, rdmawire.Syndrome(0), rdmawire.BTH.psn,
               rdmawire.header_table(rdmawire.BTH), rdmawire.header_table(rdmawire.BTH).fields[0],
               rdmawire.opcode_row(4), capture.frames(), capture.packets(), iter(table), capture.facts(),
               conformance.silence, iwarp.a_fin(), iwarp.send(1), rdmawire.BTH(psn=3)]  # fmt: skip
    cores = [getattr(one, "_core", None) for one in objects]
    return [one for one in [*objects, *cores] if one is not None]


def public_functions():
    """Return (text, function) of the functions and classes of all modules."""
    found = {}
    for module in (rdmawire, _core, conformance, iwarp, fuzz, _core.iwarp, _core.fuzz):
        for name, value in vars(module).items():
            if callable(value) and name not in EXCLUDED and not name.startswith("__"):
                if not getattr(value, "__module__", "").startswith("rdmawire"):
                    continue
                if isinstance(value, type) and issubclass(value, BaseException):
                    continue
                found.setdefault(id(value), (f"{module.__name__}.{name}", value))
    return list(found.values())


def classes(functions, objects):
    known = {value for _, value in functions if isinstance(value, type)} | {type(one) for one in objects}
    return sorted(known, key=lambda one: f"{one.__module__}.{one.__qualname__}")


def members(cls):
    """Return (name, descriptor) of the members of a class that are methods or properties."""
    for base in cls.__mro__:
        if base.__module__.startswith("rdmawire"):
            for name, member in vars(base).items():
                if name not in EXCLUDED and name not in ("__del__", "__init_subclass__", "__subclasshook__"):
                    yield name, member


def unfinished(cls):
    """Return an object whose constructor was not called, or None."""
    try:
        return cls.__new__(cls)
    except Exception:
        return None


def parameters(function):
    """Return pybind11's or Python's parameters: names and texts of types."""
    text = (getattr(function, "__doc__", None) or "").strip().splitlines()
    match = re.match(r"\w+\((.*)\) -> ", text[0]) if text else None
    if match:
        return [tuple(part.strip().partition(":")[::2]) for part in re.split(r", (?=\w+:|\*)", match[1]) if part]
    try:
        return [(one.name, str(one.annotation)) for one in inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return [("", "")] * 2


class Calls:
    def __init__(self, log, rng):
        self.log, self.rng = log, rng
        self.count, self.late, self.internal = 0, [], []
        self.objects = live_objects()
        self.functions = public_functions()
        self.classes = classes(self.functions, self.objects)
        self.unfinished = [one for one in map(unfinished, self.classes) if one is not None]

    def value(self, kind):
        rng = self.rng
        if rng.random() < 0.6:
            if "int" in kind:
                return rng.choice([one for one in EXTREMES if isinstance(one, int)])
            if "float" in kind or "timeout" in kind:
                return rng.choice([0, 0.0, 0.001, 1e300, float("nan"), None, 1 << 80])
            if "str" in kind and "List" not in kind and "list" not in kind:
                return rng.choice([one for one in EXTREMES if isinstance(one, str)])
            if "List" in kind or "list" in kind or "Iterable" in kind:
                return [rng.choice(EXTREMES) for _ in range(rng.randrange(4))]
            names = re.findall(r"\w+", kind)
            fitting = [one for one in self.objects if type(one).__name__ in names]
            if fitting:
                return rng.choice(fitting)
        if rng.random() < 0.2:
            return rng.choice(self.objects)
        if rng.random() < 0.1:
            return rng.choice(self.unfinished)
        return rng.choice(EXTREMES)

    def call(self, text, function, arguments, keywords=None):
        shown = ", ".join(short(one) for one in arguments)
        self.log.seek(0)
        self.log.truncate()
        self.log.write(f"{text}({shown}, **{short(keywords or {})})\n")
        self.log.flush()
        self.count += 1
        global running
        begin = time.monotonic()
        try:
            running = True
            signal.setitimer(signal.ITIMER_REAL, INTERRUPT_AFTER)
            result = function(*arguments, **(keywords or {}))
            if hasattr(result, "__next__"):
                for _ in zip(range(3), result):
                    pass
            elif inspect.iscoroutine(result):
                result.close()
            running = False
        except Exception as error:
            running = False
            try:
                message = f"{type(error).__name__}: {error}"
            except Exception:  # the text of a KeyError fails if its key is a queue pair made of other objects
                message = type(error).__name__
            if INTERNAL.search(message):
                self.internal.append(f"{text}({shown}): {message[:300]}")
        except BaseException:  # SystemExit, outcomes of pytest
            running = False
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        elapsed = time.monotonic() - begin
        if elapsed > INTERRUPT_AFTER + MOST_DELAY:
            self.late.append(f"{elapsed:.1f} s: {text}({shown}, **{short(keywords or {})})")

    def member(self, cls, name, member, subject, values):
        text = f"{cls.__module__}.{cls.__qualname__}.{name}"
        if isinstance(member, property):
            self.call(text, member.fget, [subject])
            if member.fset is not None:
                self.call(f"{text}=", member.fset, [subject, *(values or [None])][:2])
            return
        if isinstance(member, (staticmethod, classmethod)):
            member = getattr(cls, name)
            self.call(text, member, values)
        elif callable(member):
            self.call(text, member, [subject, *values])
        elif hasattr(member, "__get__"):
            self.call(text, member.__get__, [subject, cls])

    def systematic(self):
        """Every function with None for each argument, every method of None and of unfinished objects."""
        for text, function in self.functions:
            for count in range(5):
                self.call(text, function, [None] * count)
            known = [name for name, _ in parameters(function) if name.isidentifier() and name != "self"]
            self.call(text, function, [], dict.fromkeys(known))
        for cls in self.classes:
            subjects = [None, unfinished(cls), *[one for one in self.objects if type(one) is cls][:1]]
            for name, member in members(cls):
                for subject in subjects:
                    for count in range(4):
                        if not (name == "close" and subject in self.objects):
                            self.member(cls, name, member, subject, [None] * count)
        self.objects = live_objects()

    def random(self, end):
        rng = self.rng
        all_members = [(cls, *one) for cls in self.classes for one in members(cls)]
        while time.monotonic() < end:
            if rng.random() < 0.3:
                text, function = rng.choice(self.functions)
                wanted = [one for one in parameters(function) if one[0] != "self"]
                values = [self.value(kind) for _, kind in wanted]
                if rng.random() < 0.5:
                    names = [name.lstrip("*") for name, _ in wanted]
                    self.call(text, function, [], dict(zip(names, values, strict=True)))
                else:
                    self.call(text, function, values[: rng.randrange(len(values) + 1)])
            else:
                cls, name, member = rng.choice(all_members)
                fitting = [one for one in self.objects if isinstance(one, cls)]
                subject = rng.choice(fitting) if fitting and rng.random() < 0.9 else rng.choice(EXTREMES)
                wanted = parameters(member)[1:]
                values = [self.value(kind) for _, kind in wanted]
                self.member(cls, name, member, subject, values)
            if self.count % 2000 == 0:  # many objects are closed at this point
                self.objects = live_objects()
                gc.collect()


def short(value):
    try:
        text = repr(value)
    except BaseException as error:
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return text if len(text) < 100 else text[:100] + "…"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("log")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    faulthandler.enable()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, on_timer)
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    with tempfile.TemporaryDirectory() as directory, open(options.log, "w", encoding="utf-8", errors="replace") as log:
        os.chdir(directory)
        with open(os.devnull, "r+b") as null:
            os.dup2(null.fileno(), 0)
        sys.stdout = open(os.devnull, "w")  # show() prints
        calls = Calls(log, random.Random(options.seed))
        calls.systematic()
        systematic = calls.count
        calls.random(time.monotonic() + options.seconds)
        os.chdir("/")
    sys.stdout = sys.__stdout__
    print(f"{calls.count} calls, {systematic} systematic, {len(calls.classes)} classes, {len(calls.functions)} functions")
    for title, found in (("late", calls.late), ("internal error", calls.internal)):
        for one in sorted(set(found))[:40]:
            print(f"{title}: {one}")
    sys.stdout.flush()
    os._exit(1 if calls.late or calls.internal else 0)


if __name__ == "__main__":
    main()
