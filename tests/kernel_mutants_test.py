"""scripts/kernel-mutants: the mutants of a line, the draw, stored results, and the comparison of runs by a small program."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from scripts_test import load

ROOT = Path(__file__).resolve().parent.parent
kernel_mutants = load("kernel-mutants")
changes, lab = sys.modules["kernel_changes"], sys.modules["kernel_lab"]


def text(*lines):
    return "".join(f"{line}\n" for line in lines)


def changed(line, kind=None):
    """The changed lines of a statement in a function."""
    source = f"static int f(struct qp *qp)\n{{\n\t{line}\n}}\n"
    return sorted(mutant.after for mutant in changes.mutants_of("a.c", source) if kind in (None, mutant.kind))


# ---- Mutants

@pytest.mark.parametrize("line, expected", [
    ("if (a < b)\n\t\tgoto out;", ["if (!(a < b))", "if (0)", "if (1)", "if (a <= b)", ";"]),
    ("if (!a) return 7;", ["if (a) return 7;", "if (0) return 7;", "if (1) return 7;", "if (!a) ;", "if (!a) return 8;",
                           "if (!a) return 6;"]),
    ("while ((skb = next(qp))) drop(skb);", ["while (!((skb = next(qp)))) drop(skb);", "while (0) drop(skb);",
                                             "while ((skb = next(qp))) ;"]),
    ("x = a ? b : c;", ["x = !(a) ? b : c;", ";"]),
    ("qp->resp.psn = (pkt->psn + 1) & BTH_PSN_MASK;", [";", "qp->resp.psn = (pkt->psn + 2) & BTH_PSN_MASK;",
                                                       "qp->resp.psn = (pkt->psn + 0) & BTH_PSN_MASK;"]),
    ("u8 n = 0x10;", ["u8 n = 0x11;", "u8 n = 0xf;"]),
    ("struct skb *skb;", []),
])
def test_mutants_of_a_line(line, expected):
    assert changed(line) == sorted(expected)


@pytest.mark.parametrize("line", [
    'pr_debug("%d < %d\\n", a < b, 3);',
    'siw_dbg_qp(qp, "state %d == 1\\n", qp->state);',
    'rxe_dbg_mw(mw, "1 < 2\\n");',
    "WARN_ON(a == 1);",
    "/* if (a < 3) */",
    "// return -EINVAL;",
    "const char *text = \"if (a < 1)\";",
    'if (unlikely(err)) pr_warn("failed, err %d\\n", err);',
    text("if (err) {", 'pr_warn("failed, err %d\\n", err);', "}"),
])
def test_log_messages_comments_and_strings_have_no_mutants(line):
    assert [after for after in changed(line) if after != ""] == []


def test_condition_of_a_statement_with_effects_and_logs_is_changed():
    assert "if (0) {" in changed(text("if (err) {", 'pr_warn("x");', "err = g();", "}"))


def test_error_code_is_replaced_by_another_one_of_the_file():
    source = text("int f(int s)", "{", "switch (s) {", "case RESPST_ERR_RNR:", "return -EINVAL;", "default:",
                  "g(RESPST_ERR_LENGTH);", "return -ENOMEM;", "}", "}")
    found = [(mutant.line, mutant.after) for mutant in changes.mutants_of("a.c", source) if mutant.kind == "error code"]
    assert found == [(5, "return -ENOMEM;"), (7, "g(RESPST_ERR_RNR);"), (8, "return -EINVAL;")]


def test_statement_after_a_label_is_deleted():
    assert changed("out:\n\tkfree_skb(skb);", "deleted statement") == [";"]


def test_mutant_changes_one_place_and_states_its_difference():
    source = text("int f(int a)", "{", "\treturn a < 2;", "}")
    mutant = next(m for m in changes.mutants_of("a.c", source) if m.kind == "boundary")
    change = changes.change_of(mutant, source)
    assert change.changed == {"a.c": source.replace("<", "<=")}
    assert change.diff == "@@ -3 +3 @@\n" + text("-\treturn a < 2;", "+\treturn a <= 2;").rstrip()


# ---- Draw

MUTANTS = [SimpleNamespace(id=f"{i}", path="a.c", line=i) for i in range(8)]


def test_draw_replaces_mutants_that_do_not_compile_or_are_equivalent():
    rows = {"1": {"verdict": "did not compile"}, "2": {"verdict": "equivalent"}, "3": {"verdict": "survived"}}
    assert [m.id for m in kernel_mutants.chosen_of(MUTANTS, 4, rows)] == ["0", "3", "4", "5"]
    assert [m.id for m in kernel_mutants.chosen_of(MUTANTS, 4, {})] == ["0", "1", "2", "3"]
    assert len(kernel_mutants.chosen_of(MUTANTS, 0, rows)) == 6


SOURCES = {"rxe_mw.c": text("int f(int a)", "{", "\tif (a < 3)", "\t\treturn 5;", "\ta += 2;", "\treturn g(a);", "}"),
           "rxe_mr.c": "int x = 1;\n", "rxe_av.c": "int y = 1;\n"}


def test_selection_of_files_and_lines():
    names = kernel_mutants.FILES["rxe"]
    assert {m.path for m in kernel_mutants.selected(SOURCES, names, [])} == {"rxe_mw.c", "rxe_mr.c"}
    assert {(m.path, m.line) for m in kernel_mutants.selected(SOURCES, names, ["rxe_mw.c:4-5", "rxe_av.c"])} == {
        ("rxe_mw.c", 4), ("rxe_mw.c", 5), ("rxe_av.c", 1)}
    with pytest.raises(lab.Missing, match="rxe_none.c: no such source"):
        kernel_mutants.selected(SOURCES, names, ["rxe_none.c"])


def plan(number, seed, rows):
    options = SimpleNamespace(device="rxe", sources=[], number=number, seed=seed, revert=None)
    return kernel_mutants.Plan(options, SOURCES, rows)


def test_smaller_draw_is_part_of_larger_draw_of_same_seed():
    def drawn(number, seed):
        return [m.id for m in plan(number, seed, {}).chosen()]

    assert drawn(6, 1)[:3] == drawn(3, 1) and len(drawn(6, 1)) == 6
    assert drawn(6, 1) != drawn(6, 2)


class FakeJob:
    """Examines a change without a kernel. The first changes do not compile."""

    certifier = SimpleNamespace(end=lambda: None)

    def __init__(self, verdicts):
        self.verdicts, self.examined = verdicts, []

    def examine(self, change, layers):
        verdict = self.verdicts[len(self.examined)] if len(self.examined) < len(self.verdicts) else "killed"
        self.examined.append(change.id)
        if verdict == "interrupt":
            raise KeyboardInterrupt
        return {"id": change.id, "file": change.file, "line": change.line, "kind": change.kind, "diff": change.diff,
                "verdict": verdict, "detail": "", "seconds": 0}


def run_all(number, rows, verdicts=(), key="k", jobs=1, path=None):
    job, chosen = FakeJob(verdicts), plan(number, 1, rows)

    def save():
        if path:
            kernel_mutants.save_results(path, {"device": "rxe"}, rows)

    kernel_mutants.run_all(lambda: chosen.left(key), [job] * jobs, None, rows, key, save)
    return job, chosen


@pytest.mark.parametrize("jobs", [1, 2])
def test_run_continues_until_the_wanted_number_compiled(jobs):
    rows = {}
    job, chosen = run_all(4, rows, ["did not compile", "survived", "equivalent"], jobs=jobs)
    assert len(job.examined) == 6
    results = [row["verdict"] for row in chosen.results()]
    assert sorted(results) == ["did not compile", "equivalent", "killed", "killed", "killed", "survived"]


def test_interrupted_run_is_continued_with_stored_results(tmp_path):
    path, rows = tmp_path / "results.json", {}
    with pytest.raises(KeyboardInterrupt):
        run_all(4, rows, ["killed", "survived", "interrupt"], path=path)
    stored = {row["id"]: row for row in kernel_mutants.load_results(path)["mutants"]}
    assert len(stored) == 2
    job, _ = run_all(4, dict(stored))
    assert len(job.examined) == 2 and not set(job.examined) & set(stored)
    # Survivors run again with another program. Killed mutants keep their result.
    job, _ = run_all(4, dict(stored), key="other")
    assert len(job.examined) == 3


def test_lab_error_is_tried_again_in_the_next_run():
    rows = {}
    job, _ = run_all(2, rows, ["lab error"])
    assert len(job.examined) == 2
    job, _ = run_all(2, rows)
    assert len(job.examined) == 1


def test_damaged_results_file_is_an_error(tmp_path):
    path = tmp_path / "results.json"
    path.write_text("{")
    with pytest.raises(lab.Missing, match="not a results file"):
        kernel_mutants.load_results(path)


# ---- Summary

def row(id, verdict, file="a.c"):
    return {"id": id, "file": file, "line": 3, "kind": "boundary", "diff": "-a < b\n+a <= b\n", "verdict": verdict,
            "detail": "d"}


def test_summary_counts_observable_mutants_only():
    rows = [row("1", "killed"), row("2", "crashed"), row("3", "survived"), row("4", "survived", "b.c"),
            row("5", "did not compile"), row("6", "equivalent"), row("7", "lab error")]
    lines = kernel_mutants.summary(rows, {})
    assert lines[-1] == "found: 2 of 4 observable mutants (50.0 %)"
    lines = kernel_mutants.summary(rows, {"3": ("only the log differs", False), "4": ("no case wraps", True)})
    assert lines[-1] == "found: 2 of 3 observable mutants (66.7 %)"
    assert "explanation: only the log differs (not observable)" in lines
    assert "explanation: no case wraps" in lines
    assert "lab error: a.c:3 boundary (7): d" in lines
    total = next(line for line in lines if line.startswith("all "))
    assert total.split() == ["all", "7", "1", "1", "2", "1", "1", "1", "0"]
    assert kernel_mutants.summary([], {})[-1] == "found: 0 of 0 observable mutants (no result)"


@pytest.mark.parametrize("content", ["[[explanation]]\nid = '1'\nreason = 'x'\n", "[[explanation]]\nobservable = true\n", "="])
def test_incomplete_explanation_is_an_error(tmp_path, content):
    path = tmp_path / "explanations.toml"
    path.write_text(content)
    with pytest.raises(lab.Missing, match="explanations.toml"):
        kernel_mutants.load_explanations(path)


def test_explanations_are_read(tmp_path):
    path = tmp_path / "explanations.toml"
    path.write_text("[[explanation]]\nid = '1'\nreason = 'x'\nobservable = false\n")
    assert kernel_mutants.load_explanations(path) == {"1": ("x", False)}


# ---- Patches

PATCH = text(
    "From 1 Mon Sep 17 00:00:00 2001", "Subject: [PATCH] RDMA/rxe: Fix the limit", "", "---",
    " drivers/infiniband/sw/rxe/rxe_mw.c | 2 +-", " include/rdma/x.h                   | 1 +", "",
    "--- a/drivers/infiniband/sw/rxe/rxe_mw.c", "+++ b/drivers/infiniband/sw/rxe/rxe_mw.c", "@@ -1,5 +1,5 @@",
    " int f(int a)", " {", "-\tif (a <= 3)", "+\tif (a < 3)", " \t\treturn 5;", " \ta += 2;", "--- a/include/rdma/x.h",
    "+++ b/include/rdma/x.h", "@@ -1 +1,2 @@", " a", "+b", "-- ", "2.40")


def test_patch_is_undone(tmp_path):
    path = tmp_path / "1.patch"
    path.write_text(PATCH)
    change = changes.reversal(path, "rxe", SOURCES)
    assert change.error == ""
    assert change.changed == {"rxe_mw.c": SOURCES["rxe_mw.c"].replace("a < 3", "a <= 3")}
    assert "+\tif (a <= 3)" in change.diff


@pytest.mark.parametrize("patch, device, message", [
    (PATCH.replace("a < 3", "b < 3"), "rxe", "rxe_mw.c"),
    (PATCH, "siw", "changes no file of drivers/infiniband/sw/siw"),
    (PATCH.replace("rxe_mw.c", "rxe_gone.c"), "rxe", "rxe_gone.c: no such file"),
])
def test_patch_that_does_not_apply_is_listed(tmp_path, patch, device, message):
    path = tmp_path / "1.patch"
    path.write_text(patch)
    change = changes.reversal(path, device, SOURCES)
    assert message in change.error


def test_directory_without_patches_is_an_error(tmp_path):
    with pytest.raises(lab.Missing, match="expected a patch"):
        kernel_mutants.patches_of(tmp_path, "rxe", SOURCES)


# ---- Comparison

def line(id, verdict="pass", **more):
    return json.dumps({"id": id, "verdict": verdict, **more})


def runs(*all_lines):
    """The results by case of each list of lines."""
    found = []
    for lines in all_lines:
        journal = lab.Journal(None)
        for line in ["{}", *lines]:
            journal.add(json.loads(line))
        found.append(journal.run)
    return found


def test_verdict_monitor_and_kernel_messages_are_compared():
    usual = [line("a", counters={"R-1": [3, 0, [0]], "R-2": [0, 0, [1]]}), line("b")]
    baseline = lab.Baseline(runs(usual, usual), [], [1, 1])
    assert baseline.flaky() == {}

    def difference(result):
        (case, found), = runs([result])[0].items()
        return [(r["item"], r["after"]) for r in baseline.differences(case, found)]

    assert difference(line("a", counters={"R-1": [9, 0, [0]], "R-2": [0, 0, [4]]})) == []
    assert difference(line("a", counters={"R-1": [9, 1, [0]], "R-2": [0, 0, [4]]})) == [("monitor R-1", "violated")]
    assert difference(line("a", counters={"R-1": [9, 0, [0]]})) == [("monitor R-2", "None")]
    assert difference(line("b", "fail", violated={"rule": "R-3"})) == [("verdict", "fail")]
    assert difference(line("b", kernel_messages=["WARNING: at rxe_resp.c"])) == [("kernel", "messages")]
    assert difference(line("b", frames=[{"rule": "R-4"}])) == [("frames R-4", "violated")]
    assert difference(line("new", "fail")) == []
    assert [r["case"] for r in baseline.missing(runs([line("a")])[0])] == ["b"]


def test_values_that_vary_without_a_mutant_are_no_difference():
    baseline = lab.Baseline(runs([line("a"), line("b")], [line("a", "fail"), line("b")]), [], [1, 1])
    assert baseline.flaky() == {"a": ["verdict"]}
    assert baseline.differences("a", {"verdict": "fail"}) == []
    assert baseline.differences("a", {"verdict": "error"}) != []


def test_incomplete_line_of_a_running_test_is_read_when_complete(tmp_path):
    path = tmp_path / "results.ndjson"
    journal = lab.Journal(path)
    assert not journal.update()
    path.write_text('{"cases":["a","b"]}\n' + line("a") + '\n{"id":"b","ver')
    assert journal.update() and not journal.update()
    assert (journal.selected, journal.run) == (2, {"a": {"verdict": "pass"}})
    with open(path, "a") as file:
        file.write('dict":"fail"}\n')
    assert journal.update()
    assert journal.run == {"a": {"verdict": "pass"}, "b": {"verdict": "fail"}}


def test_counters_are_compared_by_whether_they_are_zero():
    baseline = lab.Baseline([{}, {}], [{"x": 5, "y": 0, "z": 0}, {"x": 9, "y": 0, "z": 1}], [1, 1])
    assert [r["item"] for r in baseline.counter_differences({"x": 0, "y": 3, "z": 7})] == ["counter x", "counter y"]
    assert baseline.counter_differences({"x": 1, "y": 0, "z": 0}) == []
    assert baseline.counter_differences(None) == []


def entries(archive):
    """Name and content of each file of cpio archives (newc)."""
    found, at = [], 0
    while at < len(archive):
        assert archive[at:at + 6] == b"070701"
        field = [int(archive[at + 6 + 8 * i:at + 14 + 8 * i], 16) for i in range(13)]
        name = archive[at + 110:at + 110 + field[11] - 1].decode()
        data = at + (110 + field[11] + 3) // 4 * 4
        found.append((name, archive[data:data + field[6]]))
        at = data + (field[6] + 3) // 4 * 4
    return found


def test_archive_of_a_module_can_follow_another_archive():
    archive = lab.archive_of("lib/a.ko", b"12345") + lab.archive_of("lib/long.ko", b"")
    assert entries(archive) == [("lib/a.ko", b"12345"), ("TRAILER!!!", b""), ("lib/long.ko", b""), ("TRAILER!!!", b"")]


# ---- Runs with a small program instead of rdmawire

PROGRAM = '''\
#!/usr/bin/python3
"""Writes the next run of behavior.json to results.ndjson."""
import json, os, pathlib, sys, time
options = sys.argv[1:]
here = pathlib.Path(__file__).parent
runs = json.loads((here / "behavior.json").read_text())
run = runs.pop(0)
(here / "behavior.json").write_text(json.dumps(runs))
with open(here / "calls", "a") as calls:
    calls.write(" ".join(options) + "\\n")
if "archive" in run:
    layer = pathlib.Path(os.environ["XDG_CACHE_HOME"], "rdmawire", "lab", "kernel-own-1-2")
    layer.mkdir(parents=True)
    (layer / "modules.cpio").write_bytes(bytes.fromhex(run["archive"]))
    (layer / "release").write_text("6.1.0-1-amd64")
    (layer.parent / "tools-1").mkdir()
    sys.exit(0)
print(run.get("text", ""), flush=True)
if "--preflight" in options:
    sys.exit(run["status"])
folder = pathlib.Path(options[options.index("--resume" if "--resume" in options else "--report") + 1])
folder.mkdir(exist_ok=True)
if run["cases"]:
    only = [b for a, b in zip(options, options[1:]) if a == "--only"]
    with open(folder / "results.ndjson", "a" if "--resume" in options else "w") as out:
        if "--resume" not in options:
            out.write(json.dumps({"cases": list(run["cases"])}) + "\\n")
        for id, verdict in run["cases"].items():
            if not only or id in only:
                out.write(json.dumps({"id": id, "verdict": verdict}) + "\\n")
                out.flush()
                time.sleep(run.get("pause", 0))
time.sleep(run.get("sleep", 0))
sys.exit(run.get("status", 0))
'''


class Bench:
    """A job whose program behaves as described by a list of runs."""

    def __init__(self, folder):
        self.folder = folder
        program = folder / "rdmawire"
        program.write_text(PROGRAM)
        program.chmod(0o755)
        self.job = lab.Job.__new__(lab.Job)
        self.job.folder = folder
        kernel = SimpleNamespace(image="vmlinuz", modules="modules")
        self.job.options = SimpleNamespace(first=False, timeout=300)
        self.job.certifier = lab.Certifier(program, kernel, "rxe", ["--seed", "7"], folder, folder / "cache")
        usual = runs([line("a"), line("b"), line("c")])
        self.job.baseline = lab.Baseline(usual * 2, [None, None], [1, 1])

    def compare(self, *behavior):
        (self.folder / "behavior.json").write_text(json.dumps(behavior))
        return self.job.compare()

    def calls(self):
        return (self.folder / "calls").read_text().splitlines()


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


SAME = {"cases": {"a": "pass", "b": "pass", "c": "pass"}}
OTHER = {"cases": {"a": "pass", "b": "fail", "c": "pass"}, "status": 1}


def test_equal_results_survive(bench):
    found = bench.compare(SAME)
    assert (found["verdict"], found["differences"], found["unconfirmed"]) == ("survived", [], [])
    assert "--device lab:rxe --kernel vmlinuz --modules modules" in bench.calls()[0] and "--seed 7" in bench.calls()[0]


def test_difference_that_occurs_again_kills(bench):
    found = bench.compare(OTHER, OTHER)
    assert found["verdict"] == "killed"
    assert found["differences"] == [{"case": "b", "item": "verdict", "before": ["pass"], "after": "fail"}]
    assert found["detail"] == "b verdict: pass → fail"
    assert bench.calls()[1].endswith("--only b")


def test_difference_that_does_not_occur_again_is_unconfirmed(bench):
    found = bench.compare(OTHER, SAME)
    assert (found["verdict"], found["differences"]) == ("survived", [])
    assert [r["case"] for r in found["unconfirmed"]] == ["b"]


def test_run_ends_at_first_difference_and_resumes_if_unconfirmed(bench):
    bench.job.options.first = True
    bench.job.options.timeout = 600
    slow = {"cases": {"a": "fail", "b": "pass", "c": "pass"}, "pause": 200}
    rest = {"cases": {"b": "pass", "c": "pass"}}
    found = bench.compare(slow, SAME, rest)
    results = (bench.folder / "report/results.ndjson").read_text().splitlines()[1:]
    assert [json.loads(result)["id"] for result in results] == ["a", "b", "c"]
    assert found["verdict"] == "survived" and [r["case"] for r in found["unconfirmed"]] == ["a"]
    assert "--resume" in bench.calls()[2]


def test_case_that_does_not_run_kills(bench):
    found = bench.compare({"cases": {"a": "pass", "b": "pass"}, "status": 1})
    assert (found["verdict"], found["detail"]) == ("killed", "c ran: yes → no")


def test_hanging_guest_crashed(bench):
    bench.job.options.timeout = 5
    found = bench.compare({**SAME, "sleep": 600})
    assert found["verdict"] == "crashed" and "the time limit was exceeded" in found["detail"]


def test_lost_device_crashed(bench):
    found = bench.compare({"cases": {"a": "pass"}, "status": 3, "text": "certify: the device was lost 5 times"})
    assert (found["verdict"], found["detail"]) == ("crashed", "certify: the device was lost 5 times")


def test_guest_that_panics_or_has_no_device_at_boot_crashed(bench):
    panic = "certify: lab: the guest did not boot: the guest's kernel panicked: BUG"
    assert bench.compare({"cases": {}, "status": 3, "text": panic})["verdict"] == "crashed"
    failed = "certify: lab: setup of the guest failed: rdma link add rxe0"
    assert bench.compare({"cases": {}, "status": 3, "text": failed})["detail"] == failed


def test_second_failed_boot_is_an_error_of_the_lab(bench):
    boot = {"cases": {}, "status": 3, "text": "certify: lab: the guest did not boot within 60 s"}
    assert bench.compare(boot, SAME)["verdict"] == "survived"
    assert bench.compare(boot, boot)["verdict"] == "lab error"


def test_changed_module_follows_the_modules_of_the_unchanged_image(bench):
    job, first = bench.job, lab.archive_of("lib/modules/other.ko", b"1")
    job.device, job.built, job.cache = "rxe", bench.folder / "rdma_rxe.ko", bench.folder / "cache"
    job.kernel = SimpleNamespace(image="vmlinuz", modules=bench.folder / "modules", release="6.1.0-1-amd64")
    job.built.write_bytes(b"unchanged")
    (bench.folder / "behavior.json").write_text(json.dumps([{"archive": (first + bytes(3)).hex()}]))
    options = SimpleNamespace(work=bench.folder, device="rxe", timeout=30)
    layers = kernel_mutants.layers_of(options, job.kernel, job.certifier.program, job)
    path = f"kernel/drivers/infiniband/sw/rxe/{job.built.name}"
    assert (job.kernel.modules / path).read_bytes() == b"unchanged"
    job.built.write_bytes(b"changed")
    job.install(layers)
    installed = job.cache / "rdmawire/lab/kernel-own-1-2"
    assert (installed / "release").read_text() == "6.1.0-1-amd64" and (installed.parent / "tools-1").is_dir()
    archive = (installed / "modules.cpio").read_bytes()
    assert archive.startswith(first + bytes(4))
    assert entries(archive[len(first) + 4:])[0] == (f"lib/modules/6.1.0-1-amd64/{path}", b"changed")
    assert (layers / "kernel-own-1-2/modules.cpio").read_bytes() == first + bytes(3)


def test_lab_without_an_image_is_an_error(bench):
    bench.job.built, kernel = bench.folder / "rdma_rxe.ko", SimpleNamespace(image="v", modules=bench.folder / "modules")
    bench.job.built.write_bytes(b"")
    (bench.folder / "behavior.json").write_text(json.dumps([{"cases": {}, "status": 3, "text": "lab: the disk is full"}]))
    options = SimpleNamespace(work=bench.folder, device="rxe", timeout=30)
    with pytest.raises(lab.Missing, match="the disk is full"):
        kernel_mutants.layers_of(options, kernel, bench.job.certifier.program, bench.job)


# ---- Command line

def command(*options):
    return subprocess.run([ROOT / "scripts" / "kernel-mutants", *options], capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("options, message", [
    (["rxe", "--jobs", "0"], "--jobs: expected a positive number"),
    (["mlx5"], "invalid choice"),
    (["rxe", "--revert", "x", "--number", "3"], "--revert: not with FILE or --number"),
])
def test_wrong_options_are_rejected(options, message):
    done = command(*options)
    assert done.returncode == 2
    assert message in done.stderr


def test_missing_package_is_named(tmp_path):
    done = command("rxe", "--work", str(tmp_path), "--debs", str(tmp_path))
    assert (done.returncode, done.stderr) == (2, f"kernel-mutants: {tmp_path} has no package linux-image-RELEASE\n")
    (tmp_path / "linux-image-6.1.0-1-amd64_6.1.1-1_amd64.deb").write_text("")
    done = command("rxe", "--work", str(tmp_path), "--debs", str(tmp_path))
    assert (done.returncode, done.stderr) == (2, f"kernel-mutants: {tmp_path} has no package linux-headers-6.1.0-1-amd64\n")


def test_summary_of_stored_results(tmp_path):
    kernel_mutants.save_results(tmp_path / "rxe.json", {"device": "rxe", "kernel": "1"},
                                {"1": row("1", "killed"), "2": row("2", "survived")})
    done = command("rxe", "--work", str(tmp_path), "--summary")
    assert done.returncode == 1
    assert "found: 1 of 2 observable mutants (50.0 %)" in done.stdout
    (tmp_path / "e.toml").write_text("[[explanation]]\nid = '2'\nreason = 'x'\nobservable = false\n")
    done = command("rxe", "--work", str(tmp_path), "--summary", "--explain", str(tmp_path / "e.toml"))
    assert done.returncode == 0
