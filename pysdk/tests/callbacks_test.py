"""An exception raised in a callback reaches the caller of the package and leaves no references.

Other threads run while a callback runs.
"""

import gc
import subprocess
import sys
import threading
import weakref

import pytest
import rdmawire
from rdmawire import UDP, Ether, IPv4, conformance, iwarp
from rdmawire.conformance import ack, psn
from sample_captures import RPING


class Enough(Exception):
    """Raised only by these tests."""


def raises(*_arguments, **_keywords):
    raise Enough("enough")


# Registered cases are permanent, and other tests count the cases. A test therefore runs this file in a separate process
# for each of the following cases.


def case_expecting(bench):
    qp = bench.rc(receives=2)
    bench >> qp.send_only(psn(+0))
    bench << conformance.expect("any packet", raises)


def case_holding(bench):
    qp = bench.rc(receives=2)
    bench >> qp.send_only(psn(+0))
    bench << ack(psn(+0)).where("any packet", raises)


def case_changing(bench):
    qp = bench.rc(receives=2)
    bench >> qp.send_only(psn(+0)).changed(raises, "changed")


def case_of_iwarp(bench):
    qp = bench.connect(receives=1)
    qp.send(iwarp.write(qp.stag, qp.to(), iwarp.pattern_bytes(16)))
    raises()


CASES = {
    "expecting": (case_expecting, "rc.responder.psn.sequence-error"),
    "holding": (case_holding, "rc.responder.psn.sequence-error"),
    "changing": (case_changing, "rc.responder.psn.sequence-error"),
    "of iWARP": (case_of_iwarp, "ddp.data-sink.error.later-dropped"),
}


def large(tmp_path):
    """A capture large enough for a progress report."""
    path = tmp_path / "large.pcap"
    frames = list(rdmawire.open_capture(RPING))
    with rdmawire.create_capture(path) as out:
        for i in range(200_000):
            out.write(frames[i % len(frames)], time_ns=1_700_000_000_000_000_000 + i)
    return path


def sniff(_tmp):
    a, b = rdmawire.wire_pair()
    with a, b:
        a.send(Ether() / IPv4() / UDP() / b"data")
        list(b.sniff(count=1, timeout=1, filter=raises))


def replaying(**options):
    a, b = rdmawire.wire_pair(frames=4096)
    with a, b:
        rdmawire.replay(RPING, a, **({} if "pps" in options else {"topspeed": True}), **options)


PLACES = {
    "analyze": lambda tmp: rdmawire.analyze(large(tmp), progress=raises),
    "check": lambda tmp: rdmawire.check(large(tmp), progress=raises),
    "sniff": sniff,
    "replay on_frame": lambda _tmp: replaying(on_frame=raises),
    "replay on_progress": lambda _tmp: replaying(on_progress=raises, pps=400),
    "replay dry_run": lambda _tmp: rdmawire.replay(RPING, dry_run=True, on_frame=raises),
    "certify on_result": lambda _tmp: conformance.certify(only="RSP-009", seed=1, on_result=raises),
}


@pytest.mark.parametrize("place", PLACES)
def test_callback_exception_reaches_the_caller(place, tmp_path):
    with pytest.raises(Enough, match="enough"):
        PLACES[place](tmp_path)


@pytest.mark.parametrize("name", CASES)
def test_callback_exception_in_case_gives_verdict_error(name):
    done = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, timeout=120)
    verdict, _, actual = done.stdout.partition("\n")
    assert verdict == "error" and "Enough: enough" in actual, done.stdout + done.stderr


@pytest.mark.parametrize("place", [place for place in PLACES if place not in ("analyze", "check")])
def test_callback_exception_is_released(place, tmp_path):
    """The exception and the objects of its frame are freed as soon as the caller drops them."""

    class Held:
        pass

    def once():
        held = Held()
        seen.append(weakref.ref(held))
        try:
            PLACES[place](tmp_path)
        except Enough as error:
            error.held = held
            seen.append(weakref.ref(error))

    seen = []
    for _ in range(3):
        once()
    gc.collect()
    assert [one for one in seen if one() is not None] == []
    before = sys.getrefcount(raises)
    for _ in range(20):
        once()
    gc.collect()
    assert sys.getrefcount(raises) - before < 5


def test_callback_can_wait_for_another_thread():
    """A callback that waits for another thread would deadlock if the package held the GIL."""
    numbers = []

    def wait_for_thread(played):
        thread = threading.Thread(target=lambda: numbers.append(played.number))
        thread.start()
        thread.join(10)
        assert not thread.is_alive()

    replaying(on_frame=wait_for_thread)
    assert len(numbers) > 100


if __name__ == "__main__":
    body, rule = CASES[sys.argv[1]]
    case = conformance.case(rule, variant="a callback raises")(body)
    result = conformance.certify(only=case, seed=1)[case]
    print(result.verdict, result.actual, sep="\n")
