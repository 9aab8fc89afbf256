"""Fuzzing of user-defined targets: objects, wires, servers and processes, with user-defined monitors."""

import json
import os
import random
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import rdmawire
from rdmawire import AETH, BTH, RETH, UDP, Ether, IPv4, Opcode, UsageError, fuzz, parse, wire_pair
from rdmawire.fuzz.mutations import mutate, mutated

ENVIRONMENT = dict(os.environ, PYTHONPATH=str(Path(rdmawire.__file__).parents[1]))
SEND = Ether() / IPv4(dst="10.0.0.2") / UDP() / BTH(opcode=Opcode.RC_SEND_ONLY, dest_qp=17, psn=5) / b"hello"


class Device:
    """A reference device as a user-defined target."""

    def __init__(self, faults=""):
        self.device = rdmawire.reference(faults=faults)
        self.qp = None

    def reset(self):
        if self.qp is not None:
            self.qp.close()
        self.qp = self.device.rc_qp(access="remote_write", receives=8)

    def send(self, data):
        self.qp.wire.send(data)

    def receive(self, timeout):
        return self.qp.wire.receive(timeout)

    def hello(self, exchange):
        return self.qp.frame() / b"hello"

    def write(self, exchange):
        return self.qp.frame() / RETH(va=self.qp.mr.addr, rkey=self.qp.mr.rkey, length=4) / b"data"


class Echo:
    """Answers each message with its first byte. A zero byte at offset 3 breaks it until reset()."""

    def __init__(self):
        self.answers, self.broken, self.resets = [], False, 0

    def reset(self):
        self.answers, self.broken = [], False
        self.resets += 1

    def send(self, data):
        if self.broken:
            raise ConnectionResetError("broken")
        if len(data) > 3 and data[3] == 0:
            self.broken = True
        else:
            self.answers.append(data[:1])

    def receive(self, timeout):
        return self.answers.pop(0) if self.answers else None


def no_answer(exchange):
    return None if len(exchange.received) >= len(exchange.sent) else "no answer"


def accepts_wrong_icrc(exchange):
    """Report an acknowledgement of a packet whose only defect is its ICRC."""
    wrong = {parse(data)[BTH].psn for data in exchange.sent if parse(data).icrc_status == "bad"}
    answered = {frame[BTH].psn for frame in exchange.frames if AETH in frame and frame[AETH].syndrome < 32}
    return "acknowledges a wrong ICRC" if wrong & answered and len(exchange.mutations) == 1 else None


@pytest.mark.parametrize("faults", ["", "accepts-bad-icrc"])
def test_own_monitor_finds_the_fault_of_a_device(faults):
    device = Device(faults)
    messages = [device.hello, fuzz.Message(device.write, only=["icrc"])]
    with fuzz.MessageSession(device, messages, monitors=[accepts_wrong_icrc], timeout=0.01) as session:
        session.run(executions=300, progress=False)
    assert session.statistics.executions == 300
    assert session.statistics.edges > 2
    if not faults:
        assert session.findings == []
        return
    finding = next(one for one in session.findings if "write" in one.signature)
    assert finding.reproduced
    assert [one.field for one in finding.case.mutations] == ["icrc"]
    assert finding.case.omitted == (0,)  # the first message is not needed
    assert any("ICRC bad" in line for line in finding.messages)
    exchange, description = session.replay(finding.case)
    assert description == "acknowledges a wrong ICRC"
    assert exchange.responses(1)[0][AETH].syndrome_kind == 0


@pytest.mark.parametrize(("faults", "rules"), [("", []), ("sends-udp-checksum", ["roce.sender.udp.checksum-zero"])])
def test_rules_monitor_names_the_violated_rules(faults, rules):
    device = Device(faults)
    session = fuzz.MessageSession(device, [device.hello, device.hello], monitors=[fuzz.Rules()], timeout=0.01)
    session.run(executions=150, progress=False)
    assert sorted({rule for finding in session.findings for rule in finding.rules}) == rules
    assert [group.cause for group in session.groups] == rules


def test_wire_is_a_target():
    a, b = wire_pair()
    resets = []
    with a, b:
        target = fuzz.WireTarget(a, reset=lambda: resets.append(1))

        def device(exchange):
            while (frame := b.receive(0)) is not None:
                if BTH in frame and frame[BTH].psn & 1:
                    return "odd PSN"
            return None

        with fuzz.MessageSession(target, [SEND], monitors=[device], timeout=0) as session:
            session.run(executions=400, progress=False)
        assert any(one.signature == "device: odd PSN (without mutations)" for one in session.findings) or all(
            one.description == "odd PSN" for one in session.findings
        )
        assert session.findings
        assert len(resets) >= 400
        with fuzz.MessageSession(a, [SEND], timeout=0) as session:
            assert session.run(executions=10, progress=False).sent > 5
            assert "no message of the target was received: check receive() and the timeout" in session.report()


