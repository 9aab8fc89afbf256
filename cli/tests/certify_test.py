"""rdmawire certify: the reference device, conforming and with injected faults."""

import base64
import csv
import gzip
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(os.environ.get("RDMAWIRE", ROOT / "build" / "dev" / "bin" / "rdmawire"))

pytestmark = pytest.mark.skipif(not COMMAND.exists(), reason=f"needs the command: {COMMAND} is not built")

GAP = "rc.responder.psn.sequence-error"


def certify(*arguments, status=0):
    """Runs the command, by default with one row of each case."""
    arguments = list(map(str, arguments))
    if not {"--strength", "--row", "--help", "--list", "list", "verify", "compare", "merge"} & set(arguments):
        arguments += ["--strength", "0"]
    done = subprocess.run([COMMAND, "certify", *arguments], timeout=120, capture_output=True, text=True)
    assert done.returncode in ((0, 1) if status is None else (status,)), done.stdout + done.stderr
    return done


def test_help_has_examples_and_exit_statuses():
    text = certify("--help").stdout
    assert "Examples:" in text and "Exit status" in text and "not a certification by" in text


def test_list_shows_rules_and_clauses():
    text = certify("--list", "--only", "RSP-009").stdout
    assert GAP in text and "9.7.5.2.2" in text and "shall" in text


def test_reference_device_passes(tmp_path):
    text = certify("--only", "RSP-009", "--only", "RSP-011", "--seed", 5, "--report", tmp_path / "out").stdout
    assert re.search(r"^\d+ cases? in .* s \(wire clock\): \d+ pass; reference, seed 5$", text, re.M), text
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["format"] == 1 and report["seed"] == 5
    assert {case["verdict"] for case in report["cases"]} == {"pass"}
    assert all((tmp_path / "out" / "captures" / f"{GAP}.pcapng").stat().st_size for case in report["cases"])
    suites = ElementTree.parse(tmp_path / "out" / "junit.xml").getroot()
    assert sum(int(suite.get("tests")) for suite in suites) == len(report["cases"])
    assert not list(suites.iter("failure"))


def test_same_seed_gives_same_report(tmp_path):
    first, second = (json.loads(certify("--only", "RSP-009", "--seed", 9, "--json").stdout) for _ in range(2))
    assert first == second


def test_fault_is_reported_with_capture(tmp_path):
    text = certify("--only", "RSP-009", "--fault", "naks-every-packet", "--report", tmp_path, status=1).stdout
    assert "reference" in text and "expected" in text
    assert "expected  silence" in text and "NAK PSN sequence error" in text and "UNEXPECTED" in text
    shown = subprocess.run(
        [COMMAND, "dissect", "-V", tmp_path / "captures" / f"{GAP}.pcapng"], timeout=60, capture_output=True, text=True
    ).stdout
    assert "VIOLATION: expected silence" in shown


@pytest.mark.parametrize(
    "fault, rule",
    [("never-acknowledges", "RSP-001"), ("wrong-udp-port", "HDR-011"), ("refuses-revision-1", "MPA-008")],
)
def test_violated_basic_rule_is_reported_with_its_clause(fault, rule, tmp_path):
    only = ("--only", "RSP-00*", "--only", "MPA-00*", "--only", "HDR-01*")
    text = certify(*only, "--fault", fault, "--report", tmp_path, status=1).stdout
    assert re.search(rf"^every transfer of (RoCE|iWARP) violates {rule} .*\(.*\): expected .*; got ", text, re.M), text
    assert "error" not in text
    report = json.loads((tmp_path / "report.json").read_text())
    SCHEMA.validate(report)
    assert [one["alias"] for one in report["basic"]] == [rule] and report["basic"][0]["clauses"]
    failed = {case["alias"] for case in report["cases"] if case["verdict"] == "fail"}
    assert failed == {rule} and "error" not in report["verdicts"]


def test_response_without_udp_header_fails_the_case():
    """The length of a MAD is computed from the UDP header, which RoCEv1 does not have."""
    text = certify("--only", "UD-014", "--fault", "always-roce-v1", status=1).stdout
    assert re.search(r"^fail +UD-014 +ud\.endpoint\.mad\.bytes/sent by the device$", text, re.M), text


def test_invalid_frames_fail_cases_of_other_rules(tmp_path):
    text = certify("--only", "RSP-009", "--only", "REQ-021", "--fault", "icrc-covers-ttl", "--report", tmp_path, status=1).stdout
    assert re.search(r"^    violates +HDR-014 roce.sender.icrc.over-ipv4$", text, re.M), text
    report = json.loads((tmp_path / "report.json").read_text())
    SCHEMA.validate(report)
    assert report["verdicts"] == {"fail": len(report["cases"])}
    for case in report["cases"]:
        assert case["violated"]["alias"] == "HDR-014" and case["frames"][0]["count"] > 0


def test_known_failure_is_expected_and_pass_is_not(tmp_path):
    known = tmp_path / "known.json"
    known.write_text(json.dumps({"format": 1, "cases": {
        "RSP-009": {"verdict": "fail", "reason": "a second NAK"},
        "RSP-009/as observed": {"verdict": "fail", "reason": "likewise"}}}))
    text = certify("--only", "RSP-009", "--fault", "naks-every-packet", "--expected", known).stdout
    assert "known     a second NAK" in text
    assert "UNEXPECTED" in certify("--only", "RSP-009", "--expected", known, status=1).stdout


def test_baseline_reports_regressions(tmp_path):
    certify("--only", "RSP-009", "--report", tmp_path)
    text = certify(
        "--only", "RSP-009", "--fault", "naks-every-packet", "--baseline", tmp_path / "report.json", status=1
    ).stdout
    assert f"worse     {GAP}: pass → fail" in text


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (["--only", "RSP-999"], "no test case matches"),
        (["--device", "mlx5"], 'unknown device "mlx5"'),
        (["--device", "agent:unix:/nowhere"], "specify it with --wire"),
        (["--fault", "nonsense"], 'unknown fault "nonsense"'),
        (["--mutations", "--fault", "nonsense"], 'unknown fault "nonsense"'),
        (["--fault", "ignores-crc", "--only", "RSP-001"], 'the fault "ignores-crc" applies to iWARP'),
        (["--fault", "ignores-crc", "--device", "lab:siw"], "lab:siw is a different device"),
        (["--expected", "/nowhere"], "/nowhere: could not be read"),
        (["--only", "RSP-009", "--baseline", "/nowhere"], "/nowhere: could not be read"),
    ],
)
def test_invalid_usage_exits_with_status_2(arguments, complaint):
    assert complaint in certify(*arguments, status=2).stderr


