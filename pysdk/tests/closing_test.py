"""Every public class with close(): closed twice, used after close, and used in a forked child.

The classes are found in the package's modules. A new class must be added to FACTORIES and AVAILABLE_AFTER_CLOSE.
"""

import contextlib
import gc
import importlib
import inspect
import itertools
import os
import pkgutil
import threading

import pytest
import rdmawire
from rdmawire import ClosedError
from rdmawire.closing import Closes
from sample_captures import RPING


def classes():
    """Return the public classes with close() of the package and its modules."""
    found = {}
    names = ["rdmawire"] + [module.name for module in pkgutil.walk_packages(rdmawire.__path__, "rdmawire.")]
    for name in names:
        if name.endswith("__main__") or "._core" in name or name.startswith("rdmawire.fuzz"):
            continue  # tested in python_fuzz_test.py
        for member, thing in vars(importlib.import_module(name)).items():
            if inspect.isclass(thing) and hasattr(thing, "close") and not member.startswith("_") and not member.endswith("Base"):
                if thing.__module__.startswith("rdmawire") and thing is not Closes:
                    found[thing.__name__] = thing
    return found


@contextlib.contextmanager
def at_device(make, family=None):
    with rdmawire.reference(**({"family": family} if family else {})) as device:
        yield make(device)


@contextlib.contextmanager
def live():
    if os.geteuid() != 0:
        pytest.skip("live capture requires root")
    yield rdmawire.open_live("lo")


FACTORIES = {
    "Capture": lambda tmp: contextlib.nullcontext(rdmawire.open_capture(RPING)),
    "CaptureWriter": lambda tmp: contextlib.nullcontext(rdmawire.create_capture(tmp / "x.pcapng")),
    "CompletionQueue": lambda tmp: at_device(lambda device: device.completion_queue(4)),
    "Device": lambda tmp: contextlib.nullcontext(rdmawire.reference()),
    "LiveAnalysis": lambda tmp: contextlib.nullcontext(rdmawire.follow(RPING)),
    "LiveCapture": lambda tmp: live(),
    "ProtectionDomain": lambda tmp: at_device(lambda device: device.domain()),
    "QueuePair": lambda tmp: at_device(lambda device: device.rc_qp()),
    "StreamQueuePair": lambda tmp: at_device(lambda device: device.stream(), "iwarp"),
    "Wire": lambda tmp: contextlib.nullcontext(rdmawire.wire_pair()[0]),
}
#: Members that work after close(). All others raise ClosedError or reject their arguments.
AVAILABLE_AFTER_CLOSE = {
    "": {"close", "closed"},
    "Capture": {"name"},
    "CaptureWriter": {"name", "records"},
    "CompletionQueue": set(),
    "Device": {"gone", "name", "record", "save", "wire"},  # recorded frames remain
    "LiveAnalysis": {"name", "stop", "read_errors"},
    "LiveCapture": {"name", "statistics"},
    "ProtectionDomain": {"device"},
    "QueuePair": {"cq", "device", "frame", "inbox", "mr", "psn", "service", "wire"},
    "StreamQueuePair": {"cq", "device", "frame", "inbox", "mr", "stream"},
    "Wire": {"name", "record", "save"},
}
#: Argument values to try.
VALUES = (1, "x", b"bytes", ["x"], None)


def test_every_closable_class_is_listed():
    assert sorted(classes()) == sorted(FACTORIES)
    core = {name for name, thing in vars(rdmawire._core).items() if inspect.isclass(thing) and hasattr(thing, "close")}
    # Internal classes. An object of a public class owns each of their objects.
    assert core == {
        "CaptureSource", "CaptureWriter", "FollowRun", "LiveCapture", "_CompletionQueue", "_Device", "_Domain",
        "_QueuePair", "_QueuePairPart", "_StreamPair", "_Wire",
    }  # fmt: skip


