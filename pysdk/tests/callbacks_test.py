"""What a function that the package calls raises comes out where the package was called, everywhere one is taken; the
interpreter goes on, threads do not wait for it, and nothing of it is kept."""

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
    """Nobody else's."""


def raises(*_arguments, **_keywords):
    raise Enough("enough")


# Cases stay for ever, and other tests count them: these run in a process of their own, which is this file.


def case_expecting(bench):
    qp = bench.rc(receives=2)
    bench >> qp.send_only(psn(+0))
    bench << conformance.expect("whatever", raises)


def case_holding(bench):
    qp = bench.rc(receives=2)
    bench >> qp.send_only(psn(+0))
    bench << ack(psn(+0)).where("whatever", raises)


def case_changing(bench):
    qp = bench.rc(receives=2)
    bench >> qp.send_only(psn(+0)).changed(raises, "whatever")


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
    """Long enough that progress is told."""
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
        rdmawire.replay(RPING, a, **({} if "pps" in options else {"top": True}), **options)


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
def test_what_a_callback_raises_comes_out(place, tmp_path):
    with pytest.raises(Enough, match="enough"):
        PLACES[place](tmp_path)


@pytest.mark.parametrize("name", CASES)
def test_in_a_case_it_is_the_verdict_error_with_its_traceback(name):
    done = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, timeout=120)
    verdict, _, actual = done.stdout.partition("\n")
    assert verdict == "error" and "Enough: enough" in actual, done.stdout + done.stderr


@pytest.mark.parametrize("place", [place for place in PLACES if place not in ("analyze", "check")])
def test_nothing_of_it_is_kept(place, tmp_path):
    """The exception, and what its function held, are gone when nobody has them."""

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


def test_other_threads_go_on_while_a_callback_is_called():
    """A callback that waits for another thread would hang where the lock is kept."""
    answered = []

    def asks_another(played):
        thread = threading.Thread(target=lambda: answered.append(played.number))
        thread.start()
        thread.join(10)
        assert not thread.is_alive()

    replaying(on_frame=asks_another)
    assert len(answered) > 100


if __name__ == "__main__":
    body, rule = CASES[sys.argv[1]]
    case = conformance.case(rule, variant="a callback raises")(body)
    result = conformance.certify(only=case, seed=1)[case]
    print(result.verdict, result.actual, sep="\n")
