"""Devices from Python: exchanges with the reference device, errors, close, fork and threads."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import rdmawire
from rdmawire import (
    AETH,
    BTH,
    DETH,
    RETH,
    AtomicETH,
    ClosedError,
    DeviceError,
    Opcode,
    Syndrome,
    UsageError,
)
from rdmawire import devices


@pytest.fixture
def device():
    with rdmawire.reference() as opened:
        yield opened


def test_write_with_wrong_key_is_rejected_without_writing(device):
    with device.rc_qp(access="remote_write") as qp:
        qp.wire.send(qp.frame() / RETH(va=qp.mr.addr, rkey=qp.mr.rkey ^ 1, length=4) / b"evil")
        assert qp.wire.receive(timeout=1)[AETH].syndrome == Syndrome.NAK_REMOTE_ACCESS_ERROR
        assert qp.mr.read(4) == bytes(4)
        assert qp.state == "err"


def test_write_with_correct_key_is_executed(device):
    with device.rc_qp(access="remote_write") as qp:
        qp.wire.send(qp.frame() / RETH(va=qp.mr.addr + 8, rkey=qp.mr.rkey, length=4) / b"good")
        assert qp.wire.receive(timeout=1)[AETH].syndrome_kind == 0
        assert qp.mr.read(4, offset=8) == b"good"


def test_opcode_is_inferred_from_the_next_header(device):
    with device.rc_qp() as qp:
        reth = RETH(va=qp.mr.addr, rkey=qp.mr.rkey, length=4)
        assert (qp.frame() / reth)[BTH].opcode == Opcode.RC_RDMA_WRITE_ONLY
        assert (qp.frame() / b"data")[BTH].opcode == Opcode.RC_SEND_ONLY
        assert (qp.frame() / AtomicETH())[BTH].opcode == 0x13  # IBTA vol 1, table 38: CmpSwap
        assert (qp.frame() / AETH())[BTH].opcode == Opcode.RC_ACKNOWLEDGE
        assert (qp.frame(Opcode.RC_RDMA_READ_REQUEST) / reth)[BTH].opcode == Opcode.RC_RDMA_READ_REQUEST
        assert qp.frame()[BTH].dest_qp == qp.qpn


def test_psns_are_incremented_automatically(device):
    with device.rc_qp(receives=2, first_psn=0xFFFFFF) as qp:
        qp.wire.send([qp.frame() / b"one", qp.frame() / b"two"])
        assert [qp.wire.receive()[BTH].psn for _ in range(2)] == [0xFFFFFF, 0]
        assert [c.byte_len for c in qp.poll(2)] == [3, 3]
        assert qp.inbox.read(3, offset=1024) == b"two"
        assert qp.frame(psn=5)[BTH].psn == 5
        assert qp.psn == 1


def test_device_send_completes_when_acknowledged(device):
    with device.rc_qp() as qp:
        qp.mr.write(b"from the device")
        qp.post_send("send", length=15, wr_id=7)
        request = qp.wire.receive(timeout=1)
        assert request[BTH].psn == qp.device_first_psn
        assert request[BTH].dest_qp == qp.tester_qpn
        assert b"from the device" in bytes(request)
        qp.wire.send(qp.frame(psn=request[BTH].psn) / AETH(syndrome=0x1F, msn=1))
        completion = qp.cq.wait()
        assert (completion.wr_id, completion.good, completion.opcode) == (7, True, "send")


def test_uc_write_and_ud_send(device):
    with device.uc_qp() as qp:
        qp.wire.send(qp.frame() / RETH(va=qp.mr.addr, rkey=qp.mr.rkey, length=2) / b"uc")
        assert qp.wire.receive(timeout=0.1) is None
        assert qp.mr.read(2) == b"uc"
    with device.ud_qp(receives=1) as qp:
        qp.wire.send(qp.frame() / DETH(qkey=qp.qkey, src_qp=qp.tester_qpn) / b"datagram")
        assert qp.cq.wait().src_qp == qp.tester_qpn
        qp.post_send("send", length=4)
        assert qp.wire.receive(timeout=1)[DETH].qkey == qp.qkey


def test_queue_pair_wire_receives_only_its_frames(device):
    with device.rc_qp(receives=1) as one, device.rc_qp(receives=1) as two:
        device.wire.send([one.frame() / b"1", two.frame() / b"2"])
        assert two.wire.receive(timeout=1)[BTH].dest_qp == two.tester_qpn
        assert two.wire.receive(timeout=0.01) is None
        assert one.wire.receive(timeout=1)[BTH].dest_qp == one.tester_qpn
        device.wire.send(one.frame() / b"3")
        assert device.wire.receive(timeout=1)[BTH].dest_qp == one.tester_qpn


def test_additional_regions_and_memory_windows(device):
    with device.rc_qp(region_access="local_write mw_bind remote_write remote_read") as qp:
        more = qp.region(64, "local_write remote_write")
        qp.wire.send(qp.frame() / RETH(va=more.addr, rkey=more.rkey, length=4) / b"more")
        qp.wire.receive(timeout=1)
        assert more.read(4) == b"more"
        more.fill("counter", 1)
        assert more.read(3) == b"\x01\x02\x03"
        window = qp.window(0, 16, "remote_write")
        qp.wire.send(qp.frame() / RETH(va=qp.mr.addr + 8, rkey=window.rkey, length=4) / b"in")
        qp.wire.send(qp.frame() / RETH(va=qp.mr.addr + 32, rkey=window.rkey, length=4) / b"out!")
        syndromes = [qp.wire.receive(timeout=1)[AETH].syndrome for _ in range(1)]
        assert Syndrome.NAK_REMOTE_ACCESS_ERROR in syndromes or Syndrome.NAK_INVALID_REQUEST in syndromes


def test_window_bind_keeps_other_completions(device):
    """window() waits for its own completion. Other completions stay in the queue, in order."""
    with device.completion_queue(16) as cq:
        access = "local_write mw_bind remote_write"
        one, two = (device.rc_qp(receives=2, cq=cq, region_access=access) for _ in range(2))
        two.wire.send(two.frame() / b"two")
        one.wire.send(one.frame() / b"one")
        window = one.window(0, 16, "remote_write")
        another = two.window(0, 16, "remote_write")
        assert [(c.qp_num, c.byte_len, c.opcode) for c in cq.poll(3, timeout=0.1)] == [
            (two.qpn, 3, "recv"),
            (one.qpn, 3, "recv"),
        ]
        for qp, its in ((one, window), (two, another)):
            assert qp.wire.receive(timeout=1)[BTH].opcode == Opcode.RC_ACKNOWLEDGE  # responds to the frame above
            qp.wire.send(qp.frame() / RETH(va=qp.mr.addr, rkey=its.rkey, length=4) / b"seen")
            assert qp.wire.receive(timeout=1)[AETH].syndrome_kind.name == "ACK" and qp.mr.read(4) == b"seen"
        assert cq.poll(timeout=0.01) == []
    with device.rc_qp(region_access="local_write mw_bind remote_write") as qp:
        qp.post_recv(2)
        qp.wire.send(qp.frame() / b"kept")
        qp.window(0, 16, "remote_write")
        qp.wire.send(qp.frame() / b"later")
        assert [c.byte_len for c in qp.cq.poll(2)] == [4, 5]


def test_failed_window_bind_is_reported(device):
    with device.rc_qp(region_access="local_write") as qp, pytest.raises(rdmawire.DeviceError, match="bound"):
        qp.window(0, 16, "remote_write")


def test_queue_pairs_share_protection_domain_and_completion_queue(device):
    with device.domain() as domain, device.completion_queue(16) as cq:
        one, two = (device.rc_qp(receives=1, domain=domain, cq=cq) for _ in range(2))
        assert one.cq is two.cq is cq
        one.wire.send([one.frame() / b"first", two.frame() / b"second"])
        assert {(c.qp_num, c.byte_len) for c in cq.poll(2)} == {(one.qpn, 5), (two.qpn, 6)}
        more = domain.region(64, "local_write remote_write")
        for number, qp in enumerate((one, two)):
            qp.wire.send(qp.frame() / RETH(va=more.addr + number, rkey=more.rkey, length=1) / bytes([7 + number]))
            assert list(qp.wire.sniff(timeout=0.01))
        assert more.read(2) == bytes([7, 8])
        # The device rejects the key of another protection domain.
        with device.rc_qp() as other:
            one.wire.send(one.frame() / RETH(va=other.mr.addr, rkey=other.mr.rkey, length=1) / b"!")
            assert [f[AETH].syndrome for f in one.wire.sniff(timeout=0.01)][-1] == Syndrome.NAK_REMOTE_ACCESS_ERROR
        one.close()
        cq.close()
        assert one.closed and cq.closed and not two.closed
        with pytest.raises(ClosedError, match="completion queue"):
            cq.poll(timeout=0)
        assert two.state == "rts"
    assert two.closed
    with pytest.raises(ClosedError):
        more.read(1)


def test_closing_a_domain_releases_its_memory(device):
    before = len(device.call("objects")["objects"])
    for _ in range(3):
        with device.domain() as domain:
            qp = device.rc_qp(domain=domain)
            with device.rc_qp(domain=domain):
                domain.region(64)
            assert not qp.closed
    assert len(device.call("objects")["objects"]) == before


def test_faults_accept_the_lines_that_the_fuzzer_prints():
    from rdmawire import fuzz

    for fault in fuzz.faults()[:3]:
        line = f"{fault.target:52} {fault.concern or '':14} {fault.sentence}"
        for faults in (line, fault.target, [line], f"{line}\n"):
            with rdmawire.reference(faults=faults) as device:
                assert device.faults == {fault.name}
    for text in (
        "reference:bounds-off-by-one, ignores-pkey",
        "reference:bounds-off-by-one ignores-pkey",
        "reference:bounds-off-by-one, reference:ignores-pkey",
    ):
        with rdmawire.reference(faults=text) as device:
            assert device.faults == {"bounds-off-by-one", "ignores-pkey"}
    with pytest.raises(UsageError, match="unknown fault 'ignores-pkay'"):
        rdmawire.reference(faults="reference:bounds-off-by-one, ignores-pkay")
    with rdmawire.reference(faults="reference:bounds-off-by-one,ignores-pkey") as device:
        assert device.faults == {"bounds-off-by-one", "ignores-pkey"}
    with pytest.raises(rdmawire.UsageError, match="unknown fault 'bounds-off-by-on'.*bounds-off-by-one"):
        rdmawire.reference(faults="reference:bounds-off-by-on   memory safety  A fault.")


def test_faults_can_be_changed_on_an_open_device(device):
    assert device.faults == frozenset()
    with device.rc_qp(receives=3) as qp:
        qp.wire.send(qp.frame() / b"data")
        assert qp.wire.receive(timeout=1)[AETH].syndrome_kind == 0
        device.faults = "acknowledges-twice"
        assert device.faults == {"acknowledges-twice"}
        qp.wire.send(qp.frame() / b"data")
        assert len(list(qp.wire.sniff(timeout=0.01))) == 2
        with pytest.raises(UsageError, match="unknown fault"):
            device.faults = ["acknowledges-twice", "nonsense"]
        assert device.faults == {"acknowledges-twice"}
        device.faults = ()
        qp.wire.send(qp.frame() / b"data")
        assert len(list(qp.wire.sniff(timeout=0.01))) == 1


def test_open_device_can_be_certified(device):
    with device.rc_qp(receives=1) as qp:
        received = []
        rule = "rc.responder.psn.sequence-error"
        report = rdmawire.conformance.certify(
            device, only=[rule, "RSP-010"], seed=1, on_result=lambda _: received.append(qp.wire.receive(timeout=0))
        )
        assert report.ok and len(received) == len(report) > 1 and report.json["device"] == "reference"
        qp.wire.send(qp.frame() / b"still there")
        assert qp.cq.wait().byte_len == 11
        device.faults = "naks-every-packet"
        assert not rdmawire.conformance.certify(device, only=rule, seed=1).ok
    device.close()
    with pytest.raises(ClosedError):
        rdmawire.conformance.certify(device, only=rule)


def test_queue_pair_attributes_and_states(device):
    with device.rc_qp(mtu=256, state="init") as qp:
        assert qp.state == "init"
        qp.move("rtr")
        qp.move("rts")
        assert qp.query()["path_mtu"] == 256
        qp.modify("err")
        assert qp.state == "err"


@pytest.mark.parametrize("over", ["ipv4", "ipv6", "vlan", "roce_v1"])
def test_send_over_each_address_type(device, over):
    with device.rc_qp(over=over, receives=1) as qp:
        qp.wire.send(qp.frame() / b"data")
        assert qp.wire.receive(timeout=1)[AETH].syndrome_kind == 0


def test_injected_fault_changes_the_responses():
    with rdmawire.reference(faults="naks-every-packet") as device, device.rc_qp(receives=4) as qp:
        qp.frame()  # is not sent
        qp.wire.send([qp.frame() / b"data", qp.frame() / b"data"])
        syndromes = [frame[AETH].syndrome for frame in qp.wire.sniff(timeout=0.01)]
        assert syndromes == [Syndrome.NAK_PSN_SEQUENCE_ERROR] * 2  # a conforming device sends only the first
    assert "naks-every-packet" in devices.faults()
    assert devices.faults("iwarp") and devices.faults("iwarp") != devices.faults()


def test_same_seed_repeats_the_exchange():
    def exchange(seed):
        with rdmawire.reference(seed=seed) as device, device.rc_qp(receives=1) as qp:
            qp.wire.send(qp.frame() / b"data")
            return bytes(qp.wire.receive()), qp.qpn, qp.tester_qpn

    assert exchange(1) == exchange(1)
    assert exchange(1) != exchange(2)


def test_device_limits_counters_and_features(device):
    assert device.describe()["limits"]["max_qp"] > 0
    assert device.counters()["rx_packets"] == 0
    assert device.lacks("atomics", "ud") is None
    with pytest.raises(UsageError, match="unknown need 'wings'"):
        device.lacks("wings")


def test_iwarp_reference_has_no_wire():
    with rdmawire.reference(family="iwarp") as device:
        assert device.family == "iwarp"
        assert device.describe()
        with pytest.raises(UsageError, match="no wire"):
            device.wire.receive()
        with pytest.raises(UsageError, match="stream"):
            device.rc_qp()


# Errors


def test_unknown_names_and_values_are_rejected(device):
    for call in (
        lambda: rdmawire.open_device("toaster"),
        lambda: rdmawire.reference(faults="no-such-fault"),
        lambda: rdmawire.reference(family="token ring"),
        lambda: rdmawire.lab("toaster"),
        lambda: rdmawire.open_device("reference", color="red"),
        lambda: rdmawire.open_device("reference", seed="one"),
        lambda: device.rc_qp(color="red"),
        lambda: device.rc_qp(mtu="wide"),
        lambda: device.rc_qp(mtu=-1),
        lambda: device.rc_qp(state="asleep"),
        lambda: device.rc_qp(over="carrier pigeon"),
        lambda: device.qp("rd"),
    ):
        with pytest.raises((UsageError, DeviceError)):
            call()
    with pytest.raises(UsageError, match="mtu"):
        device.rc_qp(color="red")  # the message lists the valid names


def test_rejected_command_raises_device_error(device):
    with device.rc_qp() as qp:
        with pytest.raises(DeviceError) as refused:
            qp.modify("rtr")
        assert refused.value.kind == "refused"
        with pytest.raises(DeviceError):
            qp.post_send("teleport")
        with pytest.raises(DeviceError):
            qp.mr.read(4, offset=1 << 40)
        with pytest.raises(DeviceError):
            device.call("no_such_command")
        with pytest.raises(UsageError):
            device.call("ping", x=object())
        with pytest.raises(TypeError):
            qp.mr.write(5)
        with pytest.raises(DeviceError) as late:
            qp.cq.wait(timeout=0.01)
        assert late.value.kind == "timeout"


def test_missing_agent_is_unreachable():
    with pytest.raises(DeviceError) as error:
        rdmawire.agent("unix:/no/such/socket", wire="null")
    assert error.value.kind == "unreachable"


@pytest.fixture
def secure_agent(tmp_path):
    """The address of an agent with credentials, its controller's key, and the key of another agent."""
    try:
        program = devices.agent_program()
    except DeviceError:
        pytest.skip("requires rdmawire-agent")
    for name in ("this", "other"):
        subprocess.run([program, "--make-credentials", tmp_path / name], check=True, capture_output=True)
    with subprocess.Popen(
        [program, "--listen", "tcp:127.0.0.1:0", "--credentials", tmp_path / "this/agent.keys"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as agent:
        yield agent.stdout.readline().split()[-1], tmp_path / "this/controller.key", tmp_path / "other/controller.key"
        agent.terminate()


def test_agent_requires_the_right_credentials(secure_agent):
    address, right, wrong = secure_agent

    def message(**options):
        with pytest.raises(DeviceError) as error:
            rdmawire.agent(address, wire="null", **options)
        return str(error.value)

    assert "the agent requires TLS; specify the credentials" in message()
    assert "the agent rejected the key with the ID" in message(credentials=wrong)
    # The host of the agent has no RDMA devices, which causes an error after the authentication.
    assert "key" not in message(credentials=right)


def test_use_after_close_raises_closed_error():
    device = rdmawire.reference()
    qp = device.rc_qp()
    memory, wire, cq = qp.mr, qp.wire, qp.cq
    qp.close()
    qp.close()
    for use in (lambda: memory.read(4), lambda: cq.poll(), lambda: qp.state, lambda: qp.frame() / b"", lambda: len(memory)):
        with pytest.raises(ClosedError, match="queue pair was closed"):
            use()
    other = device.rc_qp()
    device.close()
    device.close()
    assert device.closed and other.closed and wire.closed
    for use in (
        lambda: other.mr.read(4),
        lambda: device.counters(),
        lambda: device.rc_qp(),
        lambda: wire.receive(),
        lambda: device.wire.send(bytes(64)),
        lambda: device.call("ping"),
    ):
        with pytest.raises(ClosedError, match="closed"):
            use()
    repr(device), repr(other), repr(memory), repr(wire)


def test_objects_keep_the_device_alive():
    device = rdmawire.reference()
    qp = device.rc_qp()
    memory = qp.mr
    region = qp.region(64)
    del device
    gc.collect()
    assert memory.read(1) == b"\0"  # objects keep a reference to the device
    del qp
    gc.collect()
    assert region.read(1) == b"\0"
    del memory, region
    gc.collect()


def test_close_releases_the_objects_of_the_device(device):
    def object_count():
        return len(device.call("objects")["objects"])

    before = object_count()
    with device.rc_qp() as qp:
        qp.region(64)
        assert object_count() > before
    assert object_count() == before


def test_threads_share_a_device(device):
    errors = []

    def exchange(number):
        try:
            for _ in range(5):
                with device.rc_qp(receives=1, seed=number) as qp:
                    qp.wire.send(qp.frame() / b"data")
                    assert qp.wire.receive(timeout=1)[AETH].syndrome_kind == 0
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=exchange, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_close_while_other_threads_use_the_device():
    device = rdmawire.reference()
    qp = device.rc_qp()
    ended = threading.Event()

    def work():
        try:
            while True:
                qp.mr.read(64)
                qp.wire.receive(timeout=0.001)
        except (ClosedError, DeviceError):
            ended.set()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    device.close()
    for thread in threads:
        thread.join(10)
    assert ended.is_set() and not any(thread.is_alive() for thread in threads)


def test_forked_child_cannot_use_the_parents_device(device):
    qp = device.rc_qp()
    child = os.fork()
    if child == 0:
        status = 0
        for use in (lambda: device.counters(), lambda: qp.mr.read(1), lambda: device.wire.receive(0), lambda: qp.state):
            try:
                use()
                status = 1
            except ClosedError as error:
                if "fork" not in str(error):
                    status = 2
        device.close()
        qp.close()
        with rdmawire.reference() as own, own.rc_qp() as mine:
            mine.mr.read(1)
        del device, qp
        gc.collect()
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert qp.mr.read(1) == b"\0"


def test_open_and_close_do_not_leak():
    def once():
        with rdmawire.reference() as device, device.rc_qp(receives=1) as qp:
            qp.wire.send(qp.frame() / b"data")
            qp.wire.receive()

    def resident():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    for _ in range(5):
        once()
    gc.collect()
    descriptors, threads, memory = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), resident()
    for _ in range(40):
        once()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert len(os.listdir("/proc/self/task")) == threads
    assert resident() - memory < 32 << 20


def test_recorded_frames_are_saved(device, tmp_path):
    with device.rc_qp(receives=1) as qp:
        device.wire.record()
        qp.wire.send(qp.frame() / b"data")
        qp.wire.receive()
        path = tmp_path / "x.pcapng"
        assert device.wire.save(path, ["a comment"]) == 2
    with rdmawire.open_wire(f"file:{path},read") as back:
        assert [frame[BTH].opcode for frame in back] == [Opcode.RC_SEND_ONLY, Opcode.RC_ACKNOWLEDGE]


def test_program_exits_with_an_open_device():
    program = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "import rdmawire\n"
        "device = rdmawire.reference()\nqp = device.rc_qp()\nprint(qp.state)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "rts\n", "")


def test_ctrl_c_interrupts_waiting_for_an_agent(tmp_path):
    # The agent accepts the connection and never replies.
    program = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "import rdmawire, socket\n"
        f"listener = socket.socket(socket.AF_UNIX); listener.bind({str(tmp_path / 'agent')!r}); listener.listen()\n"
        "print('ready', flush=True)\n"
        f"try:\n    rdmawire.agent({'unix:' + str(tmp_path / 'agent')!r}, wire='null')\n"
        "except KeyboardInterrupt:\n    print('interrupted', flush=True)\n"
        "except rdmawire.DeviceError as error:\n    print(error.kind, flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=120)[0] == "interrupted\n"


def test_missing_agent_program_error_names_the_path(monkeypatch, tmp_path):
    monkeypatch.setenv("RDMAWIRE_AGENT", str(tmp_path / "nothing"))
    with pytest.raises(DeviceError, match="RDMAWIRE_AGENT=.*/nothing is not an executable file") as missing:
        rdmawire.lab("rxe")
    assert missing.value.kind == "unreachable"
    with pytest.raises(DeviceError, match="nothing is not an executable file"):
        rdmawire.conformance.certify("lab:siw", only="ddp.*")
    monkeypatch.delenv("RDMAWIRE_AGENT")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(devices._core, "__file__", str(tmp_path / "_core.so"))
    with pytest.raises(DeviceError, match="cannot find rdmawire-agent in .* set RDMAWIRE_AGENT"):
        rdmawire.lab("rxe")


def test_changed_header_prefix_is_sent(device):
    with device.rc_qp(receives=1) as qp:
        frame = qp.frame()
        frame[BTH].pkey = 0x1234
        frame.icrc = 0
        assert (frame[BTH].pkey, frame.icrc, frame.icrc_status) == (0x1234, 0, "bad")
        qp.wire.send(frame)
        assert qp.wire.receive(timeout=0.1) is None  # the device drops a bad ICRC silently
        frame = qp.frame()
        frame[rdmawire.IPv4].ttl = 9
        frame.payload = b"abc"
        extended = frame / b"def"
        assert extended[rdmawire.IPv4].ttl == 9 and extended.payload == b"abcdef"
        with pytest.raises(AttributeError):
            frame.nofield = 5


def test_header_prefix_is_a_frame(device):
    with device.rc_qp() as qp:
        frame = qp.frame()
        assert len(frame) == len(bytes(frame)) == len(memoryview(frame))
        assert len((rdmawire.Ether() / frame).layers) == 1 + len(frame.layers)
        frame.payload = bytes(700)
        assert len(rdmawire.segment(frame, 256)) == 3
        assert (frame.copy() / RETH())[BTH].opcode == Opcode.RC_RDMA_WRITE_ONLY


def test_explicit_opcode_is_kept(device):
    with device.rc_qp() as qp:
        frame = qp.frame()
        frame[BTH].opcode = Opcode.RC_SEND_ONLY
        assert (frame / RETH())[BTH].opcode == Opcode.RC_SEND_ONLY
        frame = qp.frame()
        frame[BTH] = BTH(opcode=Opcode.RC_SEND_LAST)
        assert (frame / AETH())[BTH].opcode == Opcode.RC_SEND_LAST
        frame = qp.frame()
        assert (frame / AETH())[BTH].opcode == Opcode.RC_ACKNOWLEDGE and (frame / AETH())[BTH].ack_request == 0
        assert (frame / b"x")[BTH].opcode == Opcode.RC_SEND_ONLY  # the header prefix is unchanged


def test_opcode_is_inferred_from_an_appended_frame(device):
    with device.rc_qp() as qp:
        assert (qp.frame() / (RETH(length=3) / b"abc"))[BTH].opcode == Opcode.RC_RDMA_WRITE_ONLY
        assert (qp.frame() / rdmawire.Frame(payload=b"abc"))[BTH].opcode == Opcode.RC_SEND_ONLY