def test_missing_agent_exits_with_status_3():
    done = certify("--device", "agent:unix:/nowhere/agent", "--wire", "unix:/nowhere/port", status=3)
    assert "/nowhere/agent" in done.stderr


def test_fault_list_shows_violated_rules():
    text = certify("--fault", "list").stdout
    assert re.search(rf"^naks-every-packet +.* \[{re.escape(GAP)}\]$", text, re.M)


SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "reference" / "schemas" / "certify.schema.json").read_text()))


def test_reports_match_schema(tmp_path):
    known = tmp_path / "known.json"
    known.write_text(json.dumps({"format": 1, "cases": {
        "RSP-009": {"verdict": "fail", "reason": "a second NAK", "evidence": "x", "right": "unclear", "until": "2999-01-01"},
        "RSP-011": {"verdict": "fail", "reason": "recomputed", "until": "2020-01-01"}}}))  # fmt: skip
    certify("--seed", 3, "--report", tmp_path / "sound", status=None)
    certify("--only", "RSP-0*", "--fault", "naks-every-packet", "--expected", known, "--repeat", 2, "--report", tmp_path / "out",
            "--baseline", tmp_path / "sound" / "report.json", "--seed", 3, status=None)  # fmt: skip
    for folder in ("sound", "out"):
        report = json.loads((tmp_path / folder / "report.json").read_text())
        SCHEMA.validate(report)
        lines = [json.loads(line) for line in (tmp_path / folder / "results.ndjson").read_text().splitlines()]
        assert {line["id"] for line in lines[1:]} == {case["id"] for case in report["cases"]}
        for line in lines[1:]:
            SCHEMA.evolve(schema={**SCHEMA.schema, "$ref": "#/$defs/case", "required": [], "properties": {},
                                  "additionalProperties": True}).validate({**{k: v for k, v in line.items() if k != "counters"}, "unexpected": False})  # fmt: skip
    assert any("known" in case for case in report["cases"]) and any("expired" in case for case in report["cases"])
    assert "changes" in report and all(len(case["attempts"]) == 2 for case in report["cases"])
    with pytest.raises(jsonschema.ValidationError):
        SCHEMA.validate({**report, "cases": [{**report["cases"][0], "verdict": "good"}]})


def test_expired_waiver_is_unexpected(tmp_path):
    known = tmp_path / "known.json"
    known.write_text(json.dumps({"format": 1, "cases": {"RSP-009": {"verdict": "fail", "reason": "soon", "until": "2020-01-01"}}}))
    text = certify("--only", "RSP-009", "--fault", "naks-every-packet", "--expected", known, status=1).stdout
    assert "WAIVER EXPIRED on 2020-01-01: soon" in text and "UNEXPECTED" in text


def test_strict_counts_violated_recommendations():
    only = ("--only", "roce.sender.udp.source-port-constant", "--fault", "changing-source-port")
    assert re.search(r"^fail +HDR-010", certify(*only).stdout, re.M)
    assert "UNEXPECTED" in certify(*only, "--strict", status=1).stdout


def test_report_is_independent_of_jobs():
    one, four = (json.loads(certify("--only", "RSP-*", "--seed", 9, "--jobs", jobs, "--json", status=None).stdout) for jobs in (1, 4))
    assert one == four


def test_resume_completes_interrupted_run(tmp_path):
    first = certify("--only", "RSP-0*", "--seed", 4, "--report", tmp_path, status=None)
    whole = json.loads((tmp_path / "report.json").read_text())
    journal = (tmp_path / "results.ndjson").read_bytes().splitlines(keepends=True)
    (tmp_path / "results.ndjson").write_bytes(b"".join(journal[:10]) + journal[10][:40])
    certify("--only", "RSP-0*", "--resume", tmp_path, status=first.returncode)
    assert json.loads((tmp_path / "report.json").read_text()) == whole
    refused = certify("--only", "RSP-0*", "--resume", tmp_path, "--seed", 5, status=2).stderr
    assert "cannot resume" in refused
    assert "contains no run to resume" in certify("--resume", tmp_path / "none", status=2).stderr


def test_resume_refuses_another_setup_and_selection(tmp_path):
    run = ("--only", "RSP-00*", "--fault", "naks-every-packet")
    certify(*run, "--seed", 4, "--report", tmp_path, status=1)
    journal = (tmp_path / "results.ndjson").read_bytes().splitlines(keepends=True)
    (tmp_path / "results.ndjson").write_bytes(b"".join(journal[:4]))
    before = (tmp_path / "manifest.json").read_bytes()
    refused = certify("--only", "RSP-00*", "--resume", tmp_path, status=2).stderr
    assert 'cannot resume: faults of that run is ["naks-every-packet"], of this one []' in refused
    refused = certify("--only", "RSP-009", "--fault", "naks-every-packet", "--resume", tmp_path, status=2).stderr
    assert re.search(r"cannot resume: that run selects \d+ cases, this one 1; specify the same selection", refused), refused
    assert "case_timeout_s" in certify(*run, "--case-timeout", 5, "--resume", tmp_path, status=2).stderr
    assert (tmp_path / "manifest.json").read_bytes() == before
    certify(*run, "--resume", tmp_path, status=1)
    assert json.loads((tmp_path / "manifest.json").read_text())["parameters"]["faults"] == ["naks-every-packet"]


def test_ctrl_c_writes_partial_report(tmp_path):
    run = subprocess.Popen([COMMAND, "certify", "--repeat", "50", "--jobs", "1", "--report", tmp_path], stdout=subprocess.PIPE, text=True)
    journal, end = tmp_path / "results.ndjson", time.monotonic() + 60
    while time.monotonic() < end and not (journal.exists() and journal.read_bytes().count(b"\n") > 3):
        time.sleep(0.05)
    run.send_signal(signal.SIGINT)
    text = run.communicate(timeout=120)[0]
    assert run.returncode == 130
    assert re.search(r"^PARTIAL: \d+ of \d+ cases ran: interrupted$", text, re.M), text
    report = json.loads((tmp_path / "report.json").read_text())
    SCHEMA.validate(report)
    assert "interrupted" in report["partial"] and 0 < len(report["cases"]) < 500
    text = verify(tmp_path, status=1).stdout
    assert f"; continue it with rdmawire certify --resume {tmp_path} " in text and "intact, PARTIAL: " in text
    shown = json.loads(verify(tmp_path, "--json", status=1).stdout)
    assert shown["intact"] and not shown["complete"] and shown["partial"] == report["partial"]


def test_preflight_of_reference_device_passes():
    text = certify("--preflight").stdout
    for what in ("link", "path MTU", "GID", "P_Key table", "clocks", "quiet", "transfer"):
        assert re.search(rf"^pass  {what}", text, re.M), text


