"""Conformance cases in Python: listing, running the built-in cases, and cases written in Python."""

import base64
import gzip
import json
import re
import subprocess
import threading
import xml.etree.ElementTree
from pathlib import Path

import pytest
import rdmawire
from rdmawire import AETH, BTH, RETH, Opcode, Syndrome, UsageError, conformance
from rdmawire.conformance import (
    a_send,
    ack,
    expect,
    nak,
    nak_remote_access,
    nak_sequence_error,
    pattern_bytes,
    psn,
    remote_access_error,
    sequence_error,
    silence,
)

RULE = "rc.responder.psn.sequence-error"
TESTED_RULE = "rc.responder.psn.half-window"  # the rule of the following cases
COMMAND = Path(__file__).resolve().parents[2] / "build" / "dev" / "bin" / "rdmawire"


def test_cases_and_rules_are_listed():
    all = {case.id: case for case in conformance.cases()}
    assert len(all) > 200
    one = all[RULE]
    assert (one.alias, one.level, one.family, one.role, one.python) == ("RSP-009", "shall", "roce", "responder", False)
    assert "9.7.5.2.2" in one.clauses
    assert {case.id for case in conformance.cases("RSP-00*")} >= {RULE}
    assert all[RULE] in conformance.cases(RULE)
    assert {rule.alias for rule in conformance.rules()} >= {"RSP-009"}
    assert "atomics" in conformance.NEEDS


def test_report_equals_the_command_output(tmp_path):
    if not COMMAND.exists():
        pytest.skip(f"requires the rdmawire command at {COMMAND}")
    report = conformance.certify(only="RSP-00*", seed=7)
    done = subprocess.run(
        [COMMAND, "certify", "--only", "RSP-00*", "--seed", "7", "--strength", "0", "--json"], capture_output=True, text=True, check=True
    )
    printed = json.loads(done.stdout)
    assert json.loads(json.dumps(report.json)) == printed
    assert report.ok and len(report) == len(printed["cases"]) > 5
    assert report[RULE].verdict == "pass"


def test_shards_are_disjoint_and_merge_to_one_report(tmp_path):
    only = ["REQ-00*"]  # the command does not list the Python cases of RSP rules
    shards = [conformance.certify(only=only, seed=3, shard=f"{i}/2", report=tmp_path / f"{i}") for i in (1, 2)]
    whole = conformance.certify(only=only, seed=3)
    ids = [case.id for shard in shards for case in shard]
    assert sorted(ids) == sorted(case.id for case in whole) and len(set(ids)) == len(ids)
    done = subprocess.run([COMMAND, "certify", "merge", tmp_path / "all", tmp_path / "1", tmp_path / "2"], capture_output=True)
    assert done.returncode == 0, done.stderr
    merged = json.loads((tmp_path / "all" / "report.json").read_text())
    assert [case["id"] for case in merged["cases"]] == [case.id for case in whole]
    for wrong in "0/2", "3/2", "one", "1/2/3", "1/":
        with pytest.raises(rdmawire.UsageError, match="shard: expected I/N with I from 1 to N"):
            conformance.certify(only=RULE, shard=wrong)
    with pytest.raises(rdmawire.UsageError, match="shard 2/2 contains no case"):
        conformance.certify(only=RULE, shard="2/2")


