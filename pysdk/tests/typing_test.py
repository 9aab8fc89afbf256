"""Type checks: the stubs equal the module, and user code and the package pass mypy."""

import inspect
import os
import subprocess
import sys
import typing
from pathlib import Path

import pytest
import rdmawire
from rdmawire import options

ROOT = Path(__file__).resolve().parents[2]
TOOLS = Path(sys.executable).parent
BUILT = str(Path(rdmawire.__file__).parents[1])
ENVIRONMENT = {**os.environ, "PYTHONPATH": BUILT, "RDMAWIRE_PYTHON": BUILT}


def run(*command):
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_stubs_equal_the_module():
    status, output = run(sys.executable, "scripts/python-stubs", "--check")
    assert status == 0, output


def test_stubtest_finds_no_difference(tmp_path):
    allowed = tmp_path / "allowed"
    modules = [rdmawire._core, *filter(inspect.ismodule, vars(rdmawire._core).values())]
    made_by_pybind11 = [
        f"{module.__name__}.{name}"
        for module in modules
        for name, thing in vars(module).items()
        if type(thing).__name__ == "pybind11_type"
    ]
    # pybind11's classes have their own metaclass. Classes without a constructor have an __init__ that raises.
    lines = [f"{name}{suffix}" for name in made_by_pybind11 for suffix in ("", ".__init__")]
    lines.append("rdmawire._core.Frame.__buffer__")  # visible from Python 3.12
    lines.append("rdmawire._core.Header")  # has subclasses in C only
    allowed.write_text("\n".join(lines))
    status, output = run(
        TOOLS / "stubtest", "rdmawire._core", "--mypy-config-file", "pysdk/mypy.ini", "--allowlist", allowed,
        "--ignore-unused-allowlist",
    )  # fmt: skip
    assert status == 0, output


USER = '''
from ipaddress import IPv4Address
from typing import Any, assert_type
import rdmawire
from rdmawire import AETH, BTH, RETH, UDP, Ether, Frame, Header, IPv4, Opcode, Syndrome

frame = Ether() / IPv4(dst="10.0.0.2") / UDP() / BTH(opcode=Opcode.RC_RDMA_WRITE_ONLY, psn=5) / RETH(va=1) / b"data"
assert_type(frame, Frame)
assert_type(frame[BTH], BTH)
assert_type(frame[BTH].psn, int)
assert_type(frame[IPv4, -1].dst, str)
assert_type(frame[0], Header)
assert_type(frame.get(AETH), AETH | None)
assert_type(frame.icrc, int | None)
assert_type(frame[BTH].opcode, Opcode | Any)
assert_type(AETH(syndrome=Syndrome.NAK_REMOTE_ACCESS_ERROR).syndrome_wait, int | None)
frame[IPv4].dst = IPv4Address("10.0.0.3")
frame[IPv4].dst = b"\\x0a\\0\\0\\3"
frame[BTH].psn = 7
del frame.icrc, frame[IPv4].checksum
frame.payload = bytearray(5)
data: bytes = bytes(frame)
view = memoryview(rdmawire.parse(frame, strict=True))
texts: list[str] = [frame.summary(), frame.command(), frame.show(dump=True)]
packets: list[Frame] = rdmawire.segment(frame, 1024)
device = rdmawire.open_device("reference", faults=["ignores-psn"], seed=3)
queue_pair = device.rc_qp("remote_write", mtu=256, over="ipv6", send_ops="send rdma_write")
stream = device.stream(enhanced={"ird": 3, "a": True}, wishes={"crc": False}, private_data=b"x")
'''

WRONG = {
    'frame[BTH].psn = "5"': "Incompatible types in assignment",
    "frame[BTH].pns": 'has no attribute "pns"',
    "BTH(pns=5)": 'Unexpected keyword argument "pns"',
    "frame[IPv4].dst = 5.0": "Incompatible types in assignment",
    "AETH().syndrome_wait = 5": "Incompatible types in assignment",
    "frame / 5": "Unsupported operand types",
    "Opcode.RC_NOTHING": 'has no attribute "RC_NOTHING"',
    "rdmawire.fuzz.MessageSession(frame, [frame])": "Argument 1 to \"MessageSession\" has incompatible type",
    "rdmawire.fuz": 'Module has no attribute "fuz"',
    "device.rc_qp(mtus=256)": 'Unexpected keyword argument "mtus"',
    "device.rc_qp(over='ipx')": 'Argument "over"',
    "device.stream(wishes={'crcs': False})": 'Argument "wishes" to "stream"',
    "rdmawire.open_device('lab:rxe', kernl='newest')": 'Unexpected keyword argument "kernl"',
    "frame.icrc_status = 'good'": 'Property "icrc_status" defined in "Frame" is read-only',
}