@pytest.fixture
def fake_agent(tmp_path):
    """The socket path of a fake agent with one device at 10.0.0.2."""
    port = {"port": 1, "state": "active", "link_layer": "ethernet", "netdev": "eth0", "active_mtu": 1024, "max_mtu": 4096, "lid": 0,
            "pkeys": [65535], "gids": [{"index": 1, "gid": "::ffff:10.0.0.2", "type": "roce_v2", "netdev": "eth0"}]}  # fmt: skip
    answers = {
        "hello": {"protocol": 1, "agent": "stand-in 1", "host": "h", "kernel": "k"},
        "devices": {"devices": [{"name": "mlx5_0", "ports": [port]}]},
        "open": {"device": 1, "comp_vectors": 1},
        "describe": {"name": "mlx5_0", "transport": "ib", "limits": {}, "ports": [port]},
    }
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "agent"))
    server.listen()

    def serve(stream):
        for line in stream:
            if line.strip():
                asked = json.loads(line)
                stream.write(json.dumps({"id": asked["id"], "result": answers.get(asked["do"], {})}) + "\n")
                stream.flush()

    def accept():
        while True:
            try:
                stream = server.accept()[0].makefile("rw")
            except OSError:
                return
            threading.Thread(target=serve, args=(stream,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield tmp_path / "agent"
    server.close()


def test_options_without_effect_on_the_device_are_errors():
    assert "--wire requires --device agent:ADDRESS" in certify("--wire", "null", status=2).stderr
    # "debian" is the default of --kernel.
    for kernel in ("newest", "debian"):
        assert "--kernel requires --device lab:rxe or lab:siw" in certify("--kernel", kernel, status=2).stderr
    for options in (["--device", "lab:rxe"], ["--device", "lab:siw", "--kernel", "newest"], ["--kernel", "/k"]):
        assert "--kernel" in certify("--modules", "/nowhere", *options, status=2).stderr


def test_kernel_file_requires_its_modules(tmp_path):
    kernel = tmp_path / "bzImage"
    kernel.write_bytes(b"x")
    done = certify("--device", "lab:rxe", "--kernel", kernel, status=2)
    assert "requires --modules DIR" in done.stderr
    done = certify("--device", "lab:rxe", "--kernel", kernel, "--modules", tmp_path / "none", status=2)
    assert "requires --modules DIR" in done.stderr


def test_physical_device_requires_allow(tmp_path, fake_agent):
    refused = certify("--device", f"agent:unix:{fake_agent}", "--wire", "unix:/nowhere/port", status=2).stderr
    assert "refusing to send" in refused and "--allow 10.0.0.2" in refused
    # With --allow, the next error is the missing wire.
    assert "/nowhere/port" in certify("--device", f"agent:unix:{fake_agent}", "--wire", "unix:/nowhere/port", "--allow", "10.0.0.2", status=3).stderr
    assert "jobs must be 1" in certify("--device", f"agent:unix:{fake_agent}", "--wire", "unix:/x", "--jobs", 2, status=2).stderr


# The evidence package


def schema(name):
    return jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "reference" / "schemas" / f"{name}.schema.json").read_text()))


def verify(*arguments, status=0):
    return certify("verify", *arguments, status=status)