def test_waivers_ics_and_clauses_are_used(tmp_path):
    waivers, ics, clauses = (tmp_path / f"{name}.json" for name in ("waivers", "ics", "clauses"))
    known = {"verdict": "fail", "reason": "known", "until": "2999-01-01"}
    waivers.write_text(json.dumps({"format": 1, "cases": {"RSP-009": known, "RSP-009/as observed": known}}))
    ics.write_text(json.dumps({"format": 1, "transport": "roce", "capabilities": {"xrc": False}, "ixit": {"case_timeout_s": 30}}))
    number = {"release": "1.7", "section": "9.6.1.9.9"}
    clauses.write_text(json.dumps(
        {"format": 1, "rules": {"HDR-026": {"clauses": {"validation of BTH and queue pair": number}}}}))
    options = {"only": [RULE, "HDR-026"], "seed": 1, "faults": "naks-every-packet"}
    assert not conformance.certify(**options).ok
    report = conformance.certify(**options, waivers=waivers, ics=ics, clauses=clauses, report=tmp_path / "out")
    assert report.ok and report[RULE].verdict == "fail"
    assert [(one["member"], one["status"]) for one in report.json["ics"]] == [("capabilities.xrc", "unclaimed")]
    assert "release 1.7, 9.6.1.9.9" in report.json["cases"][0]["clauses"] + report.json["cases"][1]["clauses"]
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["parameters"]["case_timeout_s"] == 30
    assert {path.name for path in (tmp_path / "out" / "inputs").iterdir()} == {"waivers.json", "ics.json", "clauses.json"}
    assert conformance.certify(**options, waivers=waivers, ics=ics, case_timeout=20, report=tmp_path / "20").ok
    assert json.loads((tmp_path / "20" / "manifest.json").read_text())["parameters"]["case_timeout_s"] == 20
    for name in "waivers", "ics", "clauses":
        with pytest.raises(rdmawire.UsageError, match="no-such-file"):
            conformance.certify(**options, **{name: "no-such-file"})
    clauses.write_text(json.dumps({"format": 1, "rules": {}}))
    conformance.certify(only=RULE, clauses=clauses)  # clause numbers apply to the whole process


def test_report_directory_has_report_and_captures(tmp_path):
    seen = []
    report = conformance.certify(only=[RULE, "RSP-010"], seed=1, report=tmp_path, on_result=seen.append)
    assert {one.id for one in seen} == {one.id for one in report}
    assert {path.name for path in tmp_path.iterdir()} >= {"report.json", "junit.xml", "index.html", "captures"}
    assert json.loads((tmp_path / "report.json").read_text())["cases"][0]["id"] == RULE
    assert (tmp_path / "captures" / f"{RULE}.pcapng").stat().st_size > 100
    assert "<iframe" in report._repr_html_()
    with pytest.raises(rdmawire.UsageError, match="contains the report of another run"):
        conformance.certify(only=RULE, report=tmp_path)
    conformance.certify(only="RSP-010", report=tmp_path, overwrite=True)
    assert not (tmp_path / "captures" / f"{RULE}.pcapng").exists()


def test_injected_fault_is_an_unexpected_result():
    report = conformance.certify(only="RSP-009", seed=1, faults="naks-every-packet")
    result = report[RULE]
    assert result.verdict in ("fail", "fail-wrong-code")
    assert result.expected and result.actual
    assert not report.ok and report.unexpected == [result]
    assert "expected" in report.text()


# Cases written in Python

OWN_CASES = []


def own_case(rule, **options):
    """Add the decorated function as a case while the tests of this file run."""

    def collect(function):
        OWN_CASES.append((rule, options, function))
        return function

    return collect


@pytest.fixture(scope="module", autouse=True)
def own_cases():
    with conformance.temporary_cases():
        for rule, options, function in OWN_CASES:
            conformance.case(rule, **options)(function)
        yield


@own_case(TESTED_RULE, variant="python: three packets missing")
def three_missing(bench):
    qp = bench.rc(receives=4)
    bench >> qp.send_only(psn(+3))
    bench << nak(sequence_error, psn(+0)) << silence()
    bench >> qp.send_only(psn(+0))
    bench << ack(psn(+0)).msn(1)
    qp.completes(0)


def test_python_case_passes_and_is_listed():
    report = conformance.certify(only=three_missing, seed=3)
    assert report.counts == {"pass": 1}
    steps = report[three_missing]["steps"]
    assert [s["text"] for s in steps if s["kind"] == "sent"] == ["RC SEND Only, PSN +3, 8 bytes", "RC SEND Only, PSN +0, 8 bytes"]
    assert "NAK PSN sequence error, PSN +0, MSN 0" in [s["text"] for s in steps if s["kind"] == "received"]
    assert [case.python for case in conformance.cases(three_missing)] == [True]
    assert {case.id for case in conformance.cases("RSP-009")} >= {RULE}
    assert f"{TESTED_RULE}/python: three packets missing" in {case.id for case in conformance.cases(TESTED_RULE)}


