"""Fixtures for tests of RDMA devices: ``rdma_device``, ``rdma_wire``, ``rdma_capture``.

    def test_a_wrong_key_is_refused(rdma_device, rdma_capture):
        with rdma_device.rc_qp(access="remote_write") as qp:
            …

``--rdma-device`` says which device they get: ``reference`` (the default), ``lab:rxe``, ``lab:siw``, ``agent:ADDRESS``
with ``--rdma-wire`` and ``--rdma-allow``. A lab is booted once a session; a reference device is a new one for each test.

``@pytest.mark.rdma_needs("atomics")`` skips a test whose device lacks that, with what the device says of itself.

``rdma_capture`` keeps what goes over the wire, and writes it as a pcapng when the test fails; its path is in the report.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from rdmawire import devices
    from rdmawire.wires import Wire

# The package itself is imported by the fixtures: a run of tests that has nothing to do with RDMA does not wait for it.

_capture_key = pytest.StashKey["Capture"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the command line."""
    group = parser.getgroup("rdmawire", "RDMA devices")
    group.addoption(
        "--rdma-device",
        default="reference",
        metavar="DEVICE",
        help="reference, lab:rxe, lab:siw, or agent:ADDRESS with --rdma-wire (default: reference)",
    )
    group.addoption("--rdma-wire", metavar="WIRE", help="which leads to the device of an agent: packet:eth1")
    group.addoption(
        "--rdma-allow",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="the address of an agent's device that may be sent frames; several",
    )
    group.addoption("--rdma-secret-file", metavar="FILE", help="that the agent was started with")
    group.addoption("--rdma-kernel", default="debian", metavar="KERNEL", help="of the lab: debian, newest")
    group.addoption(
        "--rdma-fault",
        action="append",
        default=[],
        metavar="NAME",
        help="break the reference device on purpose; several",
    )
    group.addoption(
        "--rdma-family",
        default="roce",
        choices=("roce", "iwarp"),
        help="of the reference device (default: roce)",
    )
    group.addoption("--rdma-seed", type=int, default=1, metavar="N", help="of the reference device")
    group.addoption(
        "--rdma-captures",
        metavar="DIR",
        help="where rdma_capture writes what a failing test had on the wire (default: the test's tmp_path)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Makes the marker known."""
    config.addinivalue_line(
        "markers",
        'rdma_needs(name, …): skip unless the device has these: "atomics", "xrc", … (rdmawire.conformance.NEEDS)',
    )


class _Opened:
    """Devices of a session: one that is dear is opened once, and anew when it was lost."""

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
                    "secret_file": option("--rdma-secret-file"),
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
    """The device of ``--rdma-device``; the test is skipped where it lacks what the marker ``rdma_needs`` names."""
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
    """The wire to the port of :func:`rdma_device`, without what earlier tests left on it."""
    wire = rdma_device.wire
    while wire.receive(timeout=0) is not None:
        pass
    return wire


class Capture:
    """What goes over a test's wire, or its streams, kept; :attr:`path` is where it was written, None before it was."""

    def __init__(self, device: devices.Device, folder: Path, name: str) -> None:
        self._device = device
        self._folder = folder
        self._name = name
        self.path: Path | None = None
        self._aside: Path | None = None  # what was recorded until the device went

    def save(self, path: str | Path | None = None) -> Path:
        """Writes what was sent and received until now, and gives where."""
        target = Path(path) if path is not None else self._folder / f"{self._name}.pcapng"
        target.parent.mkdir(parents=True, exist_ok=True)
        if self._aside is not None:
            shutil.copyfile(self._aside / "capture", target)
        else:
            self._device.save(target, comments=[f"test {self._name}"])
        self.path = target
        return target

    def _put_aside(self) -> None:
        """What was recorded outlives the device: whether the test fails is known when all its fixtures have ended."""
        from rdmawire import Error

        folder = Path(tempfile.mkdtemp(prefix="rdmawire-"))
        try:
            self._device.save(folder / "capture", comments=[f"test {self._name}"])
            self._aside = folder
        except (Error, OSError):
            shutil.rmtree(folder, ignore_errors=True)

    def _forget(self) -> None:
        if self._aside is not None:
            shutil.rmtree(self._aside, ignore_errors=True)


def _file_name(nodeid: str) -> str:
    """One that a file system takes, and that no other test has."""
    readable = re.sub(r"[^A-Za-z0-9_.\-]+", "-", nodeid).strip("-")[:150]
    return f"{readable}-{hashlib.sha256(nodeid.encode(errors='surrogatepass')).hexdigest()[:8]}"


@pytest.fixture
def rdma_capture(request: pytest.FixtureRequest, rdma_device: devices.Device, tmp_path: Path) -> Iterator[Capture]:
    """Keeps what goes over the wire; where the test fails, it is written as a pcapng, and the report says where."""
    folder = request.config.getoption("--rdma-captures")
    capture = Capture(rdma_device, Path(folder) if folder else tmp_path, _file_name(request.node.nodeid))
    rdma_device.record()
    request.node.stash[_capture_key] = capture
    yield capture
    if not rdma_device.closed:
        capture._put_aside()
        rdma_device.record(0)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A test that failed, in itself or in a fixture, has its capture written."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    capture = item.stash.get(_capture_key, None)
    if capture is None:
        return
    if report.failed:
        _keep(capture, report)
    if report.when == "teardown":
        capture._forget()
        del item.stash[_capture_key]


def _keep(capture: Capture, report: Any) -> None:
    from rdmawire import Error

    try:
        path = capture.save()
        report.sections.append(("rdma_capture", f"what was on the wire: {path}"))
        report.user_properties.append(("rdma_capture", str(path)))
    except (Error, OSError) as error:
        report.sections.append(("rdma_capture", f"what was on the wire could not be written: {error}"))