def test_lost_target_is_a_finding_and_is_reset():
    echo = Echo()
    with fuzz.MessageSession(echo, [b"abcdef", b"second"], monitors=[no_answer], timeout=0) as session:
        session.run(executions=600, progress=False)
    signatures = {finding.kind for finding in session.findings}
    assert "no_answer: no answer" in signatures
    assert "target: ConnectionResetError: broken" in signatures
    lost = next(one for one in session.findings if one.monitor == "target")
    assert lost.reproduced
    assert len(lost.case.mutations) == 1
    assert {group.cause for group in session.groups} == signatures
    assert echo.resets > 600


class Gone(Echo):
    def reset(self):
        if self.resets > 5:
            raise ConnectionRefusedError("refused")
        super().reset()


def test_permanently_lost_target_ends_the_run():
    with fuzz.MessageSession(Gone(), [b"abcd"], restarts=2, pause=0) as session:
        with pytest.raises(rdmawire.DeviceError, match=r"reset\(\) failed 2 times: refused"):
            session.run(executions=100, progress=False)
        assert session.statistics.executions == 6


def test_same_seed_gives_the_same_executions():
    def run(seed):
        session = fuzz.MessageSession(Echo(), [b"abcdef"], monitors=[no_answer], seed=seed, timeout=0)
        session.run(executions=300, progress=False)
        return [(one.signature, one.execution, one.case) for one in session.findings], session.corpus

    assert run(4) == run(4)
    assert run(4) != run(5)


def test_session_in_a_directory_is_resumed_after_sigkill(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from python_fuzz_messages_test import Echo, no_answer
        from rdmawire import fuzz
        session = fuzz.MessageSession(
            Echo(), [b"abcdef"], monitors=[no_answer], timeout=0, seed=3, directory={str(tmp_path / "d")!r}
        )
        session.run(seconds=60, progress=False)
    """))
    running = subprocess.Popen([sys.executable, program], env=ENVIRONMENT)
    until = time.monotonic() + 30
    state = tmp_path / "d" / "session.json"
    while not (list(tmp_path.glob("d/findings/*/finding.json")) and json.loads(state.read_text())["next"] > 100):
        assert time.monotonic() < until
        assert running.poll() is None
        time.sleep(0.05)
    running.kill()
    running.wait()
    saved = json.loads(state.read_text())
    options = {"monitors": [no_answer], "timeout": 0, "directory": tmp_path / "d"}
    with pytest.raises(rdmawire.UsageError, match="contains a session; set resume=True"):
        fuzz.MessageSession(Echo(), [b"abcdef"], **options)
    with pytest.raises(rdmawire.UsageError, match="with seed 3, not 4"):
        fuzz.MessageSession(Echo(), [b"abcdef"], resume=True, seed=4, **options)
    with pytest.raises(rdmawire.UsageError, match="is a session with other messages"):
        fuzz.MessageSession(Echo(), [b"abcdef", b"more"], resume=True, **options)
    with fuzz.MessageSession(Echo(), [b"abcdef"], resume=True, **options) as session:
        assert session.seed == 3
        assert session.statistics.executions == saved["next"] - 1
        assert session.findings
        with pytest.raises(rdmawire.UsageError, match="is used by another session"):
            fuzz.MessageSession(Echo(), [b"abcdef"], resume=True, **options)
        session.run(executions=500, progress=False)
        total, findings = session.statistics.executions, session.findings
    # The same executions as in one run.
    whole = fuzz.MessageSession(Echo(), [b"abcdef"], monitors=[no_answer], timeout=0, seed=3)
    whole.run(executions=total, progress=False)
    assert [(one.signature, one.execution, one.times) for one in whole.findings] == [
        (one.signature, one.execution, one.times) for one in findings
    ]


def test_finding_files_reproduce(tmp_path):
    device = Device("accepts-bad-icrc")
    options = {"monitors": [accepts_wrong_icrc], "timeout": 0.01}
    messages = [fuzz.Message(device.hello, only=["icrc"])]
    with fuzz.MessageSession(device, messages, directory=tmp_path, stop_at_first=True, **options) as session:
        session.run(executions=100, progress=False)
        (finding,) = session.findings
    own = tmp_path / finding.directory
    assert {path.name for path in own.iterdir()} == {"case.json", "finding.json", "capture.pcapng"}
    assert [BTH in frame for frame in rdmawire.open_capture(own / "capture.pcapng")] == [True, True]
    again = fuzz.MessageSession(device, messages, **options)
    assert again.replay(own / "case.json")[1] == finding.description
    assert again.replay(fuzz.Case("messages"))[1] is None


SERVER = """
import os, socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], file=sys.stderr, flush=True)
while True:
    peer, _ = server.accept()
    with peer:
        data = peer.recv(4096)
        if len(data) > 8 and data[0] == 0x4d:
            print("fatal: length", len(data), file=sys.stderr, flush=True)
            os.abort()
        peer.sendall(b"ok")