@own_case(TESTED_RULE, variant="python: raw frames")
def raw_frames(bench):
    qp = bench.rc(receives=1)
    bench >> qp.frame(Opcode.RC_RDMA_WRITE_ONLY, psn(+0)) / RETH(va=qp.addr, rkey=qp.rkey ^ 1, length=4) / b"evil"
    bench << expect("a NAK", lambda seen: seen.frame[AETH].syndrome == Syndrome.NAK_REMOTE_ACCESS_ERROR)
    assert qp.read_memory(0, 4) == bytes(4)


@own_case(TESTED_RULE, variant="python: all steps")
def all_steps(bench):
    qp = bench.rc(receives=4, mtu=256)
    bench >> qp.send_first(psn(0), pattern_bytes(256)) >> qp.send_last(psn(1), b"end!")
    bench << conformance.acknowledged(psn(1)).msn(1)
    qp.completes(0)
    qp.received(0, pattern_bytes(256) + b"end!")
    bench >> qp.write_only(psn(2), offset=16, payload=b"four") >> qp.read(psn(3), offset=16, length=4)
    bench << ack(psn(2))
    bench << conformance.read_response("only", psn(3)).carrying(b"four").where("of four bytes", lambda s: len(s.payload) == 4)
    qp.holds(16, b"four")
    qp.fill(0, bytes(7) + b"\x05")
    bench >> qp.fetch_add(psn(4), add=2)
    seen = bench.wait(conformance.expect("an answer", lambda seen: seen.opcode == Opcode.RC_ATOMIC_ACKNOWLEDGE))
    assert seen.psn == 4 and seen.msn is not None
    qp.device_sends(9)
    bench << a_send(psn(0))
    bench >> qp.ack(psn(0), msn=1)
    qp.completes(9)
    bench >> qp.send_only(psn(5)).changed(lambda frame: setattr(frame[BTH], "tver", 1), "with TVer 1")
    bench << silence()
    bench >> qp.send_only(psn(5)).damaged(lambda data: data.__setitem__(-1, data[-1] ^ 1), "with a wrong ICRC")
    bench << silence(0.01)
    assert bench.next(0.01) is None
    assert bench.counters()["rx_packets"] > 0
    bench.note("all well")
    bench.require(True, "it holds", "it does not")
    qp.modify(state="err")
    qp.is_in("err")
    qp.flushes(1, 3)


@pytest.mark.parametrize("case", [raw_frames, all_steps])
def test_case_with_all_steps_passes(case):
    report = conformance.certify(only=case, seed=3)
    assert report.counts == {"pass": 1}, report.text(steps=True)


@own_case(TESTED_RULE, variant="python: another NAK code")
def another_code(bench):
    qp = bench.rc(receives=2)
    bench >> qp.send_only(psn(+1))
    bench << nak_remote_access(psn(+0))


@own_case(TESTED_RULE, variant="python: no response")
def no_response(bench):
    bench.rc()
    bench << nak_sequence_error(psn(+0))


@own_case(TESTED_RULE, variant="python: asserts")
def asserts(bench):
    bench.rc()
    value = 41
    assert value == 42


@own_case(TESTED_RULE, variant="python: asserts with a message")
def asserts_with_message(bench):
    assert (
        bench.now() < 0
    ), "time never decreases"


@own_case(TESTED_RULE, variant="python: raises")
def raises(bench):
    bench.rc()
    {}["no such key"]


@own_case(TESTED_RULE, variant="python: deviates and continues")
def deviates(bench):
    bench.deviates("order", "chaos")
    bench.note("after the deviation")


@own_case(TESTED_RULE, variant="python: ends")
def ends(bench):
    bench.end("inconclusive", "no evidence")


@own_case(TESTED_RULE, variant="python: with needs", needs=["multicast", "ud"])
def with_needs(bench):
    bench.ud()