def test_report_is_a_package_with_manifest_and_matrix(tmp_path):
    certify("--only", "RSP-00*", "--fault", "naks-every-packet", "--seed", 3, "--report", tmp_path, status=1)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    schema("manifest").validate(manifest)
    assert manifest["seed"] == 3 and manifest["parameters"]["faults"] == ["naks-every-packet"]
    assert manifest["device"]["firmware"] and manifest["tester"]["kernel"]
    present = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {file["path"] for file in manifest["files"]} == present - {"manifest.json"}
    matrix = json.loads((tmp_path / "traceability.json").read_text())
    schema("traceability").validate(matrix)
    rows = [(row["case"], one) for rule in matrix["rules"] for row in rule["cases"] for one in row["rows"]]
    report = json.loads((tmp_path / "report.json").read_text())
    assert {case: row["verdict"] for case, row in rows} == {case["id"]: case["verdict"] for case in report["cases"]}
    for _, row in rows:
        assert (tmp_path / row["capture"]).is_file()
    with open(tmp_path / "traceability.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert {row["case"] for row in table} - {""} == {case["id"] for case in report["cases"]}
    assert {row["rule"] for row in table} == {rule["rule"] for rule in matrix["rules"]}
    gap = next(row for row in table if row["rule"] == GAP)
    assert gap["verdict"] == "fail" and gap["evidence frames"] and gap["clause"].startswith("IBTA vol 1, ")


def test_evidence_frame_shows_the_violation(tmp_path):
    certify("--only", "RSP-009", "--fault", "naks-every-packet", "--report", tmp_path, status=1)
    matrix = json.loads((tmp_path / "traceability.json").read_text())
    row = next(rule for rule in matrix["rules"] if rule["rule"] == GAP)["cases"][0]["rows"][0]
    for frame in row["evidence"]:
        shown = subprocess.run([COMMAND, "dissect", "--frame", str(frame), tmp_path / row["capture"]], timeout=60, capture_output=True, text=True).stdout
        assert "NAK" in shown, shown


@pytest.mark.parametrize("options", [(), ("--repeat", "3")])
def test_command_line_of_each_failure_repeats_it(tmp_path, options):
    faults = ("--fault", "naks-every-packet", "--fault", "icrc-covers-ttl")
    certify("--only", "RSP-009", "--only", "rc.responder.rnr.then-executed-once", *faults, "--report", tmp_path / "a", *options, status=1)
    failed = [case for case in json.loads((tmp_path / "a" / "report.json").read_text())["cases"] if "repeat" in case]
    assert any(" " in case["id"] for case in failed) and len(failed) >= 3
    environment = {**os.environ, "PATH": f"{COMMAND.parent}:{os.environ['PATH']}"}
    for case in failed:
        assert "fail" in case["verdict"] or case["observed"]
        run = subprocess.run(["sh", "-c", case["repeat"] + " --json"], env=environment, timeout=60, capture_output=True, text=True)
        (again,) = json.loads(run.stdout)["cases"]
        for key in ("id", "verdict", "actual", "observed", "seed"):
            assert again.get(key) == case.get(key), case["repeat"]


def test_verify_names_each_changed_file(tmp_path):
    package = tmp_path / "out"
    certify("--only", "RSP-009", "--only", "RSP-010", "--report", package)
    assert "intact" in verify(package).stdout
    with open(package / "captures" / f"{GAP}.pcapng", "r+b") as file:
        file.seek(40)
        file.write(b"\xff")
    (package / "junit.xml").unlink()
    (package / "captures" / "more.pcapng").write_bytes(b"x")
    text = verify(package, status=1).stdout
    assert re.search(rf"^modified +captures/{re.escape(GAP)}.pcapng: the SHA-256 digest differs$", text, re.M), text
    assert re.search(r"^missing +junit.xml$", text, re.M) and re.search(r"^additional +captures/more.pcapng$", text, re.M), text
    shown = json.loads(verify(package, "--json", status=1).stdout)
    assert not shown["intact"] and [one["kind"] for one in shown["problems"]] == ["additional", "modified", "missing"]
    (package / "manifest.json").write_text("{}")
    assert "is no manifest" in verify(package, status=3).stderr
    assert "could not be read" in verify(tmp_path / "none", status=3).stderr
    assert "--seed has no effect" in certify("--seed", 1, "verify", package, status=2).stderr


def test_other_files_in_the_report_directory_are_named(tmp_path):
    (tmp_path / "notes.txt").write_text("of the lab")
    assert "notes.txt" in certify("--only", "RSP-009", "--report", tmp_path).stderr
    assert "additional    notes.txt" in verify(tmp_path, status=1).stdout


def test_report_of_another_run_is_not_overwritten(tmp_path):
    package, run = tmp_path / "out", ("--only", "RSP-009", "--seed", 1)
    certify(*run, "--only", "RSP-010", "--fault", "naks-every-packet", "--report", package, status=1)
    (package / "notes.txt").write_text("of the lab")
    before = {path: path.read_bytes() for path in package.rglob("*") if path.is_file()}
    for options in (run, ("--rerun-failed", package)):
        refused = certify(*options, "--report", package, status=2).stderr
        assert f"{package} contains the report of another run; specify a new directory, or --overwrite" in refused
    assert "which the run overwrites" in certify(*run, "--report", package, "--overwrite", "--baseline", package / "report.json", status=2).stderr
    assert {path: path.read_bytes() for path in package.rglob("*") if path.is_file()} == before
    certify(*run, "--report", package, "--overwrite")
    assert [path.name for path in (package / "captures").iterdir()] == [f"{GAP}.pcapng"] and (package / "notes.txt").exists()
    (package / "manifest.json").unlink()
    assert "another run" in certify(*run, "--report", package, status=2).stderr


def test_killed_run_is_an_unfinished_package(tmp_path):
    run = subprocess.Popen([COMMAND, "certify", "--only", "RSP-0*", "--seed", "4", "--report", tmp_path], stdout=subprocess.PIPE)
    journal, end = tmp_path / "results.ndjson", time.monotonic() + 60
    while time.monotonic() < end and not (journal.exists() and journal.read_bytes().count(b"\n") > 3):
        time.sleep(0.02)
    run.kill()
    run.communicate(timeout=120)
    assert "UNFINISHED" in verify(tmp_path, status=1).stdout
    certify("--only", "RSP-0*", "--resume", tmp_path)
    assert re.search(r"unknown: the run was killed\nrun .*\n(.*\n)*result +intact", verify(tmp_path).stdout)


def test_package_is_signed_for_openssl(tmp_path):
    if not shutil.which("openssl"):
        pytest.skip("needs openssl")

    def openssl(*arguments):
        return subprocess.run(["openssl", *map(str, arguments)], check=True, timeout=60, capture_output=True, text=True).stdout

    key, public, package = tmp_path / "key.pem", tmp_path / "public.pem", tmp_path / "out"
    openssl("genpkey", "-algorithm", "ed25519", "-out", key)
    openssl("pkey", "-in", key, "-pubout", "-out", public)
    certify("--only", "RSP-009", "--report", package, "--sign", key)
    schema("manifest").validate(json.loads((package / "manifest.json").read_text()))
    assert "signature     valid" in verify(package, "--public-key", public).stdout
    assert "not checked" in verify(package).stdout
    check = ("pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", public, "-in", package / "manifest.json", "-sigfile", package / "manifest.sig")
    assert "Verified Successfully" in openssl(*check)
    # A later signature by openssl is accepted, too.
    openssl("genpkey", "-algorithm", "ed25519", "-out", key)
    openssl("pkeyutl", "-sign", "-rawin", "-inkey", key, "-in", package / "manifest.json", "-out", package / "manifest.sig")
    assert "INVALID" in verify(package, "--public-key", public, status=1).stdout
    openssl("pkey", "-in", key, "-pubout", "-out", public)
    assert "valid" in verify(package, "--public-key", public).stdout
    assert "contains no public key" in verify(package, "--public-key", key, status=2).stderr
    openssl("pkey", "-in", key, "-aes256", "-passout", "pass:secret", "-out", tmp_path / "locked.pem")
    assert "the key is encrypted" in certify("--only", "RSP-009", "--report", tmp_path / "b", "--sign", tmp_path / "locked.pem", status=2).stderr
    assert "requires a report directory" in certify("--only", "RSP-009", "--sign", key, status=2).stderr


# Campaigns


def ids(*arguments, status=0):
    return [case["id"] for case in json.loads(certify(*arguments, "--json", status=status).stdout)["cases"]]


def test_shards_are_disjoint_and_complete():
    selection = ("--only", "RSP-00*", "--seed", 1)
    whole = ids(*selection)
    shards = [ids(*selection, "--shard", f"{index}/3") for index in (1, 2, 3)]
    assert sorted(sum(shards, [])) == sorted(whole) and all(shards)
    assert ids(*selection, "--shard", "2/3") == shards[1]
    assert max(map(len, shards)) - min(map(len, shards)) <= 1
    # A shard has the same results as the whole run.
    one, part = (json.loads(certify(*selection, *more, "--json").stdout)["cases"] for more in ((), ("--shard", "2/3")))
    assert [case for case in one if case["id"] in shards[1]] == part


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "1/", "/2", "1/2x", "-1/2", "a/b", "1/99999999999"])
def test_invalid_shard_is_a_usage_error(shard):
    assert "expected I/N" in certify("--only", "RSP-009", f"--shard={shard}", status=2).stderr


def test_shard_without_cases_is_a_usage_error():
    assert "--shard 5/9 contains no case; the selection has only 1" in certify("--only", "RSP-009", "--shard", "5/9", status=2).stderr


