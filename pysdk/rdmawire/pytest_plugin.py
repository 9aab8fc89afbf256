"""Fixtures for tests of RDMA devices: ``rdma_device``, ``rdma_wire``, ``rdma_capture``.

    def test_invalid_rkey_is_rejected(rdma_device, rdma_capture):
        with rdma_device.rc_qp(access="remote_write") as qp:
            …

``--rdma-device`` selects the device: ``reference`` (the default), ``lab:rxe``, ``lab:siw``, or ``agent:ADDRESS`` with
``--rdma-wire`` and ``--rdma-allow``. A lab is booted once per session. Each test gets a new reference device.

``@pytest.mark.rdma_needs("atomics")`` skips a test if the device lacks a capability, with the reason.

``rdma_capture`` records the frames of a test, and writes them to a pcapng file if the test fails. The report contains
the path.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from rdmawire import devices
    from rdmawire.wires import Wire

# The fixtures import the package, so that other tests start faster.

_capture_key = pytest.StashKey["Capture"]()


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Explain a failed comparison of two frames: the fields that differ."""
    core = sys.modules.get("rdmawire._core")
    if op != "==" or core is None or not (isinstance(left, core.Frame) and isinstance(right, core.Frame)):
        return None
    from rdmawire.differences import differences

    lines = [str(one) for one in differences(left, right)] or ["the encoded bytes differ, but no field"]
    return [f"{left!r} == {right!r}", *lines]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command line options."""
    group = parser.getgroup("rdmawire", "RDMA devices")
    group.addoption(
        "--rdma-device",
        default="reference",
        metavar="DEVICE",
        help="Test this device: reference, lab:rxe, lab:siw, or agent:ADDRESS with --rdma-wire [default: reference].",
    )
    group.addoption(
        "--rdma-wire", metavar="WIRE", help="Use this wire to the device of an agent, for example packet:eth1."
    )
    group.addoption(
        "--rdma-allow",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="Allow sending frames to this address of an agent's device. May be repeated.",
    )
    group.addoption("--rdma-credentials", metavar="FILE", help="Authenticate to the agent with the key in FILE.")
    group.addoption(
        "--rdma-kernel",
        default="debian",
        metavar="KERNEL",
        help="Boot this kernel in the lab: debian, newest [default: debian].",
    )
    group.addoption(
        "--rdma-fault",
        action="append",
        default=[],
        metavar="NAME",
        help="Inject this fault into the reference device. May be repeated.",
    )
    group.addoption(
        "--rdma-family",
        default="roce",
        choices=("roce", "iwarp"),
        help="Set the transport family of the reference device [default: roce].",
    )
    group.addoption(
        "--rdma-seed", type=int, default=1, metavar="N", help="Set the seed of the reference device [default: 1]."
    )
    group.addoption(
        "--rdma-captures",
        metavar="DIR",
        help="Write the captures of failed tests to DIR [default: the test's tmp_path].",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        'rdma_needs(name, …): skip the test if the device lacks "atomics", "xrc", … (rdmawire.conformance.NEEDS)',
    )


class _Opened:
    """Devices of a session. Labs and agents are opened once, and again if they are lost."""

    def __init__(self, config: pytest.Config) -> None:
        self.name = str(config.getoption("--rdma-device"))
        self._config = config
        self._kept: devices.Device | None = None

    @property
    def cheap(self) -> bool:
        return self.name == "reference"

    def open(self) -> devices.Device:
        from rdmawire import devices

        if self._kept is not None and (self._kept.closed or self._kept.gone()):
            self._kept.close()
            self._kept = None
        if self._kept is None:
            option = self._config.getoption
            how: dict[str, Any] = {}
            if self.cheap:
                how = {
                    "seed": option("--rdma-seed"),
                    "faults": option("--rdma-fault"),
                    "family": option("--rdma-family"),
                }
            elif self.name.startswith("lab:"):
                how = {"kernel": option("--rdma-kernel")}
            else:
                how = {
                    "wire": option("--rdma-wire"),
                    "allow": option("--rdma-allow"),
                    "credentials": option("--rdma-credentials"),
                }
            opened = devices.open_device(self.name, **how)
            if self.cheap:
                return opened
            self._kept = opened
        return self._kept

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()


@pytest.fixture(scope="session")
def _rdma_opened(request: pytest.FixtureRequest) -> Iterator[_Opened]:
    opened = _Opened(request.config)
    yield opened
    opened.close()


@pytest.fixture
def rdma_device(request: pytest.FixtureRequest, _rdma_opened: _Opened) -> Iterator[devices.Device]:
    """Return the device of ``--rdma-device``. Skips the test if it lacks a capability of the marker ``rdma_needs``."""
    from rdmawire import UsageError

    device = _rdma_opened.open()
    try:
        for marker in request.node.iter_markers("rdma_needs"):
            try:
                why = device.lacks(*marker.args)
            except UsageError as error:
                pytest.fail(f"rdma_needs: {error}", pytrace=False)
            if why:
                pytest.skip(why)
        yield device
    finally:
        if _rdma_opened.cheap:
            device.close()


@pytest.fixture
def rdma_wire(rdma_device: devices.Device) -> Wire:
    """Return the wire to the port of :func:`rdma_device`, without frames of earlier tests."""
    wire = rdma_device.wire
    while wire.receive(timeout=0) is not None:
        pass
    return wire


class Capture:
    """Recording of a test's frames. :attr:`path` is the written file, or None."""

    def __init__(self, device: devices.Device, folder: Path, name: str) -> None:
        self._device = device
        self._folder = folder
        self._name = name
        self.path: Path | None = None
        self._kept: Path | None = None  # directory with the frames of a closed device

    def save(self, path: str | Path | None = None) -> Path:
        """Write the recorded frames and return the path."""
        target = Path(path) if path is not None else self._folder / f"{self._name}.pcapng"
        target.parent.mkdir(parents=True, exist_ok=True)
        if self._kept is not None:
            shutil.copyfile(self._kept / "capture", target)
        else:
            self._device.save(target, comments=[f"test {self._name}"])
        self.path = target
        return target

    def _keep(self) -> None:
        """Store the frames before the device is closed. The result of the test is known only after all fixtures."""
        from rdmawire import Error

        folder = Path(tempfile.mkdtemp(prefix="rdmawire-"))
        try:
            self._device.save(folder / "capture", comments=[f"test {self._name}"])
            self._kept = folder
        except (Error, OSError):
            shutil.rmtree(folder, ignore_errors=True)

    def _discard(self) -> None:
        if self._kept is not None:
            shutil.rmtree(self._kept, ignore_errors=True)


