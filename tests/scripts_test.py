"""The scripts: check-layering, the parsing of libFuzzer's output in fuzz, setup.sh, and the options of ./test."""

import importlib.machinery
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=60, **options)


def load(script):
    """Import a script of scripts/ as a module."""
    loader = importlib.machinery.SourceFileLoader(script.replace("-", "_"), str(ROOT / "scripts" / script))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def write(root, path, text):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.mark.parametrize(
    "path, line, message",
    [
        ("captures/io/a.hpp", '#include "dissectors/protocol/bth.hpp"', None),
        ("dissectors/protocol/a.hpp", '#include "captures/io/file.hpp"', "dissectors/protocol may not use captures"),
        ("dissectors/protocol/a.hpp", '#include "dissectors/tracking/t.hpp"', "may not use dissectors/tracking"),
        ("dissectors/output/a.cpp", '#include "dissectors/tracking/t.hpp"', None),
        ("dissectors/tracking/a.cpp", '#  include "dissectors/output/f.hpp"', "may not use dissectors/output"),
        ("dissectors/protocol/a_test.cpp", '#include "captures/io/file.hpp"', None),
        ("dissectors/protocol/a.cpp", '#include "bth.hpp"', "relative to the repository root"),
        ("dissectors/protocol/a.cpp", "#include <iostream>", "no input or output"),
        ("captures/io/a.cpp", "#include <fstream>", None),
        ("dissectors/protocol/a.cpp", '// #include "captures/io/file.hpp"', None),
    ],
)
def test_check_layering_reports_forbidden_includes(tmp_path, path, line, message):
    for header in ("dissectors/protocol/bth.hpp", "captures/io/file.hpp", "dissectors/tracking/t.hpp",
                   "dissectors/output/f.hpp"):
        write(tmp_path, header, "#pragma once\n")
    write(tmp_path, path, f"// a comment\n{line}\n")
    done = run(ROOT / "scripts" / "check-layering", tmp_path)
    if message is None:
        assert (done.returncode, "0 forbidden includes" in done.stdout) == (0, True), done.stdout
    else:
        assert done.returncode == 1
        assert f"{path}:2: " in done.stdout and message in done.stdout


@pytest.mark.parametrize("device, line", [("roce", "if (core.faults[Fault::never_acknowledges]) return;"),
                                          ("iwarp", "if (faults[Fault::ignores_crc]) return;"),
                                          ("iwarp", "using enum Fault;"),
                                          ("iwarp", "if (stream.has(ignores_crc)) return;")])
@pytest.mark.parametrize("path, forbidden", [("responder.cpp", True), ("faults/responder.cpp", False),
                                             ("fault_table.cpp", False), ("device_test.cpp", False)])
def test_check_layering_reports_faults_in_the_decisions_of_a_device(tmp_path, device, line, path, forbidden):
    write(tmp_path, f"conformance/device/{device}/{path}", f"{line}\n")
    done = run(ROOT / "scripts" / "check-layering", tmp_path)
    assert done.returncode == forbidden
    assert (f"conformance/device/{device}/{path}:1: " in done.stdout) == forbidden


def test_fuzz_parses_the_last_progress_line():
    fuzz = load("fuzz")
    output = "\n".join([
        "INFO: Seed: 1",
        "#2\tINITED cov: 3 ft: 4 corp: 1/1b exec/s: 0 rss: 30Mb",
        "#7\tNEW    cov: 5 ft: 6 corp: 2/3b lim: 4 exec/s: 0 rss: 30Mb L: 2/2 MS: 1 CopyPart-",
        "#100000\tDONE   cov: 41 ft: 77 corp: 12/96b lim: 994 exec/s: 0 rss: 60Mb",
        "Done 100000 runs in 1 second(s)",
    ])
    assert fuzz.last_progress(output) == [100000, 41, 77, 12]
    assert fuzz.last_progress("ERROR: no executable") == [0, 0, 0, 0]


def test_test_script_lists_steps_and_rejects_unknown_ones():
    listed = run(ROOT / "test", "--list")
    assert listed.returncode == 0
    assert {"language", "cpp", "python", "fuzz", "install", "asan", "tidy"} <= {row.split()[0] for row in listed.stdout.splitlines()}
    # "NAME WHEN MINUTES min ...": the default steps take at most 58 minutes on 2 cores with the objects in the compiler cache.
    rows = [row.split() for row in listed.stdout.splitlines()]
    assert all(row[3] == "min" for row in rows)
    assert sum(int(row[2]) for row in rows if row[1] != "full") <= 58
    for wrong in (["--only", "no-such-step"], ["--fast"], ["--only"]):
        done = run(ROOT / "test", *wrong)
        assert done.returncode == 2, wrong
        assert done.stderr


def test_times_of_a_slow_step_are_found_in_its_log(tmp_path):
    function = re.search(r"^times_of_parts\(\) \{\n.*?^\}\n", (ROOT / "test").read_text(), re.MULTILINE | re.DOTALL)
    wanted = ["1/6 Test #737: lab.guests .......................   Passed   35.21 sec",
              "10/12 Test  #9: cli.lab ..........................   Passed  121.00 sec",
              "58.31s call     tests/lab/record_test.py::test_recording",
              "12.10s setup    cli/tests/analyze_test.py::test_page",
              "--user ./demo: passed in 1:34, 118 lines",
              "  the compiler cache had 561 of 562 objects"]
    other = ["2/6 Test #738: lab.console ......................   Passed    0.21 sec",
             "3.05s call     tests/lab/record_test.py::test_short",
             "= 3033 passed, 314 skipped in 912.83s ="]
    log = tmp_path / "log"
    log.write_text("\n".join(other + wanted) + "\n")
    done = run("bash", "-c", function[0] + f"times_of_parts {log}")
    assert (done.returncode, done.stdout.splitlines()) == (0, wanted)


def test_missing_packages_lists_only_packages_not_installed():
    done = run("bash", "-c", "source scripts/setup.sh; missing_packages bash no-such-package-xyz dpkg", cwd=ROOT)
    assert done.stdout.split() == ["no-such-package-xyz"]


@pytest.mark.parametrize("options", ["", "set -euo pipefail;"])
def test_missing_packages_works_with_errexit(options):
    """dpkg-query exits with status 1 for unknown packages. `set -e` must not end the function."""
    script = f"{options} source scripts/setup.sh; mapfile -t missing < <(missing_packages no-such-a bash no-such-b); "
    done = run("bash", "-c", script + 'printf "%s\\n" "${missing[@]}"', cwd=ROOT)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["no-such-a", "no-such-b"], "")


def test_known_deviations_page_is_current():
    done = run(ROOT / "scripts" / "known-deviations", "--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_format_requires_clang_format_14(tmp_path):
    """Debian 13 has clang-format 19, which formats differently."""
    for program in ("bash", "dirname", "env", "sed"):
        (tmp_path / program).symlink_to(shutil.which(program))
    (tmp_path / "clang-format").write_text("#!/usr/bin/env bash\necho 'Debian clang-format version 19.1.7'\n")
    (tmp_path / "clang-format").chmod(0o755)
    done = subprocess.run([ROOT / "scripts/format"], env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 77, done.stderr
    assert done.stdout.startswith("requires clang-format 14, found 19: ")
