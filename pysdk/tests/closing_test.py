"""Every class of the package that can be closed: closed twice, used afterwards, and left alone in a fork.

The classes are found by walking the package: one that is new fails here until it is said how one is made, and which of
its members answer after it was closed.
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
    """Public classes with close(), of the package and of the module below it."""
    found = {}
    names = ["rdmawire"] + [module.name for module in pkgutil.walk_packages(rdmawire.__path__, "rdmawire.")]
    for name in names:
        if name.endswith("__main__") or "._core" in name or name.startswith("rdmawire.fuzz"):
            continue  # the fuzzer's sessions have tests of their own
        for member, thing in vars(importlib.import_module(name)).items():
            if inspect.isclass(thing) and hasattr(thing, "close") and not member.startswith("_"):
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
        pytest.skip("capturing live takes root")
    yield rdmawire.open_live("lo")


MADE = {
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
#: What says something of one that was closed. Everything else raises ClosedError, or refuses what it was given.
ANSWERS = {
    "": {"close", "closed"},
    "Capture": {"name"},
    "CaptureWriter": {"name", "records"},
    "CompletionQueue": set(),
    "Device": {"gone", "name", "record", "save", "wire"},  # what was recorded stays
    "LiveAnalysis": {"name", "stop", "read_errors"},
    "LiveCapture": {"name"},
    "ProtectionDomain": {"device"},
    "QueuePair": {"cq", "device", "frame", "inbox", "mr", "psn", "service", "wire"},
    "StreamQueuePair": {"cq", "device", "frame", "inbox", "mr", "stream"},
    "Wire": {"name", "record", "save"},
}
#: Arguments to try, where a method takes some.
VALUES = (1, "x", b"bytes", ["x"], None)


def test_every_class_that_closes_is_known():
    assert sorted(classes()) == sorted(MADE)
    core = {name for name, thing in vars(rdmawire._core).items() if inspect.isclass(thing) and hasattr(thing, "close")}
    # Those below: each is held by one of the classes above, which hands everything on.
    assert core == {
        "CaptureSource", "CaptureWriter", "FollowRun", "LiveCapture", "_CompletionQueue", "_Device", "_Domain",
        "_QueuePair", "_QueuePairPart", "_StreamPair", "_Wire",
    }  # fmt: skip


def use(thing, name):
    """Uses a member in every way that there is; gives the exceptions that came, None where it answered."""
    outcomes = []

    def tried(work):
        try:
            result = work()
            if inspect.isgenerator(result) or (hasattr(result, "__next__") and result is not thing):
                next(result, None)
            if inspect.iscoroutine(result):
                result.close()
                raise TypeError("a coroutine is not waited for here")
            outcomes.append(None)
            return result
        except Exception as error:
            outcomes.append(error)

    member = tried(lambda: getattr(thing, name))
    if not callable(member):
        return outcomes
    outcomes.clear()
    try:
        parameters = list(inspect.signature(member).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    needed = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for values in itertools.product(VALUES, repeat=min(len(needed), 2)):
        tried(lambda values=values: member(*values, *[1] * (len(needed) - len(values))))
    return outcomes


@pytest.mark.parametrize("name", sorted(MADE))
def test_used_after_close(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write what they are told to
    with MADE[name](tmp_path) as thing:
        thing.close()
        thing.close()
        assert thing.closed, name
        repr(thing)
        raised, answered = set(), set()
        for member in (one for one in dir(type(thing)) if not one.startswith("_")):
            outcomes = use(thing, member)
            errors = [error for error in outcomes if error is not None]
            for error in errors:
                assert isinstance(error, (rdmawire.Error, TypeError, ValueError)), (member, repr(error))
            if any(isinstance(error, ClosedError) for error in errors):
                raised.add(member)
            elif None in outcomes:
                answered.add(member)
        assert answered <= ANSWERS[""] | ANSWERS[name], answered - ANSWERS[""] - ANSWERS[name]
        assert raised, f"nothing of {name} raises ClosedError"
        with contextlib.suppress(TypeError), pytest.raises((ClosedError, StopIteration)):
            next(iter(thing))


@pytest.mark.parametrize("name", sorted(MADE))
def test_closed_by_its_context_and_from_another_thread(name, tmp_path):
    with MADE[name](tmp_path) as thing:
        with thing as inner:
            assert inner is thing and not thing.closed
        assert thing.closed
    with MADE[name](tmp_path) as thing:
        threads = [threading.Thread(target=thing.close) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert thing.closed


def in_a_fork(work):
    """Whether it went through in a child process."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if work() in (None, True) else 3
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", sorted(MADE))
def test_in_a_fork_it_can_be_asked_closed_and_dropped(name, tmp_path, monkeypatch):
    """Nothing hangs and nothing crashes; and the parent's goes on."""
    monkeypatch.chdir(tmp_path)
    with MADE[name](tmp_path) as thing:
        held = [thing]

        def child():
            for member in (one for one in dir(type(thing)) if not one.startswith("_") and one != "close"):
                if name not in ("Capture", "CaptureWriter", "LiveAnalysis", "LiveCapture"):  # which are files: read on
                    for error in use(thing, member):
                        assert error is None or isinstance(error, (rdmawire.Error, TypeError, ValueError)), repr(error)
            repr(thing)
            thing.close()
            held.clear()
            gc.collect()

        assert in_a_fork(child)
        assert not thing.closed
        thing.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_leaves_the_parents_streams_alone():
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
            with rdmawire.reference(family="iwarp") as own, own.stream(receives=1) as mine:  # one's own is no trouble
                mine.stream.send(mine.frame() / b"mine")
                assert mine.cq.wait().byte_len == 4
            gc.collect()

        assert in_a_fork(child)
        qp.stream.send(qp.frame() / b"parent")
        assert qp.cq.wait().byte_len == 6 and qp.inbox.read(6) == b"parent"