def use(thing, name):
    """Call a member with each combination of VALUES. Return one entry per call: the exception, or None."""
    outcomes = []

    def attempt(work):
        try:
            result = work()
            if inspect.isgenerator(result) or (hasattr(result, "__next__") and result is not thing):
                next(result, None)
            if inspect.iscoroutine(result):
                result.close()
                raise TypeError("coroutines are not awaited")
            outcomes.append(None)
            return result
        except Exception as error:
            outcomes.append(error)

    member = attempt(lambda: getattr(thing, name))
    if not callable(member):
        return outcomes
    outcomes.clear()
    try:
        parameters = list(inspect.signature(member).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    needed = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for values in itertools.product(VALUES, repeat=min(len(needed), 2)):
        attempt(lambda values=values: member(*values, *[1] * (len(needed) - len(values))))
    return outcomes


@pytest.mark.parametrize("name", sorted(FACTORIES))
def test_use_after_close_raises_closed_error(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some methods write files
    with FACTORIES[name](tmp_path) as thing:
        thing.close()
        thing.close()
        assert thing.closed, name
        repr(thing)
        raised, worked = set(), set()
        for member in (one for one in dir(type(thing)) if not one.startswith("_")):
            outcomes = use(thing, member)
            errors = [error for error in outcomes if error is not None]
            for error in errors:
                assert isinstance(error, (rdmawire.Error, TypeError, ValueError)), (member, repr(error))
            if any(isinstance(error, ClosedError) for error in errors):
                raised.add(member)
            elif None in outcomes:
                worked.add(member)
        available = AVAILABLE_AFTER_CLOSE[""] | AVAILABLE_AFTER_CLOSE[name]
        assert worked <= available, worked - available
        assert raised, f"no member of {name} raises ClosedError"
        with contextlib.suppress(TypeError), pytest.raises((ClosedError, StopIteration)):
            next(iter(thing))


@pytest.mark.parametrize("name", sorted(FACTORIES))
def test_close_by_context_manager_and_from_threads(name, tmp_path):
    with FACTORIES[name](tmp_path) as thing:
        with thing as inner:
            assert inner is thing and not thing.closed
        assert thing.closed
    with FACTORIES[name](tmp_path) as thing:
        threads = [threading.Thread(target=thing.close) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert thing.closed


def succeeds_in_fork(work):
    """Return whether `work` succeeds in a forked child."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if work() in (None, True) else 3
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", sorted(FACTORIES))
def test_use_and_close_in_forked_child(name, tmp_path, monkeypatch):
    """The child ends normally, and the parent's object still works."""
    monkeypatch.chdir(tmp_path)
    with FACTORIES[name](tmp_path) as thing:
        held = [thing]

        def child():
            for member in (one for one in dir(type(thing)) if not one.startswith("_") and one != "close"):
                if name not in ("Capture", "CaptureWriter", "LiveAnalysis", "LiveCapture"):  # files can be read
                    for error in use(thing, member):
                        assert error is None or isinstance(error, (rdmawire.Error, TypeError, ValueError)), repr(error)
            repr(thing)
            thing.close()
            held.clear()
            gc.collect()

        assert succeeds_in_fork(child)
        assert not thing.closed
        thing.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_child_cannot_use_the_parents_stream():
    with rdmawire.reference(family="iwarp") as device, device.stream(receives=2) as qp:

        def child():
            for work in (
                lambda: qp.stream.send(b"bytes"),
                lambda: qp.stream.receive(timeout=0),
                lambda: qp.mr.read(1),
                lambda: qp.state,
                lambda: device.counters(),
                lambda: device.stream(),
            ):
                with pytest.raises(ClosedError, match="fork"):
                    work()
            qp.close()
            device.close()
            with rdmawire.reference(family="iwarp") as own, own.stream(receives=1) as mine:
                mine.stream.send(mine.frame() / b"mine")
                assert mine.cq.wait().byte_len == 4
            gc.collect()

        assert succeeds_in_fork(child)
        qp.stream.send(qp.frame() / b"parent")
        assert qp.cq.wait().byte_len == 6 and qp.inbox.read(6) == b"parent"
