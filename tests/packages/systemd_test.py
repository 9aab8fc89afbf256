"""Tests of the unit rdmawire-agent.service."""

import os
import re

import pytest
from packages import ROOT, needs, run

UNIT = ROOT / "packaging" / "systemd" / "rdmawire-agent.service"
AGENT = ROOT / "build" / os.environ.get("RDMAWIRE_PRESET", "dev") / "bin" / "rdmawire-agent"

pytestmark = needs("systemd-analyze")


@pytest.fixture
def unit(tmp_path):
    """A copy of the unit whose program exists."""
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("ExecStart=rdmawire-agent", "ExecStart=/bin/true"))
    return copy


def test_unit_is_valid(unit):
    # The manual page may not be installed.
    done = run("systemd-analyze", "verify", "--man=no", unit, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_unit_is_sandboxed(unit):
    done = run("systemd-analyze", "security", "--offline=true", "--no-pager", unit, check=False)
    exposure = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert exposure, done.stdout + done.stderr
    assert float(exposure[1]) <= 2.5, done.stdout


def test_options_of_the_unit_exist():
    [line] = re.findall(r"^ExecStart=rdmawire-agent (.*)$", UNIT.read_text(), re.M)
    assert "--credentials ${CREDENTIALS_DIRECTORY}/agent.keys" in line
    if AGENT.exists():
        text = run(AGENT, "--help").stdout
        for option in re.findall(r"--[\w-]+", line):
            assert option in text
