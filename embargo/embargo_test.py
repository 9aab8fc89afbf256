"""The embargoed findings: complete, harmless to the reference devices, and absent from all published files."""

import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
FINDINGS = {entry["id"]: entry for entry in tomllib.loads((HERE / "findings.toml").read_text())["finding"]}
LAB = os.environ.get("RDMAWIRE_LAB") == "1" or os.environ.get("RDMAWIRE_FULL") == "1"
PYTHON = os.environ.get("RDMAWIRE_PYTHON", str(ROOT / "build" / "dev" / "python"))


def checker():
    loader = importlib.machinery.SourceFileLoader("check_published", str(ROOT / "scripts" / "check-published"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


CHECKER = checker()
TRACES = CHECKER.Findings(HERE / "findings.toml")


def expected(device, kernel):
    return json.loads((HERE / "expected" / f"{device}-{kernel}.json").read_text())["cases"]


@pytest.mark.parametrize("id", FINDINGS)
def test_report_is_ready_to_send(id):
    text = (HERE / "reports" / f"{id}.txt").read_text()
    assert text.startswith("To: security@kernel.org\nCc: ")
    for title in ("Affected versions", "Impact", "Reproducer", "Analysis", "Direction of a fix", "Disclosure"):
        assert f"\n{title}\n{'-' * len(title)}\n" in text
    assert "vger.kernel.org" not in text, "a public list"
    body = text.split("\n\n", 1)[1]
    assert max(map(len, body.splitlines())) <= 76
    for kernel in FINDINGS[id]["kernels"]:
        assert re.search(rf"\b{re.escape(kernel)}\.", text)
    assert f"| {id} |" in (HERE / "README.md").read_text()
    assert re.search(rf"\b{id}\b", (HERE / "reporting.md").read_text())


@pytest.mark.parametrize("id", [id for id, entry in FINDINGS.items() if "scripts" in entry])
def test_report_contains_the_script(id):
    text = (HERE / "reports" / f"{id}.txt").read_text()
    for name in FINDINGS[id]["scripts"][:1]:
        steps = json.loads((HERE / name).read_text())["steps"]
        assert '{"seed"' not in text and '{"family"' not in text or all(
            all(f'"{field}": ' in text for field in step) for step in steps)  # fmt: skip


def test_each_file_belongs_to_a_finding():
    scripts = {str(path.relative_to(HERE)) for path in (HERE / "scripts").rglob("*.json")}
    assert scripts == {name for entry in FINDINGS.values() for name in entry.get("scripts", [])}
    assert {path.stem for path in (HERE / "reports").iterdir()} == set(FINDINGS)


@pytest.mark.parametrize("device, kernel", [("rxe", "6.1"), ("rxe", "7.2"), ("siw", "6.1"), ("siw", "7.2")])
def test_results_belong_to_findings_and_are_not_published(device, kernel):
    wanted = {key for entry in FINDINGS.values() if entry["device"] == device and kernel in entry["kernels"]
              for key in entry.get("expected", [])}  # fmt: skip
    assert set(expected(device, kernel)) == wanted
    public = json.loads((ROOT / "conformance" / "expected" / f"{device}-{kernel}.json").read_text())["cases"]
    assert not wanted & set(public)


def test_results_name_existing_cases():
    program = ROOT / "build" / "dev" / "bin" / "rdmawire"
    if not program.exists():
        pytest.skip("needs build/dev/bin/rdmawire")
    for path in sorted((HERE / "expected").glob("*.json")):
        done = subprocess.run([program, "certify", "--only", "RSP-009", "--expected", path], capture_output=True,
                              text=True, timeout=60, check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr


def test_scripts_cause_no_alarm_on_the_reference_devices():
    fuzz = pytest.importorskip("rdmawire.fuzz")
    for path in sorted((HERE / "scripts").rglob("*.json")):
        assert fuzz.replay(fuzz.Script.from_json(path.read_text())).alarm is None, path.name


@pytest.mark.skipif(not LAB, reason="requires RDMAWIRE_LAB=1, because it boots virtual machines")
@pytest.mark.parametrize("path", sorted((HERE / "scripts").rglob("*.json")), ids=lambda path: path.stem)
def test_script_causes_an_alarm_on_the_kernel(path):
    done = subprocess.run(
        [sys.executable, "-m", "rdmawire.fuzz", "--target", f"lab:{path.parent.name}", "--replay", str(path)],
        env=dict(os.environ, PYTHONPATH=PYTHON), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr


# ---------------------------------------------------------------------------------------------------------------------
# Published files

WRITE = "45 00 00 48 00 00 40 00 40 11 00 00 0a 00 00 03 0a 00 00 02 c0 00 12 b7 00 34 00 00 " \
        "0a 00 ff ff 00 00 00 11 80 00 00 05 00 00 00 00 00 00 10 00 00 00 12 34 00 00 00 00 " \
        "61 61 61 61 61 61 61 61 00 00 00 00"  # fmt: skip
REPLY = b"MPA ID Rep Frame".hex() + " 50 02 01 fc"
SHORT_REPLY = b"MPA ID Rep Frame".hex() + " 50 02 00 00"
MAD = "12 b7 01 24 00 00 64 00 ff ff 00 00 00 01 00 00 00 00"
LEAKS = {
    "rxe-zero-length-write": WRITE,
    "siw-long-reply": REPLY,
    "siw-reply-without-enhanced-data": SHORT_REPLY,
    "rxe-oversized-mad": MAD,
}


def traces(data):
    return {id for id, _ in TRACES.reveals(data)}


@pytest.mark.parametrize("id", LEAKS)
def test_frame_is_recognized(id):
    frame = bytes.fromhex(LEAKS[id])
    assert id in traces(b"\0\xff" * 9 + frame + b"\0" * 9)
    assert id in traces(("frame:\n" + frame.hex(" ") + " 00" * 12 + "\n").encode())


def test_legal_neighbors_of_the_frames_are_not_recognized():
    write = bytearray(bytes.fromhex(WRITE))
    write[22:26] = bytes.fromhex("00 28 00 00")
    assert not traces(b"\0" + bytes(write)), "a WRITE of length 0 without payload"
    assert not traces(b"\0" + bytes.fromhex(REPLY.replace("01 fc", "01 00")))
    assert not traces(b"\0" + bytes.fromhex(SHORT_REPLY.replace("00 00", "00 04")))
    assert not traces(b"\0" + bytes.fromhex(MAD.replace("01 24", "01 20")))


@pytest.mark.parametrize("id", FINDINGS)
def test_each_trace_of_a_finding_is_recognized(id):
    entry = FINDINGS[id]
    assert id in traces((HERE / "reports" / f"{id}.txt").read_bytes() + b"changed")
    for name in entry.get("scripts", []):
        content = (HERE / name).read_text()
        assert "copy" in traces(json.dumps(json.loads(content), indent=3).encode())
    for kernel in entry["kernels"]:
        cases = expected(entry["device"], kernel)
        for key in entry.get("expected", []):
            assert id in traces(json.dumps({key: cases[key]}).encode()), key
            # The result without reason and evidence.
            assert id in traces(json.dumps({key: {"verdict": "fail"}}).encode()), key


@pytest.mark.parametrize("id", [id for id, entry in FINDINGS.items() if "step" in entry])
def test_changed_script_is_recognized(id):
    """A script with other seed and other preceding steps."""
    for name in FINDINGS[id]["scripts"]:
        script = json.loads((HERE / name).read_text())
        script["seed"] += 1
        script["steps"][0]["depth"] = 3
        script["steps"].insert(1, {"do": "request", "opcode": 4})
        assert id in traces(json.dumps(script).encode()), name


def test_release_fails_if_a_finding_is_planted(tmp_path):
    """The release script on a copy of this repository's tree, with one real reproducer in the public corpus."""
    root = tmp_path / "repository"
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    for name in ("scripts", "embargo", "docs/reference"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("CMakeLists.txt", "CHANGELOG.md", "SECURITY.md"):
        shutil.copy(ROOT / name, root)
    planted = root / "conformance" / "fuzzer" / "corpus" / "script_fuzz" / "input"

    def failed():
        subprocess.run([*git, "add", "--all"], check=True)
        subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message", "All"], check=True)
        done = subprocess.run(["scripts/release", "9.9.9"], cwd=root, capture_output=True, text=True, check=False)
        return "FAILED  no published file reveals an embargoed finding" in done.stdout, done.stdout

    assert not failed()[0], failed()[1]
    planted.parent.mkdir(parents=True)
    shutil.copy(HERE / "scripts" / "rxe" / "invalidate-free-window.json", planted)
    is_found, output = failed()
    assert is_found and "conformance/fuzzer/corpus/script_fuzz/input: rxe-invalidate-free-window: step" in output


def test_published_files_contain_no_trace():
    names = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=False)
    if names.returncode:
        pytest.skip("needs a git work tree")
    paths = [ROOT / name for name in names.stdout.split("\0") if name and not name.startswith("embargo/")]
    found = [(path, *CHECKER.check(TRACES, path)) for path in paths if path.is_file()]
    assert sum(count for _, count, _ in found) > 1500
    assert [str(path) for path, _, count in found if count] == []
