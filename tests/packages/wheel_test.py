"""The wheel: tag, contents, and use in a fresh virtual environment."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from packages import ROOT, find, fresh_machine, needs_full, run

TRY = """
import os
import rdmawire
from rdmawire import *
frame = Ether() / IPv4(dst="10.0.0.2") / UDP() / BTH(opcode=Opcode.RC_SEND_ONLY, dest_qp=17, psn=5) / b"data"
assert parse(bytes(frame), strict=True).icrc_status == "good"
with rdmawire.reference() as device, device.rc_qp(receives=1) as qp:
    qp.wire.send(qp.frame() / b"hello")
    assert qp.cq.wait().byte_len == 5
with rdmawire.reference(family="iwarp") as device, device.stream(receives=1) as qp:
    qp.stream.send(qp.frame() / b"hello")
    assert qp.cq.wait().byte_len == 5
assert os.access(rdmawire.devices.agent_program(), os.X_OK)
print("module works", rdmawire.__version__)
"""


def wheel(python_tag=f"cp{sys.version_info.major}{sys.version_info.minor}"):
    return find(f"rdmawire-*-{python_tag}-{python_tag}-*.whl")


BUILD_GLIBC = tuple(int(part) for part in os.confstr("CS_GNU_LIBC_VERSION").split()[-1].split("."))


@pytest.mark.skipif(BUILD_GLIBC > (2, 36), reason="needs Debian 12: a wheel is for the C library it was built with, or later")
def test_wheel_is_for_glibc_2_36_or_older():
    tags = re.findall(r"manylinux_(\d+)_(\d+)_", wheel().name)
    assert tags and min((int(major), int(minor)) for major, minor in tags) <= (2, 36)


def test_wheel_contains_module_programs_types_and_notices():
    with zipfile.ZipFile(wheel()) as archive:
        names = archive.namelist()
    for part in ("rdmawire/py.typed", "rdmawire/_core/__init__.pyi", "rdmawire/bin/rdmawire", "rdmawire/bin/rdmawire-agent"):
        assert part in names
    assert sum(bool(re.fullmatch(r"rdmawire/_core\..*\.so", name)) for name in names) == 1
    assert "rdmawire/THIRD-PARTY-NOTICES" in names


def test_source_distribution_contains_no_build_results_or_captures():
    with tarfile.open(find("rdmawire-[0-9]*.tar.gz")) as archive:
        names = archive.getnames()
    assert not [name for name in names
                if "/build/" in name or "/corpus/" in name or name.endswith((".o", ".so", ".pcap"))]


def test_notices_name_every_library_that_the_wheel_contains():
    with zipfile.ZipFile(wheel()) as archive:
        libraries = {re.sub(r"-[0-9a-f]{8}\.", ".", Path(name).name) for name in archive.namelist()
                     if name.startswith("rdmawire.libs/")}
        notices = archive.read("rdmawire/THIRD-PARTY-NOTICES").decode()
    contained = set(re.findall(r"^  (\S+) .*contained as a shared library$", notices, re.M))
    sources = {re.sub(r"^lib|[-.].*$", "", name) for name in libraries}
    families = {"dbus": "dbus", "ibverbs": "rdma-core", "gpg": "gpg-error", "nl": "libnl"}
    assert {families.get(name, name) for name in sources} == contained


@pytest.mark.skipif(shutil.which("python3") is None, reason="needs python3")
def test_wheel_works_in_a_virtual_environment(tmp_path):
    package = wheel()
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    bin_directory = tmp_path / "venv" / "bin"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    run(bin_directory / "pip", "install", "--quiet", "--no-index", package, env=environment)
    options = {"cwd": tmp_path, "env": environment}
    assert run(bin_directory / "python", "-c", TRY, **options).stdout.startswith("module works")
    command = run(bin_directory / "rdmawire", "--version", **options).stdout
    assert command.startswith("rdmawire ")
    assert run(bin_directory / "python", "-m", "rdmawire", "--version", **options).stdout == command
    fuzz = run(bin_directory / "python", "-m", "rdmawire.fuzz", "--executions", "500", "--seed", "1", **options)
    assert "500 executions" in fuzz.stdout + fuzz.stderr
    run(bin_directory / "pip", "uninstall", "--yes", "--quiet", "rdmawire", env=environment)
    assert [path for path in (tmp_path / "venv").rglob("*rdmawire*")] == []


def test_module_for_another_python_is_reported_in_one_sentence(tmp_path):
    package = tmp_path / "rdmawire"
    shutil.copytree(ROOT / "pysdk" / "rdmawire", package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    (package / "_core.cpython-38-x86_64-linux-gnu.so").write_bytes(b"")
    done = run(sys.executable, "-c", "import rdmawire", check=False, env={"PYTHONPATH": str(tmp_path)})
    running = f"cpython {sys.version_info.major}.{sys.version_info.minor}"
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: rdmawire in {package} has a module only for cpython-38-x86_64-linux-gnu and cannot be imported by "
        f"{running}: install rdmawire again with this Python's pip")


def test_missing_library_is_reported_in_one_sentence(tmp_path):
    package = tmp_path / "rdmawire"
    shutil.copytree(ROOT / "pysdk" / "rdmawire", package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    module = package / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"
    empty = tmp_path / "lib"
    empty.mkdir()
    source = "int absent(void) { return 0; }"
    for command in (["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", empty / "libabsent.so"],
                    ["gcc", "-shared", "-fPIC", "-Wl,--no-as-needed", "-x", "c", "-", f"-L{empty}", "-labsent", "-o", module]):
        if not shutil.which("gcc"):
            pytest.skip("needs gcc")
        subprocess.run([str(part) for part in command], input=source, text=True, check=True)
    (empty / "libabsent.so").unlink()
    done = run(sys.executable, "-c", "import rdmawire", check=False, env={"PYTHONPATH": str(tmp_path)})
    assert done.stderr.splitlines()[-1] == (
        "ImportError: rdmawire requires the shared library libabsent.so, which is missing on this host: install it, or the "
        "wheel, which contains it")


FRESH = """
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends python3 python3-venv >/dev/null
python3 -m venv /tmp/venv
/tmp/venv/bin/pip install --quiet --no-index ~/files/*.whl
cd /tmp
/tmp/venv/bin/python -c "$(cat ~/files/try.py)"
/tmp/venv/bin/rdmawire analyze ~/rdmawire/captures/samples/rc-read-loss.pcap.zst | head -n 12
"""


@needs_full
@pytest.mark.parametrize("suite, tag", [("bookworm", "cp311"), ("trixie", "cp313")])
def test_wheel_works_on_a_machine_without_other_packages(suite, tag, tmp_path):
    (tmp_path / "try.py").write_text(TRY)
    output = fresh_machine(FRESH, wheel(tag), tmp_path / "try.py", suite=suite).stdout
    assert "module works" in output and "  findings    2 warnings" in output


SDIST = """
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends python3 python3-venv g++ cmake pkg-config >/dev/null
python3 -m venv /tmp/venv
/tmp/venv/bin/pip install --verbose ~/files/*.tar.gz || true
"""


@needs_full
def test_source_distribution_names_the_missing_debian_packages():
    done = fresh_machine(SDIST, find("rdmawire-[0-9]*.tar.gz"))
    output = done.stdout + done.stderr
    assert re.search(r"Debian packages are missing.*apt-get install .*libfmt-dev.*libisal-dev", output, re.S), output
