"""Builds the wheel from the source distribution and installs it into an empty environment.

Runs only with RDMAWIRE_FULL=1, because it takes minutes.
"""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
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
print(rdmawire.__version__, rdmawire.__file__)
"""


@pytest.mark.skipif(not os.environ.get("RDMAWIRE_FULL"), reason="takes minutes; RDMAWIRE_FULL=1 builds the wheel")
def test_wheel_from_source_distribution_works(tmp_path):
    built = tmp_path / "built"
    subprocess.run([sys.executable, "-m", "build", "--outdir", built, ROOT], check=True)
    [source] = built.glob("rdmawire-*.tar.gz")
    [wheel] = built.glob("rdmawire-*.whl")
    with tarfile.open(source) as archive:
        names = archive.getnames()
    assert not [name for name in names if "/build/" in name or "/corpus/" in name or name.endswith((".o", ".so", ".pcap"))]
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "rdmawire/py.typed" in names and "rdmawire/_core/__init__.pyi" in names
    assert sum(name.endswith(".so") for name in names) == 1
    assert all(name.startswith(("rdmawire/", "rdmawire-")) for name in names)

    venv.create(tmp_path / "scratch", with_pip=True)
    python = tmp_path / "scratch" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", wheel], check=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, "-c", PROGRAM], check=True, capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert str(tmp_path / "scratch") in done.stdout
    fuzz = [python, "-m", "rdmawire.fuzz", "--executions", "500", "--seed", "1"]
    done = subprocess.run(fuzz, check=True, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert "500 executions" in done.stdout + done.stderr