def test_rerun_failed_runs_only_failed_cases_with_their_seed(tmp_path):
    fault = ("--fault", "naks-every-packet")
    certify("--only", "RSP-00*", "--only", "RSP-01*", *fault, "--seed", 77, "--repeat", 2, "--report", tmp_path / "a", status=1)
    before = json.loads((tmp_path / "a" / "report.json").read_text())
    failed = [case["id"] for case in before["cases"] if case["unexpected"]]
    assert GAP in failed and len(failed) < len(before["cases"])
    certify("--rerun-failed", tmp_path / "a", *fault, "--report", tmp_path / "b", status=1)
    after = json.loads((tmp_path / "b" / "report.json").read_text())
    assert [case["id"] for case in after["cases"]] == failed and after["seed"] == 77
    assert all(len(case["attempts"]) == 2 for case in after["cases"])
    # The corrected device passes all cases, so its report contains no case for a further run.
    certify("--rerun-failed", tmp_path / "a", "--report", tmp_path / "c")
    assert "contains no failed case\n" in certify("--rerun-failed", tmp_path / "c").stderr
    assert "contains no failed case of the selection\n" in certify("--rerun-failed", tmp_path / "a", "--only", "RSP-001").stderr


def test_rerun_failed_reports_unusable_report(tmp_path):
    assert "could not be read" in certify("--rerun-failed", tmp_path / "none", status=2).stderr
    (tmp_path / "report.json").write_text('{"cases": [{"id": "rc.none", "verdict": "fail"}]}')
    assert "this version has no case rc.none" in certify("--rerun-failed", tmp_path, status=2).stderr
    (tmp_path / "report.json").unlink()
    (tmp_path / "results.ndjson").write_text("")
    assert "--resume" in certify("--rerun-failed", tmp_path, status=2).stderr


def test_compare_lists_regressions(tmp_path):
    certify("--only", "RSP-009", "--only", "RSP-010", "--seed", 1, "--report", tmp_path / "old")
    certify("--only", "RSP-009", "--only", "RSP-011", "--fault", "naks-every-packet", "--seed", 1, "--report", tmp_path / "new", status=1)
    text = certify("compare", tmp_path / "old", tmp_path / "new", status=1).stdout
    assert f"worse     {GAP}: pass → fail\n" in text
    assert re.search(r"^new       rc\..+: pass$", text, re.M) and re.search(r"^not run   rc\..+: was pass$", text, re.M)
    assert "slower: at least 1.5 times as long and 0.1 s longer" in text and re.search(r", \d+ not run;", text)
    text = certify("compare", tmp_path / "new", tmp_path / "old" / "report.json", status=1).stdout
    assert f"better    {GAP}: fail → pass\n" in text
    shown = json.loads(certify("compare", tmp_path / "old", tmp_path / "old", "--json").stdout)
    assert shown["changes"] == [] and shown["regressions"] == 0 and shown["unchanged"] > 1


def test_compare_lists_violations_that_only_a_monitor_observes(tmp_path):
    run = ("--only", "rc.responder.rnr.then-executed-once/WRITE after the SEND", "--seed", 1)
    certify(*run, "--report", tmp_path / "old")
    certify(*run, "--fault", "naks-every-packet", "--baseline", tmp_path / "old" / "report.json", "--report", tmp_path / "new", status=1)
    report = json.loads((tmp_path / "new" / "report.json").read_text())
    SCHEMA.validate(report)
    assert report["cases"][0]["verdict"] == "pass" and report["changes"][0]["observed"] == [GAP]
    text = certify("compare", tmp_path / "old", tmp_path / "new", status=1).stdout
    assert ": pass → pass; monitors observe a violation of RSP-009\n" in text and "0 unchanged, 1 worse" in text
    text = certify("compare", tmp_path / "new", tmp_path / "old").stdout
    assert ": pass → pass; monitors no longer observe a violation of RSP-009\n" in text


def test_compare_reports_slower_cases_beyond_the_limits(tmp_path):
    def report(name, nanoseconds):
        path = tmp_path / name
        path.write_text(json.dumps({"format": 1, "seed": 1, "cases": [{"id": GAP, "verdict": "pass", "duration_ns": nanoseconds}]}))
        return path

    fast, slow = report("fast", 1_000_000_000), report("slow", 1_800_000_000)
    assert f"slower    {GAP}: 1.000 s → 1.800 s\n" in certify("compare", fast, slow, status=1).stdout
    assert "1 unchanged" in certify("compare", fast, slow, "--slower-factor", 2).stdout
    assert "1 unchanged" in certify("compare", fast, slow, "--slower-by", 0.9).stdout
    assert "1 unchanged" in certify("compare", slow, fast).stdout


def test_compare_warns_of_a_changed_package(tmp_path):
    certify("--only", "RSP-009", "--seed", 1, "--report", tmp_path / "a")
    (tmp_path / "a" / "index.html").write_text("")
    assert "is not intact" in certify("compare", tmp_path / "a", tmp_path / "a").stderr
    assert "could not be read" in certify("compare", tmp_path / "a", tmp_path / "none", status=3).stderr
    assert "expected two reports" in certify("compare", tmp_path / "a", status=2).stderr
    (tmp_path / "a" / "report.json").write_text("{")
    assert "invalid JSON" in certify("compare", tmp_path / "a", tmp_path / "a", status=3).stderr


def waivers(tmp_path, until, **more):
    path = tmp_path / "waivers.json"
    entry = {"verdict": "fail", "reason": "corrected in firmware 2", "until": until, "approved_by": "J. Doe", **more}
    path.write_text(json.dumps({"format": 1, "cases": {"RSP-009": entry, "RSP-009/as observed": entry}}))
    return path


def test_waived_failure_is_shown_as_waived(tmp_path):
    run = ("--only", "RSP-009", "--only", "RSP-010", "--seed", 1)
    certify(*run, "--report", tmp_path / "old")
    text = certify(*run, "--fault", "naks-every-packet", "--waivers", waivers(tmp_path, "2999-12-31"), "--report", tmp_path / "out").stdout
    assert "    waived    until 2999-12-31: corrected in firmware 2\n" in text and "waivers: 1 result waived, 0 with an expired" in text
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    SCHEMA.validate(report)
    (case,) = [case for case in report["cases"] if case["id"] == GAP]
    assert case["assessment"] == "waived" and case["verdict"] == "fail" and case["known"]["approved_by"] == "J. Doe"
    assert (tmp_path / "out" / "inputs" / "waivers.json").is_file()
    suites = ElementTree.parse(tmp_path / "out" / "junit.xml").getroot()
    assert [one.get("message") for one in suites.iter("skipped")] == [
        "fail, waived until 2999-12-31: corrected in firmware 2; RSP-009 as observed: waived until 2999-12-31: corrected in firmware 2"
    ]
    assert not list(suites.iter("failure")) and {suite.get("failures") for suite in suites} == {"0"}
    assert f"worse     {GAP}: pass → fail (waived)" in certify("compare", tmp_path / "old", tmp_path / "out").stdout
    # The result of the corrected device is expected.
    certify(*run, "--waivers", tmp_path / "waivers.json")


