"""Tests that the RPM packages require only the C and C++ libraries, and work on a machine without other packages."""

import re

import pytest
from packages import RPM_NAMES, ROOT, needs, needs_full, rpm, run, unpack, fresh_machine

pytestmark = needs("rpm", "rpm2cpio", "cpio")

# The newest symbol versions of RHEL 9, Rocky Linux 9 and SUSE Linux Enterprise 15 SP6.
OLDEST = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13)}


@pytest.mark.parametrize("name", RPM_NAMES)
def test_rpm_requires_only_the_c_and_cpp_libraries(name):
    allowed = r"(ld-linux-.*|lib(c|m|gcc_s|stdc\+\+|pthread|dl)\.so\.\d+)(\(.*\))*(\(64bit\))?|rpmlib\(.*|rtld\(.*"
    required = run("rpm", "--query", "--package", "--requires", rpm(name)).stdout.splitlines()
    assert [line for line in required if not re.fullmatch(allowed, line.split(" ")[0])] == []


@pytest.mark.parametrize("name", RPM_NAMES)
def test_rpm_runs_with_the_c_library_of_the_oldest_distribution(name):
    required = run("rpm", "--query", "--package", "--requires", rpm(name)).stdout
    for kind, number in re.findall(r"\((GLIBC|GLIBCXX|CXXABI)_([0-9.]+)\)", required):
        assert tuple(int(part) for part in number.split(".")) <= OLDEST[kind], f"{kind}_{number}"


def test_rpm_has_files_license_and_description():
    package = rpm("rdmawire")
    files = run("rpm", "--query", "--package", "--list", package).stdout.splitlines()
    assert "/usr/bin/rdmawire" in files and "/usr/share/doc/rdmawire/THIRD-PARTY-NOTICES.gz" in files
    assert run("rpm", "--query", "--package", "--queryformat", "%{LICENSE} %{BUILDHOST}", package).stdout == "MIT reproducible"
    assert "InfiniBand" in run("rpm", "--query", "--package", "--queryformat", "%{DESCRIPTION}", package).stdout


@needs_full
def test_rpm_works_on_a_machine_without_other_packages(tmp_path):
    files = [unpack(rpm(name), tmp_path / name) for name in RPM_NAMES]
    script = """
for tree in ~/files/*; do cp -a "$tree/." /; done
rdmawire analyze /usr/share/doc/rdmawire/examples/rc-read-loss.pcap.zst | head -n 12
rdmawire-agent --version
"""
    lines = fresh_machine(script, *files).stdout.splitlines()
    readme = (ROOT / "README.md").read_text()
    assert lines[-1].startswith("rdmawire-agent ")
    assert "  findings    2 warnings" in lines and "  findings    2 warnings" in readme
