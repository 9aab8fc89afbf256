"""Tests that each test that the threat model names exists."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "explanation" / "agent-threat-model.md"


def named_tests():
    rows = [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return [name for row in rows for name in re.findall(r"`(\w+\.\w+|test_\w+|\w+_fuzz)`", row[-1])]


def all_tests():
    files = subprocess.run(["git", "ls-files", "*_test.cpp", "*_test.py", "*_fuzz.cpp"], cwd=ROOT, text=True,
                           capture_output=True, check=True).stdout.split()
    names = set()
    for file in files:
        path = ROOT / file
        text = path.read_text() if path.exists() else ""
        if file.endswith("_fuzz.cpp"):
            names.add(path.stem)
        names.update(f"{suite}.{test}" for suite, test in re.findall(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", text, re.M))
        names.update(re.findall(r"^def (test_\w+)", text, re.M))
        # A fixture may have an alias.
        for alias, base in re.findall(r"^using (\w+) = (\w+);$", text, re.M):
            names.update(name.replace(f"{base}.", f"{alias}.", 1) for name in list(names) if name.startswith(f"{base}."))
    return names


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="requires the repository")
def test_tests_of_the_threat_model_exist():
    named = named_tests()
    assert len(named) > 30
    assert sorted(set(named) - all_tests()) == []