def test_expired_waiver_is_a_failure_and_named(tmp_path):
    run = ("--only", "RSP-009", "--seed", 1, "--waivers", waivers(tmp_path, "2020-01-31"))
    done = certify(*run, "--report", tmp_path / "out", "--fault", "naks-every-packet", status=1)
    assert "WAIVER EXPIRED on 2020-01-31: corrected in firmware 2" in done.stdout and "UNEXPECTED" in done.stdout
    assert f"the waiver of {GAP} expired on 2020-01-31: corrected in firmware 2" in done.stderr
    (case,) = json.loads((tmp_path / "out" / "report.json").read_text())["cases"]
    assert case["assessment"] == "waiver expired" and case["unexpected"]
    assert len(list(ElementTree.parse(tmp_path / "out" / "junit.xml").getroot().iter("failure"))) > 0


def test_waiver_of_a_monitor_violation_is_shown(tmp_path):
    run = ("--only", "rc.responder.rnr.then-executed-once/WRITE after the SEND", "--seed", 1, "--fault", "naks-every-packet")
    text = certify(*run, "--waivers", waivers(tmp_path, "2999-12-31"), "--report", tmp_path / "out").stdout
    assert "    waived    RSP-009 as observed: until 2999-12-31: corrected in firmware 2\n" in text and "1 result waived" in text
    with open(tmp_path / "out" / "traceability.csv", newline="") as file:
        (row,) = {(row["verdict"], row["assessment"], row["remark"]) for row in csv.DictReader(file) if row["case"]}
    assert row == ("pass", "waived", "RSP-009 as observed: waived until 2999-12-31: corrected in firmware 2")
    suites = ElementTree.parse(tmp_path / "out" / "junit.xml").getroot()
    assert not list(suites.iter("failure")) and len(list(suites.iter("skipped"))) == 1
    done = certify(*run, "--waivers", waivers(tmp_path, "2020-01-31"), status=1)
    assert "WAIVER EXPIRED RSP-009 as observed: on 2020-01-31" in done.stdout and "; 1 UNEXPECTED; " in done.stdout
    assert "WRITE after the SEND (RSP-009 as observed) expired on 2020-01-31: corrected in firmware 2" in done.stderr


def test_malformed_waivers_are_usage_errors(tmp_path):
    run = ("--only", "RSP-009", "--waivers")
    assert 'invalid "until": "soon"' in certify(*run, waivers(tmp_path, "soon"), status=2).stderr
    assert 'missing "until"' in certify(*run, waivers(tmp_path, ""), status=2).stderr
    assert 'unknown member "untill"; did you mean until?' in certify(*run, waivers(tmp_path, "2999-01-01", untill="x"), status=2).stderr


# Implementation conformance statement (ICS)


def ics_of(tmp_path, name="ics.json", **changes):
    """Writes the ICS of the reference device with changed members."""
    template = tmp_path / "template.json"
    if not template.exists():
        certify("--write-ics", template)
    ics = json.loads(template.read_text())
    for section, members in changes.items():
        ics[section] |= members
    path = tmp_path / name
    path.write_text(json.dumps(ics, indent=1))
    return path


XRC = ("--only", "xrc.*")


def test_template_of_the_device_is_a_valid_ics(tmp_path):
    path = tmp_path / "ics.json"
    assert "fill in: implementation.vendor" in certify("--write-ics", path).stderr
    ics = json.loads(path.read_text())
    assert ics["transport"] == "roce" and ics["capabilities"]["xrc"] is True and ics["limits"]["max_qp"] > 0
    assert ics["capabilities"]["uc"] is None and "capabilities.uc" in ics["unanswered"]
    assert "exists already" in certify("--write-ics", path, status=2).stderr
    text = certify(*XRC, "--ics", path, "--report", tmp_path / "out").stdout
    assert re.search(r"^ICS: \d+ pass$", text, re.M), text
    assert (tmp_path / "out" / "inputs" / "ics.json").is_file()
    SCHEMA.validate(json.loads((tmp_path / "out" / "report.json").read_text()))


def test_declared_capability_that_is_missing_fails(tmp_path):
    path = ics_of(tmp_path, limits={"max_qp": 1000000})
    done = certify("--only", "RSP-009", "--ics", path, "--report", tmp_path / "out", status=1)
    assert "ICS fail       limits.max_qp: declared 1000000, reported by the device: 4096" in done.stdout
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    SCHEMA.validate(report)
    assert {"status": "fail", "member": "limits.max_qp", "claimed": "1000000", "reported": "4096",
            "cases": {"pass": 0, "fail": 0, "unsupported": 0, "other": 0}} in report["ics"]  # fmt: skip


def test_unclaimed_capability_is_reported(tmp_path):
    text = certify(*XRC, "--ics", ics_of(tmp_path, capabilities={"xrc": False, "uc": False})).stdout
    assert re.search(r"^ICS unclaimed  capabilities.xrc: declared false, reported by the device: true; cases: [1-9]\d* pass", text, re.M), text
    text = certify("--only", "uc.*", "--ics", ics_of(tmp_path, capabilities={"uc": False})).stdout
    assert re.search(r"^ICS unclaimed  capabilities.uc: declared false, reported by the device: unknown; cases: [1-9]", text, re.M), text


def test_failed_cases_of_a_kind_of_address_contradict_the_ics(tmp_path):
    path = ics_of(tmp_path, capabilities={"uc": None})
    for fault, capability in (("only-ipv4", "ipv6"), ("vlan-priority-zero", "vlan")):
        text = certify("--ics", path, "--fault", fault, "--only", "HDR-*", status=1).stdout
        assert re.search(rf"^ICS fail       capabilities.{capability}: .*; cases: \d+ pass, [1-9]\d* fail", text, re.M), text


def test_cases_with_frames_of_a_kind_are_counted_by_the_ics(tmp_path):
    certify("--ics", ics_of(tmp_path), "--seed", 1, "--report", tmp_path / "out", status=None)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    counted = {one["member"]: sum(one["cases"].values()) for one in report["ics"]}
    for capability, kind in (("ipv6", "86dd"), ("vlan", "8100"), ("roce_v1", "8915")):
        sends = [case["id"] for case in report["cases"]
                 if any(step["kind"] == "received" and step.get("frame", "")[24:28] == kind for step in case["steps"])]  # fmt: skip
        assert counted[f"capabilities.{capability}"] >= len(sends) > 0, sends
    assert counted["capabilities.congestion_management"] > 5


def test_contradictory_ics_is_a_usage_error(tmp_path):
    error = certify("--ics", ics_of(tmp_path, capabilities={"ud": False, "multicast": True}), status=2).stderr
    assert re.search(r"ics.json: line \d+: capabilities.multicast: is true, but capabilities.ud is false", error), error
    assert "could not be read" in certify("--ics", tmp_path / "none", status=2).stderr