@pytest.mark.parametrize(
    ("case", "verdict", "expected", "actual"),
    [
        (another_code, "fail-wrong-code", "NAK remote access error, PSN +0", "NAK PSN sequence error, PSN +0, MSN 0"),
        (no_response, "fail", "NAK PSN sequence error, PSN +0", "nothing"),
        (asserts, "fail", "value == 42", "41"),
        (asserts_with_message, "fail", "bench.now() < 0", "time never decreases"),
        (raises, "error", "", "KeyError: 'no such key'"),
        (deviates, "fail", "order", "chaos"),
        (ends, "inconclusive", "", "no evidence"),
        (with_needs, "pass", "", ""),
    ],
)
def test_case_verdict_and_actual_result(case, verdict, expected, actual):
    result = conformance.certify(only=case, seed=1)[case]
    assert (result.verdict, result.expected) == (verdict, expected)
    assert actual in result.actual


def test_python_cases_are_in_every_report(tmp_path):
    report = conformance.certify(only=[asserts, three_missing, RULE], seed=1, report=tmp_path)
    assert report.counts["fail"] == 1
    id = f"{TESTED_RULE}/python: asserts"
    assert id in report.text()
    names = {
        case.get("name"): case for case in xml.etree.ElementTree.parse(tmp_path / "junit.xml").getroot().iter("testcase")
    }
    failed = [case for name, case in names.items() if "python: asserts" in name or case.find("failure") is not None]
    assert failed and failed[0].find("failure") is not None
    packed = re.search(r'id="report-data">([^<]*)<', (tmp_path / "index.html").read_text()).group(1)
    assert id in {case["id"] for case in json.loads(gzip.decompress(base64.b64decode(packed)))["cases"]}
    assert (tmp_path / "captures" / (id.replace("/", "-").replace(" ", "-") + ".pcapng")).exists()
    baseline = conformance.certify(only=[asserts], seed=1, baseline=tmp_path / "report.json")
    assert baseline.json["cases"][0]["id"] == id  # the baseline does not hide a known failure


def test_case_timeout_ends_a_hanging_case():
    @conformance.case(TESTED_RULE, variant="python: hangs")
    def hangs(bench):
        bench.rc()
        while True:
            pass

    report = conformance.certify(only=hangs, seed=1, case_timeout=0.5)
    assert report[hangs].verdict == "error"
    assert "longer than 0.5 s" in report[hangs].actual


def test_bench_after_its_case_raises_closed_error():
    kept = []

    @conformance.case(TESTED_RULE, variant="python: keeps its bench")
    def keeps(bench):
        kept.extend([bench, bench.rc()])

    assert conformance.certify(only=keeps, seed=1).counts == {"pass": 1}
    bench, qp = kept
    for use in (bench.now, bench.rc, lambda: qp.send_only(0), lambda: qp.rkey, lambda: qp.write_only(0), lambda: bench >> bytes(64)):
        with pytest.raises(rdmawire.ClosedError, match="the case has ended"):
            use()


def test_exception_in_a_predicate_ends_the_case():
    @conformance.case(TESTED_RULE, variant="python: a predicate raises")
    def predicate_raises(bench):
        qp = bench.rc(receives=1)
        bench >> qp.send_only(psn(0))
        bench << expect("an answer", lambda seen: seen.no_such_attribute)

    result = conformance.certify(only=predicate_raises, seed=1)[predicate_raises]
    assert result.verdict == "error" and "no_such_attribute" in result.actual


def test_an_exception_in_on_result_ends_the_run():
    class Enough(Exception):
        pass

    def raise_enough(result):
        raise Enough(result.id)

    with pytest.raises(Enough, match="rc.responder"):
        conformance.certify(only="RSP-0*", seed=1, on_result=raise_enough)