"""


def test_crash_of_a_server_process_is_found_and_the_server_restarted(tmp_path):
    server = fuzz.Process([sys.executable, "-c", SERVER], ready=lambda process: wait_for_port(process))

    class Server(fuzz.TcpTarget):
        def __init__(self):
            super().__init__("127.0.0.1", 0)

        def reset(self):
            server.start()
            self._address = ("127.0.0.1", wait_for_port(server))
            super().reset()

    with server, Server() as target:
        with fuzz.MessageSession(target, [b"Mxxxxxxx"], monitors=[server], directory=tmp_path, max_trials=8) as session:
            session.run(executions=60, progress=False)
            statistics = session.statistics
    crash = next(one for one in session.findings if one.monitor == "process")
    assert "ended by SIGABRT: fatal: length" in crash.description
    assert crash.reproduced
    assert crash.kind == "process: ended by SIGABRT: fatal: length N"
    assert statistics.executions == 60
    assert server.starts > 2
    assert [group.cause for group in session.groups] == [crash.kind]


def wait_for_port(process):
    until = time.monotonic() + 10
    while time.monotonic() < until:
        for line in process.errors:
            if line.isdigit():
                return int(line)
        time.sleep(0.01)
    raise AssertionError("the server did not start")


PATTERN_SERVER = SERVER.replace("os.abort()", "print('ERROR: overflow', file=sys.stderr, flush=True)")


def test_line_of_a_server_is_a_finding_of_its_execution(tmp_path):
    server = fuzz.Process([sys.executable, "-c", PATTERN_SERVER], pattern="ERROR:", settle=0.001)

    class Server(fuzz.TcpTarget):
        def reset(self):
            server.start()
            self._address = ("127.0.0.1", wait_for_port(server))
            super().reset()

    with server, Server("127.0.0.1", 0) as target:
        options = {"monitors": [server], "directory": tmp_path, "stop_at_first": True}
        with fuzz.MessageSession(target, [b"Mxxxxxxx"], **options) as session:
            session.run(executions=200, progress=False)
            (finding,) = session.findings
            for _ in range(10):
                assert session.replay(finding.case)[1] == "ERROR: overflow"
                assert session.replay(fuzz.Case("messages"))[1] is None
    assert server.starts == 1
    assert finding.messages[0].startswith("→ message 1: b'M")  # bytes are not decoded as a frame
    own = tmp_path / finding.directory
    assert {path.name for path in own.iterdir()} == {"case.json", "finding.json", "messages.json"}
    assert json.loads((own / "messages.json").read_text())[0]["sent"] is True


def test_alive_monitor_sends_a_probe():
    class Deaf(Echo):
        """Ignores all messages after a zero byte."""

        deaf = False

        def send(self, data):
            self.deaf = self.deaf or 0 in data
            if not self.deaf:
                super().send(data)

    target = Deaf()
    alive = fuzz.Alive(target, b"probe", timeout=0.01)
    with fuzz.MessageSession(target, [b"abcdef"], monitors=[alive], stop_at_first=True, timeout=0) as session:
        session.run(executions=500, progress=False)
        (finding,) = session.findings
    assert finding.description == "no response to a valid message within 0.01 s"


def test_udp_target_receives_responses():
    import socket
    import threading

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(0.2)

        def serve():
            for _ in range(200):
                try:
                    data, peer = server.recvfrom(65536)
                except TimeoutError:
                    return
                server.sendto(data[:12], peer)

        thread = threading.Thread(target=serve)
        thread.start()
        frame = BTH(opcode=Opcode.RC_SEND_ONLY, dest_qp=17) / b"data"
        with fuzz.UdpTarget("127.0.0.1", server.getsockname()[1]) as target:
            session = fuzz.MessageSession(target, [frame], timeout=0.05)
            session.run(executions=20, progress=False)
        thread.join()
    assert session.statistics.received >= 15


def test_message_can_use_the_responses_to_earlier_messages():
    seen = []

    def second(exchange):
        answer = exchange.received[-1] if exchange.received else None
        seen.append(answer)
        return None if answer is None else b"got " + answer

    session = fuzz.MessageSession(Echo(), [fuzz.Message(b"abcd", fuzz=False), second], timeout=0)
    session.run(executions=50, progress=False)
    assert set(seen) == {b"a"}
    assert session.statistics.sent >= 90


def test_several_conversations_and_names():
    messages = {"one": [fuzz.Message(b"abcd", name="first")], "two": [SEND, b"x"]}
    session = fuzz.MessageSession(Echo(), messages, monitors=[no_answer], timeout=0)
    session.run(executions=400, progress=False)
    conversations = {finding.case.conversation for finding in session.findings}
    assert conversations == {"one", "two"}
    assert any("RC SEND ONLY" in line for finding in session.findings for line in finding.messages)
    with pytest.raises(rdmawire.UsageError, match="unknown conversation 'three'"):
        session.replay(fuzz.Case("three"))


def test_feedback_adds_cases_to_the_corpus():
    def lengths(exchange):
        return [len(data) for data in exchange.sent]

    plain = fuzz.MessageSession(Echo(), [b"abcdefgh"], timeout=0)
    plain.run(executions=300, progress=False)
    guided = fuzz.MessageSession(Echo(), [b"abcdefgh"], timeout=0, feedback=lengths)
    guided.run(executions=300, progress=False)
    assert len(guided.corpus) > len(plain.corpus)
    assert max(len(case.mutations) for case in guided.corpus) > 3


def test_mutations_leave_path_addresses_and_checksums_valid():
    chance = random.Random(1)
    other = 0
    for _ in range(2_000):
        (mutation,) = mutate(SEND, 0, (), chance, 1)
        for data in mutated(SEND, [mutation]):
            if len(data) < 34:
                continue
            frame = parse(data)
            assert data[:12] + data[26:34] == bytes(SEND)[:12] + bytes(SEND)[26:34], mutation
            other += bytes(frame) != bytes(SEND)
            if mutation.kind == "field" and mutation.field in ("bth.psn", "bth.dest_qp", "bth.pkey"):
                assert frame.icrc_status == "good"
    assert other > 1_500
    fields = {mutate(SEND, 0, [BTH, "ip.dst"], chance, 1)[0].field for _ in range(300)}
    assert "ip.dst" in fields
    assert {name.split(".")[0] for name in fields} == {"ip", "bth"}


def test_captured_frame_is_mutated_with_valid_checksums():
    captured = parse(bytes(SEND))
    (data,) = mutated(captured, [fuzz.Mutation(0, "field", "bth.psn", 3, 77)])
    assert (parse(data)[BTH].psn, parse(data).icrc_status) == (77, "good")
    wrong = parse(bytes(SEND))
    wrong.icrc = 5
    (data,) = mutated(wrong, [fuzz.Mutation(0, "field", "bth.psn", 3, 77)])
    assert parse(data).icrc == 5  # an invalid checksum of the message is kept


def test_case_is_saved_as_json():
    case = fuzz.Case("x", (fuzz.Mutation(1, "field", "bth.psn", 3, 77), fuzz.Mutation(0, "append", value="00ff")), (2,))
    assert fuzz.Case.from_json(case.to_json()) == case
    assert "bth.psn = 0x4d" in str(case)
    for text in ("[]", "{", '{"conversation": "x", "mutations": [{"nix": 1}], "omitted": []}'):
        with pytest.raises(rdmawire.UsageError, match="case: expected"):
            fuzz.Case.from_json(text)


def test_invalid_arguments_are_rejected(tmp_path):
    with pytest.raises(TypeError, match=r"target: int has no method send\(\)"):
        fuzz.MessageSession(5, [b"x"])
    with pytest.raises(TypeError, match="messages: expected a list of messages, got bytes"):
        fuzz.MessageSession(Echo(), b"abc")
    with pytest.raises(TypeError, match="message 2: expected a Frame, bytes or a function, got int"):
        fuzz.MessageSession(Echo(), [b"x", 5])
    with pytest.raises(TypeError, match="monitors: expected functions or Monitor objects, got int"):
        fuzz.MessageSession(Echo(), [b"x"], monitors=[5])
    with pytest.raises(rdmawire.UsageError, match="has no message that may be mutated"):
        fuzz.MessageSession(Echo(), [fuzz.Message(b"x", fuzz=False)])
    with pytest.raises(rdmawire.UsageError, match="unknown header 'bht'; did you mean bth"):
        fuzz.MessageSession(Echo(), [fuzz.Message(SEND, only=["bht"])])
    with pytest.raises(rdmawire.UsageError, match="bth has no field 'pns'; did you mean psn"):
        fuzz.MessageSession(Echo(), [fuzz.Message(SEND, only=["bth.pns"])])
    with pytest.raises(rdmawire.UsageError, match="resume requires directory"):
        fuzz.MessageSession(Echo(), [b"x"], resume=True)
    with pytest.raises(rdmawire.UsageError, match="contains no session to resume"):
        fuzz.MessageSession(Echo(), [b"x"], resume=True, directory=tmp_path)
    with pytest.raises(rdmawire.UsageError, match="requires executions or seconds"):
        fuzz.MessageSession(Echo(), [b"x"]).run()
    session = fuzz.MessageSession(Echo(), [SEND], monitors=[lambda exchange: 5])
    with pytest.raises(rdmawire.UsageError, match="a monitor must return a str or None, not 5"):
        session.run(executions=1, progress=False)
    session = fuzz.MessageSession(Echo(), [fuzz.Message(b"x", only=[BTH])])
    session.run(executions=1, progress=False)


def test_error_of_a_function_of_the_user_is_raised():
    def wrong(exchange):
        raise ZeroDivisionError("mine")

    for options in ({"monitors": [wrong]}, {"feedback": wrong}):
        session = fuzz.MessageSession(Echo(), [b"abcd"], timeout=0, **options)
        with pytest.raises(ZeroDivisionError, match="mine"):
            session.run(executions=5, progress=False)
    with pytest.raises(ZeroDivisionError):
        fuzz.MessageSession(Echo(), [wrong], timeout=0).run(executions=5, progress=False)


def test_mutated_frames_are_distinct_and_reproducible():
    base = Ether() / IPv4(src="192.0.2.1", dst="192.0.2.2") / UDP() / BTH(opcode="RC_RDMA_WRITE_ONLY", dest_qp=17, psn=9)
    base = base / RETH(va=4096, rkey=7, length=5) / b"hello"
    frames = list(fuzz.mutated_frames(base, 300, seed=7, max_mutations=3))
    assert len(frames) == 300 == len({bytes(frame) for frame in frames} - {bytes(base)})
    assert frames == list(fuzz.mutated_frames(base, 300, seed=7, max_mutations=3))
    assert frames != list(fuzz.mutated_frames(base, 300, seed=8, max_mutations=3))
    assert all(frame[IPv4].dst == "192.0.2.2" for frame in frames if IPv4 in frame)
    assert 0 < sum(frame.icrc_status == "bad" for frame in frames) < 100


def test_mutated_frames_keep_fields():
    base = Ether() / IPv4() / UDP() / BTH(opcode="RC_RDMA_WRITE_ONLY", dest_qp=17, psn=9) / RETH(va=4096, rkey=7) / b"hello"
    for only in ([RETH.va, BTH.psn], ["reth.va", "bth.psn"]):
        frames = list(fuzz.mutated_frames(base, 100, only=only))
        assert len({bytes(frame) for frame in frames}) == 100
        assert {(f[BTH].opcode, f[BTH].dest_qp, f[RETH].rkey, f.payload, f.icrc_status) for f in frames} == {
            (Opcode.RC_RDMA_WRITE_ONLY, 17, 7, b"hello", "good")
        }
        assert len({f[RETH].va for f in frames}) > 10 and len({f[BTH].psn for f in frames}) > 10
    frames = list(fuzz.mutated_frames(base, 200, only=BTH, keep=[BTH.dest_qp, "bth.opcode"]))
    assert {(frame[BTH].dest_qp, frame[BTH].opcode) for frame in frames} == {(17, Opcode.RC_RDMA_WRITE_ONLY)}
    assert len(list(fuzz.mutated_frames(base, only="bth.se"))) == 1  # one bit has one other value


def test_mutated_frames_report_wrong_names_before_the_iteration():
    base = Ether() / IPv4() / UDP() / BTH()
    with pytest.raises(UsageError, match="only: unknown header 'bht'; did you mean bth"):
        fuzz.mutated_frames(base, only="bht.psn")
    with pytest.raises(UsageError, match="only: the frame has none of reth.va"):
        fuzz.mutated_frames(base, only=RETH.va)
    with pytest.raises(TypeError, match="expected a Frame"):
        fuzz.mutated_frames(b"bytes")


def test_only_accepts_a_single_field_and_attributes():
    for only in ("bth.psn", BTH.psn, BTH, ["bth.psn"]):
        assert fuzz.MessageSession(Echo(), [fuzz.Message(Ether() / IPv4() / UDP() / BTH(), only=only)], timeout=0)


class Crashing:
    """Crashes in send() with an exception of Python, for one opcode."""

    def __init__(self, opcode=0x1F, error=ValueError):
        self.opcode, self.error, self.opcodes = opcode, error, []

    def reset(self):
        pass

    def send(self, data):
        self.opcodes.append(int(parse(data)[BTH].opcode))
        if self.opcodes[-1] == self.opcode:
            raise self.error("crashed")

    def receive(self, timeout):
        return None


def test_finding_contains_the_message_that_crashed_send(tmp_path):
    target = Crashing(error=ConnectionResetError)
    message = fuzz.Message(SEND, only=[BTH.opcode])
    with fuzz.MessageSession(target, [message], directory=tmp_path, timeout=0, stop_at_first=True) as session:
        session.run(executions=400, progress=False)
        (finding,) = session.findings
        exchange, description = session.replay(finding.case)
    assert description == "ConnectionResetError: crashed"
    assert [parse(data)[BTH].opcode for data in exchange.sent] == [0x1F]
    assert len(finding.messages) == 1
    (frame,) = rdmawire.open_capture(tmp_path / finding.directory / "capture.pcapng")
    assert frame[BTH].opcode == 0x1F and frame.comments == ("to the target",)


def test_message_that_a_wire_cannot_send_is_not_recorded():
    a, b = wire_pair(max_bytes=100)
    with a, b, fuzz.MessageSession(a, [fuzz.Message(SEND, only=["udp.length"]), bytes(64)], timeout=0) as session:
        exchange, description = session.replay(fuzz.Case("messages", [fuzz.Mutation(1, "append", value="00" * 64)]))
    assert description is None and len(exchange.sent) == 1


def test_exception_of_a_python_target_can_be_a_finding():
    message = fuzz.Message(SEND, only=[BTH.opcode])
    with pytest.raises(ValueError, match="crashed"):
        fuzz.MessageSession(Crashing(), [message], timeout=0).run(executions=400, progress=False)
    for crashes in (ValueError, (KeyError, ValueError), Exception):
        session = fuzz.MessageSession(Crashing(), [message], timeout=0, crashes=crashes, stop_at_first=True)
        session.run(executions=400, progress=False)
        assert [finding.description for finding in session.findings] == ["ValueError: crashed"]


@pytest.mark.parametrize("crashes", [BaseException, KeyboardInterrupt, (ValueError, SystemExit), 5, [ValueError()], "x"])
def test_crashes_must_be_exceptions(crashes):
    with pytest.raises(TypeError, match="crashes: expected subclasses of Exception"):
        fuzz.MessageSession(Crashing(), [SEND], crashes=crashes)


def test_list_of_crashes_is_accepted():
    message = fuzz.Message(SEND, only=[BTH.opcode])
    session = fuzz.MessageSession(Crashing(), [message], timeout=0, crashes=[KeyError, ValueError], stop_at_first=True)
    session.run(executions=400, progress=False)
    assert [finding.description for finding in session.findings] == ["ValueError: crashed"]


def test_message_that_cannot_be_sent_is_no_crash():
    a, b = wire_pair(max_bytes=100)
    with a, b, fuzz.MessageSession(a, [SEND], timeout=0, crashes=Exception) as session:
        session.run(executions=300, progress=False)
    assert session.findings == [] and session.statistics.skipped > 5


def test_endless_responses_are_described_without_an_exception():
    class Endless(Echo):
        def receive(self, timeout):
            return b"x"

    session = fuzz.MessageSession(Endless(), [b"abcd"], timeout=0, crashes=Exception, minimize=False)
    session.run(executions=1, progress=False)
    assert [finding.description for finding in session.findings] == ["more than 10000 messages in one execution"]


@pytest.mark.parametrize("monitor", ["function", "object", "probe"])
def test_error_of_a_monitor_is_no_finding(monitor):
    class Wrong(fuzz.Monitor):
        def after(self, exchange):
            return exchange.nosuch

    echo = Echo()
    monitors = {
        "function": lambda exchange: exchange.nosuch,
        "object": Wrong(),
        "probe": fuzz.Alive(echo, lambda: echo.nosuch),
    }
    session = fuzz.MessageSession(echo, [b"abcd"], monitors=[monitors[monitor]], timeout=0, crashes=Exception)
    with pytest.raises(AttributeError, match="nosuch"):
        session.run(executions=5, progress=False)
    assert session.findings == []


def test_crash_of_the_target_in_a_probe_is_a_finding():
    class Fragile(Echo):
        def send(self, data):
            if data == b"probe":
                raise ValueError("probe")

    for crashes in (ValueError, ()):
        target = Fragile()
        alive = fuzz.Alive(target, b"probe", timeout=0.01)
        session = fuzz.MessageSession(target, [b"abcd"], monitors=[alive], timeout=0, crashes=crashes, minimize=False)
        if crashes:
            session.run(executions=1, progress=False)
            assert [finding.kind for finding in session.findings] == ["alive: ValueError: probe"]
        else:
            with pytest.raises(ValueError, match="probe"):
                session.run(executions=1, progress=False)


@pytest.mark.parametrize("response", [5, "text", object()])
def test_wrong_type_of_a_response_is_no_finding(response):
    class Wrong(Echo):
        def receive(self, timeout):
            return response

    session = fuzz.MessageSession(Wrong(), [b"abcd"], timeout=0, crashes=Exception)
    with pytest.raises(TypeError):
        session.run(executions=1, progress=False)
    assert session.findings == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, ConnectionRefusedError])
def test_finding_is_kept_if_its_minimization_is_interrupted(tmp_path, error):
    class Dying(Echo):
        dead = False

        def reset(self):
            if self.dead:
                raise error("dead")
            super().reset()

        def send(self, data):
            self.dead = True
            raise ConnectionResetError("crashed")

    with fuzz.MessageSession(Dying(), [b"abcd"], directory=tmp_path, restarts=1) as session:
        with pytest.raises((KeyboardInterrupt, rdmawire.DeviceError)):
            session.run(executions=5, progress=False)
        (finding,) = session.findings
        assert (finding.description, finding.reproduced) == ("ConnectionResetError: crashed", False)
    assert (tmp_path / finding.directory / "case.json").exists()
    assert len(fuzz.status(tmp_path)["findings"]) == 1


def test_finding_with_an_incomplete_directory_is_found_again(tmp_path):
    options = {"monitors": [no_answer], "timeout": 0, "directory": tmp_path, "minimize": False}
    with fuzz.MessageSession(Echo(), [b"abcdef"], stop_at_first=True, **options) as session:
        session.run(executions=300, progress=False)
        (finding,) = session.findings
    (tmp_path / finding.directory / "finding.json").unlink()
    with fuzz.MessageSession(Echo(), [b"abcdef"], resume=True, **options) as session:
        assert session.findings == []
        session.run(executions=300, progress=False)
        assert finding.signature in {one.signature for one in session.findings}


def test_report_is_read_while_findings_change():
    import threading

    session = fuzz.MessageSession(Echo(), [b"abcdef"], monitors=[no_answer], timeout=0, max_trials=5)
    errors, ended = [], threading.Event()

    def read():
        while not ended.is_set():
            try:
                report = session.to_dict()
                assert sum(len(group["findings"]) for group in report["groups"]) == len(report["findings"])
                session.report()
            except Exception as error:  # noqa: BLE001
                errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=read)
    thread.start()
    try:
        session.run(executions=3000, progress=False)
    finally:
        sys.setswitchinterval(interval)
        ended.set()
        thread.join()
    assert errors == [] and session.findings


@pytest.mark.parametrize("corpus", [None, 5, {"a": 1}])
def test_invalid_corpus_is_reported(tmp_path, corpus):
    with fuzz.MessageSession(Echo(), [b"abcdef"], directory=tmp_path / "one", timeout=0) as one:
        one.run(executions=1, progress=False)
    path = tmp_path / "one" / "session.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "corpus": corpus}))
    with pytest.raises(UsageError, match="corpus must be a list"):
        fuzz.MessageSession(Echo(), [b"abcdef"], timeout=0).merge_corpus(tmp_path / "one")


def test_values_of_small_fields_are_sent_once_before_they_repeat():
    target = Crashing(opcode=None)
    message = fuzz.Message(SEND, only=[BTH.opcode])
    session = fuzz.MessageSession(target, [message], timeout=0, max_mutations=1)
    session.run(executions=255, progress=False)
    assert sorted(target.opcodes) == sorted(set(range(256)) - {SEND[BTH].opcode})


def test_conversations_get_all_values_of_small_fields():
    sent = {"a": set(), "b": set()}

    def keep(exchange):
        sent[exchange.conversation] |= {parse(data)[BTH].opcode for data in exchange.sent}

    message = fuzz.Message(SEND, only=[BTH.opcode])
    session = fuzz.MessageSession(
        Crashing(opcode=None), {"a": [message], "b": [message]}, monitors=[keep], timeout=0, max_mutations=1
    )
    session.run(executions=800, progress=False)
    assert [len(one) for one in sent.values()] == [255, 255]


def test_interrupted_execution_is_repeated_with_its_value():
    class Interrupted(Crashing):
        def send(self, data):
            super().send(data)
            if len(self.opcodes) == 5:
                raise KeyboardInterrupt

    target = Interrupted(opcode=None)
    session = fuzz.MessageSession(target, [fuzz.Message(SEND, only=[BTH.opcode])], timeout=0, max_mutations=1)
    with pytest.raises(KeyboardInterrupt):
        session.run(executions=20, progress=False)
    session.run(executions=20, progress=False)
    assert target.opcodes[4] == target.opcodes[5]
    assert len(set(target.opcodes)) == len(target.opcodes) - 1


def test_enumeration_continues_after_resumption(tmp_path):
    message = fuzz.Message(SEND, only=[BTH.opcode])
    whole = Crashing(opcode=None)
    fuzz.MessageSession(whole, [message], timeout=0, seed=3).run(executions=200, progress=False)
    parts = Crashing(opcode=None)
    for resume in (False, True):
        with fuzz.MessageSession(
            parts, [message], timeout=0, seed=None if resume else 3, directory=tmp_path, resume=resume
        ) as session:
            session.run(executions=100, progress=False)
    assert parts.opcodes == whole.opcodes


def test_case_of_the_corpus_is_always_mutated():
    target = Crashing(opcode=None)
    session = fuzz.MessageSession(target, [fuzz.Message(SEND, only=["bth.tver"])], timeout=0, max_mutations=1)
    session.run(executions=60, progress=False)
    assert session.statistics.corpus >= 1
    sent = {bytes(case.to_json(), "ascii") for case in session.corpus}
    assert sent and len(target.opcodes) == 60


def test_own_header_is_mutated():
    Own = rdmawire.define_header(
        "Mutated", [rdmawire.HeaderField("kind", 8), rdmawire.HeaderField("rest", 8)], after=UDP(dst_port=7001)
    )
    frame = Ether() / IPv4() / UDP() / Own(kind=1, rest=9) / b"x"
    for only in ("mutated.kind", Own.kind, [Own.kind]):
        kinds = [one[Own].kind for one in fuzz.mutated_frames(frame, 20, only=only)]
        assert len(set(kinds)) == 20
        assert {one[Own].rest for one in fuzz.mutated_frames(frame, 20, only=only)} == {9}
    assert len(list(fuzz.mutated_frames(frame, 20, only=Own))) == 20
    with pytest.raises(UsageError, match="mutated has no field 'kin'.*did you mean kind"):
        fuzz.mutated_frames(frame, 1, only="mutated.kin")


def test_report_files_of_a_session(tmp_path):
    with fuzz.MessageSession(Echo(), [b"abcdef"], monitors=[no_answer], directory=tmp_path, timeout=0) as session:
        session.run(executions=300, progress=False)
        report = session.to_dict()
    saved = json.loads((tmp_path / "report.json").read_text())
    assert saved == json.loads(json.dumps(report)) and not saved["running"]
    assert saved["statistics"]["executions"] == 300 and saved["target"] == "Echo"
    assert len(saved["findings"]) == len(session.findings) >= 1
    assert sorted(index for group in saved["groups"] for index in group["findings"]) == list(range(len(saved["findings"])))
    assert fuzz.status(tmp_path)["findings"] == saved["findings"]
    assert (tmp_path / "report.txt").read_text() == session.report()
    assert "Fuzzing Echo" in (tmp_path / "index.html").read_text()
    other = session.write(tmp_path / "other")
    assert json.loads((other / "report.json").read_text()) == saved


def test_status_of_a_running_session(tmp_path):
    session = fuzz.MessageSession(Echo(), [b"abcdef"], directory=tmp_path, timeout=0)
    seen = []

    def look(exchange):
        if (tmp_path / "report.json").exists() and not seen:
            seen.append(fuzz.status(tmp_path))
        return None

    session._monitors.append(fuzz.messages._FunctionMonitor(look))
    session.run(seconds=3, progress=False)
    assert seen and seen[0]["running"] and not fuzz.status(tmp_path)["running"]


def test_corpora_of_own_sessions_are_merged_and_minimized(tmp_path):
    for seed in (1, 2):
        with fuzz.MessageSession(Echo(), [b"abcdef"], directory=tmp_path / f"job-{seed}", seed=seed, timeout=0) as one:
            one.run(executions=200, progress=False)
            assert one.statistics.corpus > 5
    with fuzz.MessageSession(Echo(), [b"abcdef"], directory=tmp_path / "all", timeout=0) as session:
        before, after = session.merge_corpus(tmp_path)
        assert before == 0 and after > 5
        assert session.merge_corpus(tmp_path / "job-1") == (after, after)
        edges = session.statistics.edges
        session._corpus += session._corpus[:3]
        assert session.minimize_corpus() == (after + 3, after)
        assert session.statistics.edges == edges and session.statistics.corpus == after
    with fuzz.MessageSession(Echo(), [b"abcdef"], directory=tmp_path / "all", timeout=0, resume=True) as resumed:
        assert len(resumed.corpus) == after
    with fuzz.MessageSession(Echo(), [b"x", b"y"], timeout=0) as other, pytest.raises(UsageError, match="other messages"):
        other.merge_corpus(tmp_path)
    with pytest.raises(UsageError, match="contains no session"):
        session.merge_corpus(tmp_path / "job-1" / "findings")