def _file_name(nodeid: str) -> str:
    """Return a unique and valid file name for a test."""
    readable = re.sub(r"[^A-Za-z0-9_.\-]+", "-", nodeid).strip("-")[:150]
    return f"{readable}-{hashlib.sha256(nodeid.encode(errors='surrogatepass')).hexdigest()[:8]}"


@pytest.fixture
def rdma_capture(request: pytest.FixtureRequest, rdma_device: devices.Device, tmp_path: Path) -> Iterator[Capture]:
    """Record the frames of the test, and write them to a pcapng file if the test fails."""
    folder = request.config.getoption("--rdma-captures")
    capture = Capture(rdma_device, Path(folder) if folder else tmp_path, _file_name(request.node.nodeid))
    rdma_device.record()
    request.node.stash[_capture_key] = capture
    yield capture
    if not rdma_device.closed:
        capture._keep()
        rdma_device.record(0)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Write the capture of a failed test or fixture."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    capture = item.stash.get(_capture_key, None)
    if capture is None:
        return
    if report.failed:
        _save(capture, report)
    if report.when == "teardown":
        capture._discard()
        del item.stash[_capture_key]


def _save(capture: Capture, report: Any) -> None:
    from rdmawire import Error

    try:
        path = capture.save()
        report.sections.append(("rdma_capture", f"capture of the test: {path}"))
        report.user_properties.append(("rdma_capture", str(path)))
    except (Error, OSError) as error:
        report.sections.append(("rdma_capture", f"cannot write the capture of the test: {error}"))