def test_ixit_sets_options_that_the_command_line_overrides(tmp_path):
    path = ics_of(tmp_path, ixit={"device": "mlx5"})
    assert 'unknown device "mlx5"' in certify("--only", "RSP-009", "--ics", path, status=2).stderr
    certify("--only", "RSP-009", "--ics", path, "--device", "reference")
    path = ics_of(tmp_path, ixit={"congestion_management": False, "case_timeout_s": 30})
    certify("--only", "RSP-009", "--ics", path, "--report", tmp_path / "out")
    parameters = json.loads((tmp_path / "out" / "manifest.json").read_text())["parameters"]
    assert parameters["congestion_management"] is False and parameters["case_timeout_s"] == 30
    repeated = certify("--only", "RSP-009", "--fault", "naks-every-packet", "--ics", path, status=1).stdout
    assert f"repeat    rdmawire certify --fault naks-every-packet --ics {path} --only" in repeated


def test_ics_of_another_transport_selects_its_cases(tmp_path):
    path = tmp_path / "iwarp.json"
    certify("--only", "MPA-*", "--write-ics", path)
    assert json.loads(path.read_text())["transport"] == "iwarp"
    assert "none of the selected cases tests it" in certify("--only", "RSP-009", "--ics", path, status=2).stderr
    certify("--only", "MPA-008", "--ics", path)


# Clause numbers of a licensee


def explain(*arguments, status=0, **environment):
    done = subprocess.run([COMMAND, "explain", *map(str, arguments)], timeout=60, capture_output=True, text=True,
                          env=os.environ | environment)
    assert done.returncode == status, done.stdout + done.stderr
    return done


@pytest.fixture
def clauses(tmp_path):
    """A file with one clause number, completed from the template."""
    file = tmp_path / "clauses.json"
    written = explain("--write-clauses", file).stderr
    assert re.search(r"clauses.json contains \d+ clauses without a number, and 0 with one", written)
    content = json.loads(file.read_text())
    content["rules"]["HDR-026"]["clauses"]["validation of BTH and queue pair"] |= {"release": "1.7", "section": "9.6.1.9.9"}
    file.write_text(json.dumps(content, indent=1))
    return file


NUMBER = "IBTA vol 1 release 1.7, 9.6.1.9.9 (validation of BTH and queue pair)"


def test_clause_numbers_of_a_file_are_in_all_reports(tmp_path, clauses):
    assert "clause number not verified" in explain("HDR-026").stdout
    assert NUMBER in explain("HDR-026", "--clauses", clauses).stdout
    assert "HDR-026" in explain("9.6.1.9.9", RDMAWIRE_CLAUSES=str(clauses)).stdout
    explain("9.6.1.9.9", status=2)
    out = tmp_path / "out"
    certify("--only", "HDR-026", "--only", "HDR-024", "--clauses", clauses, "--seed", 1, "--report", out)
    report = json.loads((out / "report.json").read_text())
    assert {case["clauses"] for case in report["cases"] if case["alias"] == "HDR-026"} == {NUMBER}
    assert report["clause_numbers"]["supplied"] == 1
    schema("certify").validate(report)
    matrix = json.loads((out / "traceability.json").read_text())
    schema("traceability").validate(matrix)
    (row,) = (rule for rule in matrix["rules"] if rule["alias"] == "HDR-026")
    assert row["clauses"] == [{"clause": NUMBER, "verified": True, "supplied": True}]
    with (out / "traceability.csv").open(newline="") as file:
        verified = {row["clause number verified"] for row in csv.DictReader(file) if row["alias"] == "HDR-026"}
    assert verified == {"supplied"}
    (carried,) = re.findall(r'id="report-data">([^<]*)<', (out / "index.html").read_text())
    assert NUMBER in gzip.decompress(base64.b64decode(carried)).decode()
    assert (out / "inputs" / "clauses.json").read_bytes() == clauses.read_bytes()


def test_check_reads_clause_numbers(clauses):
    done = subprocess.run([COMMAND, "check", ROOT / "captures" / "samples" / "mrc.pcap", "--json", "--clauses", clauses],
                          timeout=60, capture_output=True)
    report = json.loads(done.stdout)
    schema("check").validate(report)
    assert report["clause_numbers"]["supplied"] == 1
    assert [rule["clause"] for rule in report["rules"] if rule["alias"] == "HDR-026"] == [NUMBER]


def test_a_template_keeps_the_numbers_and_replaces_no_file(tmp_path, clauses):
    explain("--clauses", clauses, "--write-clauses", tmp_path / "new.json")
    assert json.loads((tmp_path / "new.json").read_text()) == json.loads(clauses.read_text())
    assert "exists already" in explain("--write-clauses", clauses, status=2).stderr


def test_malformed_clause_files_are_usage_errors(tmp_path, clauses):
    file = tmp_path / "wrong.json"
    file.write_text(clauses.read_text().replace('"HDR-026"', '"HDR-26"'))
    for command in ["explain", "HDR-026"], ["certify", "--only", "HDR-026"], ["check", "x.pcap"]:
        done = subprocess.run([COMMAND, *command, "--clauses", file], timeout=60, capture_output=True, text=True)
        assert done.returncode == 2 and "HDR-26: unknown rule; did you mean HDR-026?" in done.stderr, done.stderr
    message = explain("HDR-026", status=2, RDMAWIRE_CLAUSES=str(file)).stderr
    assert "the environment variable RDMAWIRE_CLAUSES: " in message
    # The reference pages do not use the file.
    explain("--rules", RDMAWIRE_CLAUSES=str(file))


# Shards