def test_invalid_arguments_are_rejected():
    for call in (
        lambda: conformance.certify(only="no.such.rule"),
        lambda: conformance.certify("toaster", only=RULE),
        lambda: conformance.certify(only=RULE, faults="no-such-fault"),
        lambda: conformance.certify(only=RULE, color="red"),
        lambda: conformance.certify(only=RULE, seed="one"),
        lambda: conformance.certify(only=RULE, expected="/no/such/file"),
        lambda: conformance.certify(only=test_invalid_arguments_are_rejected),
        lambda: conformance.case("no.such.rule")(lambda bench: None),
        lambda: conformance.case(RULE)(lambda bench: None),  # this identifier exists
        lambda: conformance.case(RULE, variant="x", needs=["wings"]),
        lambda: conformance.case(RULE, variant="x", role="juggler")(lambda bench: None),
    ):
        with pytest.raises((UsageError, rdmawire.DeviceError)):
            call()
    with pytest.raises(TypeError):
        conformance.case(RULE, variant="x")(5)


def test_invalid_arguments_in_a_case_raise():
    @conformance.case(TESTED_RULE, variant="python: invalid arguments")
    def invalid_arguments(bench):
        qp = bench.rc()
        for bad in (
            lambda: bench.rc(color="red"),
            lambda: qp.write_only(0, color="red"),
            lambda: qp.write_only(0, rkey=-1),
            lambda: conformance.read_response("sideways", 0),
            lambda: bench.end("splendid", ""),
        ):
            with pytest.raises(UsageError):
                bad()
        for bad in (lambda: bench >> 5, lambda: bench << 5, lambda: qp.send_only("one"), lambda: qp.send_only(0, 5)):
            with pytest.raises(TypeError):
                bad()

    result = conformance.certify(only=invalid_arguments, seed=1)[invalid_arguments]
    assert result.verdict == "pass", result.actual


