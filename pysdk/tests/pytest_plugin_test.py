"""The pytest plugin, tested with pytester."""

import os
import sys
import textwrap

import pytest
import rdmawire  # imported here because pytester unloads modules that its tests import first

pytest_plugins = ["pytester"]


@pytest.fixture
def run(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run_it(source, *options):
        pytester.makepyfile(source)
        return pytester.runpytest_subprocess("-p", "rdmawire.pytest_plugin", *options)

    return run_it


WRONG_KEY_TEST = """
    from rdmawire import AETH, RETH, Syndrome

    def test_wrong_key_is_rejected(rdma_device, rdma_capture):
        with rdma_device.rc_qp(access="remote_write") as qp:
            qp.wire.send(qp.frame() / RETH(va=qp.mr.addr, rkey=qp.mr.rkey ^ 1, length=4) / b"evil")
            response = qp.wire.receive(timeout=1)
            assert response[AETH].syndrome == Syndrome.NAK_REMOTE_ACCESS_ERROR
            assert qp.mr.read(4) == bytes(4)
"""


def test_passing_test_leaves_no_capture(run, pytester):
    run(WRONG_KEY_TEST, "--rdma-captures", "caught").assert_outcomes(passed=1)
    assert not (pytester.path / "caught").exists()


def test_failing_test_leaves_its_capture(run, pytester):
    result = run(WRONG_KEY_TEST, "--rdma-fault", "unknown-key-invalid-request", "--rdma-captures", "caught")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*rdma_capture*", "capture of the test: *test_wrong_key_is_rejected-*.pcapng"])
    (path,) = (pytester.path / "caught").iterdir()
    with rdmawire.open_wire(f"file:{path},read") as back:
        frames = list(back)
    assert len(frames) >= 1 and rdmawire.RETH in frames[0]


def test_each_test_has_its_own_device(run):
    run(
        """
        def test_one(rdma_device):
            assert rdma_device.counters()["rx_packets"] == 0
            with rdma_device.rc_qp() as qp:
                qp.wire.send(qp.frame() / b"x")
                qp.wire.receive()
            assert rdma_device.counters()["rx_packets"] == 1

        test_two = test_one

        def test_wire(rdma_wire, rdma_device):
            assert rdma_wire.receive(timeout=0.01) is None
            assert rdma_wire.name == rdma_device.wire.name
        """
    ).assert_outcomes(passed=3)


def test_unsupported_feature_skips_with_the_reason(run):
    result = run(
        """
        import pytest
        from rdmawire.devices import Device

        @pytest.fixture(autouse=True)
        def without_flush(monkeypatch):
            # The reference device supports every feature.
            lacks = Device.lacks
            monkeypatch.setattr(Device, "lacks", lambda self, *needs:
                "the device reports no FLUSH support" if "flush" in needs else lacks(self, *needs))

        @pytest.mark.rdma_needs("atomics", "ud")
        def test_has(rdma_device):
            pass

        @pytest.mark.rdma_needs("flush")
        def test_lacks(rdma_device):
            raise AssertionError("not reached")

        @pytest.mark.rdma_needs("wings")
        def test_unknown_need(rdma_device):
            pass
        """,
        "-rs",
        "--strict-markers",
    )
    result.assert_outcomes(passed=1, skipped=1, errors=1)
    result.stdout.fnmatch_lines(["*the device reports no FLUSH support*"])
    result.stdout.fnmatch_lines(["*unknown need 'wings'*"])


def test_unreachable_device_is_a_test_error(run):
    result = run("def test(rdma_device): pass", "--rdma-device", "agent:unix:/no/such/socket", "--rdma-wire", "null")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*DeviceError*/no/such/socket*"])


def test_help_lists_options_and_marker(run):
    run("", "--help").stdout.fnmatch_lines(["*--rdma-device=DEVICE*"])
    run("", "--markers").stdout.fnmatch_lines(["*rdma_needs(name, …)*atomics*"])


def test_unwritable_capture_directory_keeps_the_test_failure(run, pytester):
    (pytester.path / "file").write_text("a file")
    result = run(
        "def test(rdma_device, rdma_capture): assert rdma_device is None", "--rdma-captures", str(pytester.path / "file" / "x")
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*cannot write the capture of the test*"])


def test_iwarp_streams_are_captured(run, pytester):
    result = run(
        """
        def test_fails(rdma_device, rdma_capture):
            with rdma_device.stream(receives=1) as qp:
                qp.stream.send(qp.frame() / b"hello")
                assert qp.cq.wait().byte_len == 6
        """,
        "--rdma-family",
        "iwarp",
        "--rdma-captures",
        str(pytester.path / "kept"),
    )
    result.assert_outcomes(failed=1)
    [kept] = (pytester.path / "kept").iterdir()
    from rdmawire import RDMAP, open_capture

    assert any(RDMAP in pdu for packet in open_capture(kept).packets() for pdu in packet.pdus)


SEND_TEXT = """
    import pytest

    def send_text(device, text):
        with device.rc_qp(receives=1) as qp:
            qp.wire.send(qp.frame() / text)
            assert qp.cq.wait().good
"""


def captured(folder):
    """Return the payloads of each capture in the directory."""
    def texts(path):
        with rdmawire.open_wire(f"file:{path},read") as back:
            return [frame.payload for frame in back if frame.payload]

    return sorted(texts(path) for path in folder.iterdir())


def test_each_test_has_its_own_capture_file(run, pytester):
    test = SEND_TEXT + (
        """
    @pytest.mark.parametrize("text", ["a/b", "c/b", "long" * 75])
    def test_fails(rdma_device, rdma_capture, text):
        send_text(rdma_device, b"{} " + text.encode())
        assert False
"""
    )
    for folder in ("a", "b"):
        pytester.mkdir(folder)
        (pytester.path / folder / "__init__.py").write_text("")
        (pytester.path / folder / "test_x.py").write_text(textwrap.dedent(test.replace("{}", folder)))
    run("", "--rdma-captures", "caught").assert_outcomes(failed=6)
    texts = [f"{folder} {text}".encode() for folder in "ab" for text in ("a/b", "c/b", "long" * 75)]
    assert captured(pytester.path / "caught") == sorted([text] for text in texts)


@pytest.mark.parametrize("when", ["setup", "teardown"])
def test_failing_fixture_leaves_the_capture_of_its_test(run, pytester, when):
    result = run(
        SEND_TEXT
        + f"""
    @pytest.fixture
    def broken(rdma_device, rdma_capture):
        if "{when}" == "teardown":
            yield
        send_text(rdma_device, b"fixture!")
        assert False
        yield

    def test(broken):
        pass

    def test_that_passes(rdma_device, rdma_capture):
        send_text(rdma_device, b"passed")
""",
        "--rdma-captures",
        "caught",
    )
    result.assert_outcomes(passed=2 if when == "teardown" else 1, errors=1)
    result.stdout.fnmatch_lines(["*rdma_capture*", "capture of the test: *pcapng"])
    assert captured(pytester.path / "caught") == [[b"fixture!"]]