def test_merged_shards_equal_a_run_without_shards(tmp_path):
    run = ("--only", "RSP-00*", "--only", "RSP-01*", "--fault", "naks-every-packet", "--seed", 3)
    parts = [tmp_path / f"part{i}" for i in range(1, 4)]
    for number, part in enumerate(parts, 1):
        certify(*run, "--shard", f"{number}/3", "--report", part, status=None)
    whole = certify(*run, "--report", tmp_path / "whole", status=1)
    merged = certify("merge", tmp_path / "all", *parts, status=1)
    assert merged.stdout == whole.stdout
    for name in "report.json", "junit.xml", "traceability.csv", "traceability.json", "index.html":
        assert (tmp_path / "all" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    manifest = json.loads((tmp_path / "all" / "manifest.json").read_text())
    schema("manifest").validate(manifest)
    assert [shard["shard"] for shard in manifest["shards"]] == ["1/3", "2/3", "3/3"]
    assert "intact" in verify(tmp_path / "all").stdout
    # The merged package is a report like any other.
    assert "0 unchanged" not in certify("compare", tmp_path / "whole", tmp_path / "all").stdout
    certify("--rerun-failed", tmp_path / "all", *run[4:6], status=1)
    assert json.loads(certify("merge", tmp_path / "json", *parts, "--json", status=1).stdout) == json.loads((tmp_path / "all" / "report.json").read_text())


def test_merge_refuses_incomplete_and_foreign_shards(tmp_path):
    run = ("--only", "RSP-00*", "--seed", 3)
    one, two, other = tmp_path / "one", tmp_path / "two", tmp_path / "other"
    certify(*run, "--shard", "1/2", "--report", one)
    certify(*run, "--shard", "2/2", "--report", two)
    certify("--only", "RSP-00*", "--seed", 4, "--shard", "2/2", "--report", other)
    out = tmp_path / "out"
    assert "could not be read" in certify("merge", out, one, tmp_path / "none", status=3).stderr
    assert "have different setups: seed is 3 and 4" in certify("merge", out, one, other, status=3).stderr
    assert "are both shard 1/2" in certify("merge", out, one, one, status=3).stderr
    assert "expected a new directory and the packages of two or more shards" in certify("merge", out, one, status=2).stderr
    assert not out.exists()
    (two / "junit.xml").write_text("")
    assert "the package is not intact" in certify("merge", out, one, two, status=3).stderr


def test_merge_into_a_directory_with_a_shard_is_refused(tmp_path):
    run = ("--only", "RSP-00*", "--seed", 3)
    one, two = tmp_path / "all" / "one", tmp_path / "all" / "two"
    certify(*run, "--shard", "1/2", "--report", one)
    certify(*run, "--shard", "2/2", "--report", two)
    for target in tmp_path / "all", one / "inputs" / "new", f"{tmp_path}/all/":
        for overwrite in (), ("--overwrite",):
            assert "contain each other" in certify("merge", target, one, two, *overwrite, status=3).stderr
    assert "is one of the shards" in certify("merge", one, one, two, "--overwrite", status=3).stderr
    for part in one, two:
        assert "intact" in verify(part).stdout


def test_failed_merge_keeps_the_previous_report(tmp_path):
    run = ("--only", "RSP-00*", "--seed", 3)
    one, two, out = tmp_path / "one", tmp_path / "two", tmp_path / "out"
    certify(*run, "--shard", "1/2", "--report", one)
    certify(*run, "--shard", "2/2", "--report", two)
    certify(*run, "--report", out)
    for part in one, two:
        manifest = json.loads((part / "manifest.json").read_text())
        manifest["arguments"] = [1]
        (part / "manifest.json").write_text(json.dumps(manifest))
    assert "contain a member of another type" in certify("merge", out, one, two, "--overwrite", status=3).stderr
    assert "intact" in verify(out).stdout


@pytest.fixture
def keys(tmp_path):
    """An Ed25519 key pair: the files of the private and of the public key."""
    if not shutil.which("openssl"):
        pytest.skip("needs openssl")
    private, public = tmp_path / "private.key", tmp_path / "public.key"
    for command in ["genpkey", "-algorithm", "ed25519", "-out", private], ["pkey", "-in", private, "-pubout", "-out", public]:
        subprocess.run(["openssl", *command], check=True, timeout=60, capture_output=True)
    return private, public


def test_merge_checks_and_writes_signatures(tmp_path, keys):
    private, public = keys
    run = ("--only", "RSP-00*", "--seed", 3)
    one, two = tmp_path / "one", tmp_path / "two"
    certify(*run, "--shard", "1/2", "--report", one, "--sign", private)
    certify(*run, "--shard", "2/2", "--report", two)
    assert "two: the package is not intact" in certify("merge", tmp_path / "out", one, two, "--public-key", public, status=3).stderr
    certify(*run, "--shard", "2/2", "--report", two, "--overwrite", "--sign", private)
    certify("merge", tmp_path / "out", one, two, "--public-key", public, "--sign", private)
    assert "signature     valid" in verify(tmp_path / "out", "--public-key", public).stdout
    assert (tmp_path / "out" / "inputs" / "shard-1.sig").read_bytes() == (one / "manifest.sig").read_bytes()


# Repetitions, parameters and options


def test_repeat_states_whether_results_are_stable(tmp_path):
    text = certify("--only", "RSP-009", "--fault", "naks-every-packet", "--repeat", 3, "--seed", 1, status=1).stdout
    assert "    repeated  of 3 runs 3 fail\n" in text
    assert "repeated: 1 of 1 cases have the same verdict in all runs\n" in text
    assert "repeated" not in certify("--only", "RSP-009", "--seed", 1).stdout


@pytest.mark.parametrize("options", [("--write-ics", "x", "--report", "y"), ("--write-ics", "x", "--sign", "y"),
                                     ("--preflight", "--sign", "y"), ("--preflight", "--report", "y")])
def test_options_without_effect_are_refused(tmp_path, options):
    done = subprocess.run([COMMAND, "certify", *options], cwd=tmp_path, timeout=60, capture_output=True, text=True)
    assert done.returncode == 2 and options[-2] in done.stderr, done.stderr
    assert not list(tmp_path.iterdir())


def test_rerun_of_a_partial_report_warns(tmp_path):
    certify("--only", "RSP-00*", "--seed", 1, "--report", tmp_path / "a")
    report = json.loads((tmp_path / "a" / "report.json").read_text())
    report["partial"] = "3 of 9 cases ran"
    (tmp_path / "partial.json").write_text(json.dumps(report))
    assert "is partial: 3 of 9 cases ran; only its results are considered" in certify("--rerun-failed", tmp_path / "partial.json").stderr


def test_parameter_values_of_failures_are_stated(tmp_path):
    """The device fails with the first PSN 0 and with one that wraps, so no single combination separates the rows."""
    text = certify("--only", "rc.responder.ack.asked-for-once", "--fault", "psn-does-not-wrap", "--seed", 1, "--report", tmp_path / "out",
                   status=1).stdout
    assert re.search(r"^RSP-003 fails in some rows: no combination of up to 4 parameter values separates them: \d+ rows failed, "
                     r"\d+ passed$", text, re.M), text
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    SCHEMA.validate(report)
    (conditions,) = report["failure_conditions"]
    assert conditions["whenever"] == []
    assert conditions["cases"] == [case["id"] for case in report["cases"] if case["verdict"] == "fail"]
    matrix = json.loads((tmp_path / "out" / "traceability.json").read_text())
    (rule,) = (rule for rule in matrix["rules"] if rule["alias"] == "RSP-003")
    rows = [row for case in rule["cases"] for row in case["rows"] if "first PSN" in row["parameters"]]
    assert {row["parameters"]["first PSN"] for row in rows if row["verdict"] == "fail"} == {"0", "wraps"}