def test_concurrent_runs_in_threads():
    reports = []
    threads = [
        threading.Thread(target=lambda: reports.append(conformance.certify(only=[three_missing, RULE, "rc.responder.psn.wraps"], seed=1, jobs=2)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [set(report.counts) for report in reports] == [{"pass"}] * 3


def test_iwarp_reference_passes():
    report = conformance.certify(only="rdmap.*", seed=1)
    assert len(report) > 3 and report.ok


def test_coroutine_and_generator_cases_are_rejected():
    async def later(bench):
        raise AssertionError

    def generator(bench):
        yield
        raise AssertionError

    for number, function in enumerate((later, generator)):
        with pytest.raises(UsageError, match="plain function"):
            conformance.case(TESTED_RULE, variant=f"lazy {number}")(function)


def test_case_returning_a_coroutine_or_generator_is_an_error():
    async def later():
        raise AssertionError

    @conformance.case(TESTED_RULE, variant="returns a coroutine")
    def returns_coroutine(bench):
        return later()

    @conformance.case(TESTED_RULE, variant="returns a generator")
    def returns_generator(bench):
        return (one for one in [1])

    for case in (returns_coroutine, returns_generator):
        result = conformance.certify(only=case, seed=1)[case]
        assert result.verdict == "error" and "plain function" in result.actual


def test_empty_selection_does_not_select_all():
    for empty in ([], (), set()):
        with pytest.raises(UsageError, match="empty"):
            conformance.certify(only=empty)
        assert conformance.cases(empty) == []
    assert len(conformance.cases()) == len(conformance.cases(None)) > 100


def test_redefined_case_replaces_its_function():
    def define(verdict, **more):
        @conformance.case(TESTED_RULE, variant="redefined", **more)
        def redefined(bench):
            assert verdict == "pass"

        return redefined

    assert conformance.certify(only=define("fail"), seed=1).counts == {"fail": 1}
    assert conformance.certify(only=define("pass"), seed=1).counts == {"pass": 1}
    replaced = define("pass", role="requester")
    (listed,) = conformance.cases(replaced)
    assert listed.role == "requester"

    with pytest.raises(UsageError, match="already"):

        @conformance.case(TESTED_RULE, variant="redefined")
        def other_name(bench):
            pass


def test_case_is_removed_and_defined_again():
    def define():
        @conformance.case(TESTED_RULE, variant="removed")
        def removed(bench):
            pass

        return removed

    first = define()
    id = f"{TESTED_RULE}/removed"
    conformance.remove_case(first)
    assert id not in {case.id for case in conformance.cases()}
    with pytest.raises(UsageError, match="no case matches"):
        conformance.certify(only=first)
    with pytest.raises(UsageError, match=f"cannot remove the case {id}: it does not exist"):
        conformance.remove_case(id)
    with pytest.raises(UsageError, match="it is built in"):
        conformance.remove_case(RULE)

    @conformance.case(TESTED_RULE, variant="removed")
    def other_name(bench):
        assert not "this one"

    assert conformance.certify(only=id, seed=1).counts == {"fail": 1}
    conformance.remove_case(id, three_missing)
    assert not conformance.cases([id, f"{TESTED_RULE}/python: three packets missing"])
    conformance.case(TESTED_RULE, variant="python: three packets missing")(three_missing)


def test_running_case_may_remove_itself():
    @conformance.case(TESTED_RULE, variant="removes itself")
    def removes_itself(bench):
        conformance.remove_case(removes_itself)
        bench.rc()

    assert conformance.certify(only=removes_itself, seed=1).counts == {"pass": 1}
    assert not conformance.cases(f"{TESTED_RULE}/removes itself")


def test_temporary_cases_end_with_their_block():
    before = {case.id for case in conformance.cases()}
    with pytest.raises(KeyError), conformance.temporary_cases():

        @conformance.case(TESTED_RULE, variant="temporary")
        def temporary(bench):
            pass

        assert len(conformance.cases(f"{TESTED_RULE}/temporary")) == 1
        raise KeyError
    assert {case.id for case in conformance.cases()} == before


def test_temporary_cases_keep_cases_of_other_threads_and_of_before():
    import threading

    @conformance.case(TESTED_RULE, variant="before")
    def before(bench):
        pass

    def other():
        @conformance.case(TESTED_RULE, variant="of another thread")
        def of_another_thread(bench):
            pass

    with conformance.temporary_cases():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

        @conformance.case(TESTED_RULE, variant="before")
        def before(bench):  # noqa: F811
            pass

        @conformance.case(TESTED_RULE, variant="inside")
        def inside(bench):
            pass

    names = ("before", "of another thread", "inside")
    assert [len(conformance.cases(f"{TESTED_RULE}/{name}")) for name in names] == [1, 1, 0]
    conformance.remove_case(f"{TESTED_RULE}/of another thread")


def test_unknown_case_names_similar_ones():
    with pytest.raises(UsageError, match="no case matches RSP-09. Similar names: RSP-0.9"):
        conformance.certify(only="RSP-09")


def test_decorator_without_rule_raises_type_error():
    with pytest.raises(TypeError, match="requires the id or alias of a rule"):

        @conformance.case
        def without_parentheses(bench):
            pass


def test_invalid_device_raises_type_error():
    with pytest.raises(TypeError, match="device: expected a name"):
        conformance.certify(device=5)


CASE = "rc.responder.ack.coalesced/packets of one message"


def test_rows_of_a_case():
    usual = conformance.certify(only=CASE, seed=1)
    assert "rows" not in usual[CASE]
    report = conformance.certify(only=CASE, seed=1, strength=1)
    rows = report[CASE]["rows"]
    assert len(rows) > 5
    assert {row["verdict"] for row in rows} == {"pass"}
    assert report.json["combinations"]["tested"] == report.json["combinations"]["possible"] > 0


def test_one_row_shows_a_fault():
    faults = ["psn-does-not-wrap"]
    assert conformance.certify(only=CASE, seed=1, faults=faults)[CASE].verdict == "pass"
    report = conformance.certify(only=CASE, seed=1, faults=faults, row="tester PSN=wraps after 1")
    assert report[CASE].verdict == "fail"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"row": "path MTU=257"}, "257"),
        ({"row": "no such=1"}, "unknown parameter"),
        ({"row": "path MTU=256", "strength": 1}, "excludes"),
        ({"strength": 9}, "strength must be at most"),
        ({"budget": 10.0}, "requires a strength"),
    ],
)
def test_impossible_rows_are_refused(options, message):
    with pytest.raises(rdmawire.UsageError, match=message):
        conformance.certify(only=CASE, **options)