def mypy(path):
    return run(TOOLS / "mypy", "--config-file", "pysdk/mypy.ini", path)


def test_mypy_accepts_correct_user_code(tmp_path):
    user = tmp_path / "user.py"
    user.write_text(USER)
    status, output = mypy(user)
    assert status == 0, output


def test_mypy_rejects_incorrect_user_code(tmp_path):
    user = tmp_path / "user.py"
    user.write_text(USER + "\n".join(WRONG))
    _, output = mypy(user)
    lines = USER.count("\n")
    for i, (line, message) in enumerate(WRONG.items(), lines + 1):
        found = [one for one in output.splitlines() if one.startswith(f"{user}:{i}:") or f"user.py:{i}:" in one]
        assert any(message in one for one in found), (line, found)


def example_programs():
    """Yield each section of the pages with examples as one program, with the line numbers of the page."""
    docs = ROOT / "docs"
    for path in [ROOT / "README.md", *sorted(docs.rglob("python*.md")), docs / "how-to" / "fuzz-a-device.md"]:
        text = path.read_text()
        lines, program, section, language = text.splitlines(), [], 0, ""
        for number, line in enumerate(lines + ["## "], 1):
            if line.startswith("## ") and not language:
                if any(program):
                    yield path, section, [""] * section + program
                program, section = [], number - 1
            code = ""
            if line.startswith("```"):
                language = "" if language else line[3:].strip() or "text"
            elif language == "python":
                code = line
            elif language == "pycon" and line.startswith((">>> ", "... ")):
                code = line[4:]
            program.append(code)


def test_mypy_accepts_every_example_of_the_pages(tmp_path):
    """Uses `mypy --strict`, except that functions may lack annotations."""
    names = {}
    for path, section, program in example_programs():
        file = tmp_path / f"{path.stem.replace('-', '_').lower()}_{section}.py"
        file.write_text("\n".join(program) + "\n")
        names[file.name] = path
    assert len(names) > 15
    status, output = run(
        TOOLS / "mypy", "--config-file", "pysdk/mypy.ini", "--allow-untyped-defs", "--allow-incomplete-defs",
        "--allow-untyped-calls", "--allow-untyped-decorators", "--check-untyped-defs", "--allow-redefinition",
        "--no-namespace-packages", *sorted(tmp_path.iterdir()),
    )  # fmt: skip
    assert status == 0, output


def names_in_error(call):
    """Return the option names in the error message of a call with an unknown option."""
    with pytest.raises(rdmawire.UsageError) as raised:
        call()
    return set(str(raised.value).partition("expected ")[2].split(", "))


def test_types_of_options_have_the_names_of_the_program():
    unknown = {"qqqqqqqqqqqq": 1}
    typed = lambda of: set(typing.get_type_hints(of))  # noqa: E731
    with rdmawire.reference() as device:
        # `access` is a parameter of the method.
        assert names_in_error(lambda: device.rc_qp(**unknown)) == typed(options.QueuePairOptions) | {"access"}
    with rdmawire.reference(family="iwarp") as device:
        assert names_in_error(lambda: device.stream(**unknown)) == typed(options.StreamOptions)
        assert names_in_error(lambda: device.stream(wishes=unknown)) == typed(options.WishOptions)
        assert names_in_error(lambda: device.stream(enhanced=unknown)) == typed(options.EnhancedOptions)
    assert names_in_error(lambda: rdmawire.open_device("reference", **unknown)) == typed(options.DeviceOptions)


@pytest.mark.parametrize("path", ["pysdk/rdmawire"])
def test_mypy_accepts_the_package(path):
    status, output = mypy(path)
    assert status == 0, output
