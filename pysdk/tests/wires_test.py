"""Wires: delivery, waiting threads and tasks, and close, fork and interrupt during a wait."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import rdmawire
from rdmawire import BTH, Ether, IPv4, UDP, UsageError, WireError, open_wire, wire_pair


def frame(number: int = 0):
    return Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01") / IPv4() / UDP() / BTH(psn=number) / b"data"


def test_frames_bytes_and_lists_arrive_in_order():
    a, b = wire_pair()
    with a, b:
        assert a.send(frame(1)) == 1
        assert a.send(bytes(frame(2))) == 1
        assert a.send([frame(3), bytearray(bytes(frame(4))), memoryview(bytes(frame(5)))]) == 3
        assert a.send(frame(n) for n in (6, 7)) == 2
        assert [b.receive(timeout=1)[BTH].psn for _ in range(7)] == [1, 2, 3, 4, 5, 6, 7]
        assert b.receive(timeout=0) is None
        assert (a.counters.sent, b.counters.received) == (7, 7)


def test_send_time_and_receive_time():
    a, b = wire_pair()
    with a, b:
        at = a.now() + 50_000_000
        a.send(frame(), at=at)
        assert b.receive(timeout=0) is None
        received = b.receive(timeout=1)
        assert received.time_ns >= at
        assert b.now() >= at


def test_receive_timeout():
    a, b = wire_pair()
    with a, b:
        started = time.monotonic()
        assert b.receive(timeout=0.15) is None
        assert 0.14 <= time.monotonic() - started < 30


def test_other_threads_run_and_send_during_receive():
    a, b = wire_pair()
    with a, b:
        received = []
        thread = threading.Thread(target=lambda: received.append(b.receive(timeout=5)))
        thread.start()
        count = 0
        until = time.monotonic() + 0.05
        while time.monotonic() < until:
            count += 1
        assert count > 100  # receive() releases the GIL
        b.send(frame(9))
        a.send(frame(8))
        thread.join()
        assert received[0][BTH].psn == 8
        assert a.receive(timeout=1)[BTH].psn == 9


def test_threads_share_a_wire():
    a, b = wire_pair(frames=4096)
    with a, b:
        def send(base):
            for n in range(200):
                a.send(frame(base + n))

        senders = [threading.Thread(target=send, args=(1000 * i,)) for i in range(4)]
        seen, lock = [], threading.Lock()

        def receive():
            while (received := b.receive(timeout=0.5)) is not None:
                with lock:
                    seen.append(received[BTH].psn)

        receivers = [threading.Thread(target=receive) for _ in range(3)]
        for thread in senders + receivers:
            thread.start()
        for thread in senders + receivers:
            thread.join()
        assert sorted(seen) == sorted(1000 * i + n for i in range(4) for n in range(200))


def test_close_ends_a_waiting_thread():
    a, b = wire_pair()
    errors = []

    def wait():
        try:
            b.receive(timeout=None)
        except rdmawire.ClosedError as error:
            errors.append(str(error))

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.05)
    b.close()
    thread.join(5)
    assert not thread.is_alive()
    assert "pair:b" in errors[0]
    a.close()


def test_use_after_close_raises_closed_error():
    a, b = wire_pair()
    a.close()
    a.close()
    assert a.closed
    for use in (lambda: a.send(frame()), lambda: a.receive(0), a.now, lambda: a.counters, a.flush, lambda: a.fileno()):
        with pytest.raises(rdmawire.ClosedError, match="was closed"):
            use()
    with pytest.raises(WireError) as down:
        b.receive(timeout=1)
    assert down.value.kind == "down"
    b.close()


@pytest.mark.parametrize(
    ("name", "kind"),
    [("nonsense", "specification"), ("packet:no-such-interface", "missing"), ("unix:x,bogus", "specification")],
)
def test_open_failure_has_kind_and_errno(name, kind):
    with pytest.raises(WireError) as error:
        open_wire(name)
    assert error.value.kind == kind
    assert isinstance(error.value.errno, int)
    assert name.split(",")[0] in str(error.value)


def test_invalid_arguments_are_rejected():
    a, b = wire_pair()
    with a, b:
        for wrong in (5, None, "text", [1, 2], [frame(), "text"], object()):
            with pytest.raises(TypeError):
                a.send(wrong)
        with pytest.raises(WireError) as short:
            a.send(b"abc")
        assert short.value.kind == "frame"
        for wrong in ("soon", object()):
            with pytest.raises(TypeError):
                b.receive(timeout=wrong)
        with pytest.raises(UsageError):
            b.receive(timeout=float("nan"))
        with pytest.raises(TypeError):
            b.sniff(filter=5)
        with pytest.raises(UsageError, match="bth.opcod"):
            b.sniff(filter="bth.opcod == 4")
        with pytest.raises(TypeError):
            open_wire(5)
        assert b.receive(0) is None  # no invalid frame was sent


def test_full_queue_blocks_until_the_timeout():
    a, b = wire_pair(frames=2)
    with a, b:
        with pytest.raises(WireError) as full:
            a.send([frame(n) for n in range(5)], timeout=0.05)
        assert full.value.kind == "full"
        assert "2 frames were sent before" in str(full.value)
        timer = threading.Timer(0.1, lambda: [b.receive() for _ in range(2)])
        timer.start()
        assert a.send([frame(7), frame(8)], timeout=5) == 2
        timer.join()


def test_sniff_count_filter_and_timeout():
    a, b = wire_pair()
    with a, b:
        a.send([frame(n) for n in range(10)])
        assert [f[BTH].psn for f in b.sniff(count=2, filter="bth.psn > 4", timeout=1)] == [5, 6]
        assert [f[BTH].psn for f in b.sniff(timeout=0.05, filter=lambda f: f[BTH].psn != 8)] == [7, 9]


def test_filter_exception_reaches_the_caller():
    a, b = wire_pair()
    with a, b:
        a.send(frame())
        with pytest.raises(ZeroDivisionError):
            next(b.sniff(timeout=1, filter=lambda f: 1 / 0))


def test_file_wire_has_virtual_time(tmp_path):
    path = tmp_path / "x.pcapng"
    with open_wire(f"file:{path}") as out:
        out.send([frame(1), frame(2)], at=1_000)
        out.flush()
    with open_wire(f"file:{path},read") as back:
        assert back.capabilities.virtual_time
        assert [f[BTH].psn for f in back] == [1, 2]


def test_unix_wire_connects_two_processes(tmp_path):
    path = tmp_path / "wire"
    program = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "import rdmawire\n"
        f"with rdmawire.open_wire('unix:{path}.peer,local={path}') as wire:\n"
        "    print('ready', flush=True)\n"
        "    wire.send(bytes(wire.receive(timeout=20)))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "ready\n"
        with open_wire(f"unix:{path}") as wire:
            wire.send(frame(77))
            assert wire.receive(timeout=20)[BTH].psn == 77
        assert other.wait(20) == 0


def test_ctrl_c_interrupts_receive():
    program = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "import rdmawire\n"
        "a, b = rdmawire.wire_pair()\n"
        "print('ready', flush=True)\n"
        "try:\n    b.receive(timeout=None)\n"
        "except KeyboardInterrupt:\n    print('interrupted', flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=120)[0] == "interrupted\n"
        assert process.returncode == 0


def test_forked_child_cannot_use_the_parents_wire():
    a, b = wire_pair()
    with a, b:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                a.send(frame())
            except rdmawire.ClosedError as error:
                status = 0 if "fork" in str(error) else 2
            del a, b
            gc.collect()
            os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        a.send(frame(3))
        assert b.receive(timeout=1)[BTH].psn == 3


def test_unclosed_wires_do_not_leak_descriptors():
    def once():
        a, b = wire_pair()
        a.send(frame())
        b.receive(timeout=1)
        del a, b

    once()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        once()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_frame_with_another_link_type_is_refused(tmp_path):
    ip = IPv4(src="192.0.2.1", dst="192.0.2.2") / UDP() / BTH() / b"data"
    a, b = wire_pair()
    with a, b, pytest.raises(UsageError, match=r"pair:a: send: the frame has link type raw_ip, the wire sends ethernet; "
                             r"start the frame with Ether\(\) /"):  # fmt: skip
        a.send([Ether() / ip, ip])
    with a, b, pytest.raises(rdmawire.ClosedError):
        b.receive(0)
    for link in ("raw_ip", "ipv4"):
        with open_wire(f"file:{tmp_path}/{link}.pcap,link={link}") as out:
            out.send(ip)
            with pytest.raises(UsageError, match=f"has link type ethernet, the wire sends {link}"):
                out.send(Ether() / ip)


def test_recorded_time_of_a_sent_frame_precedes_its_arrival(tmp_path):
    a, b = wire_pair()
    with a, b:
        a.record()
        for number in range(50):
            a.send(frame(number))
            received = b.receive()
            sent = a._core.recorded()[-1][0]
            assert sent <= received.time_ns


def test_saved_response_follows_its_request(tmp_path):
    a, b = wire_pair()

    def respond():
        for received in b.sniff(timeout=5, count=500):
            b.send(frame(received[BTH].psn + 1_000_000))

    with a, b:
        a.record()
        responder = threading.Thread(target=respond)
        responder.start()
        for number in range(500):
            a.send(frame(number))
            a.expect(f"bth.psn == {number + 1_000_000}", timeout=5)
        responder.join()
        assert a.save(tmp_path / "x.pcapng") == 1000
    frames = list(rdmawire.open_capture(tmp_path / "x.pcapng"))
    assert [f.comments[0] for f in frames] == ["sent", "received"] * 500
    assert [f[BTH].psn for f in frames] == [n for pair in ((i, i + 1_000_000) for i in range(500)) for n in pair]


def test_timeout_of_a_read_file_starts_at_its_first_frame(tmp_path):
    path = tmp_path / "x.pcapng"
    start = 1_700_000_000_000_000_000
    with rdmawire.create_capture(path) as out:
        for number in range(10):
            out.write(frame(number), time_ns=start + number * 10**9)
    with open_wire(f"file:{path},read") as wire:
        assert wire.now() == start
        assert [f[BTH].psn for f in wire.sniff(timeout=4.5)] == [0, 1, 2, 3, 4]
        assert wire.receive(timeout=0.1) is None
        assert wire.receive()[BTH].psn == 5
        assert wire.expect(BTH, timeout=1)[BTH].psn == 6
        assert len(list(wire.sniff())) == 3


# asyncio


def test_tasks_receive_concurrently():
    async def exchange():
        a, b = wire_pair()
        async with a, b:
            waits = [asyncio.create_task(b.areceive(timeout=5)) for _ in range(3)]
            await asyncio.sleep(0.05)
            assert not any(task.done() for task in waits)
            await a.asend([frame(n) for n in range(3)])
            return sorted(f[BTH].psn for f in await asyncio.gather(*waits))

    assert asyncio.run(exchange()) == [0, 1, 2]


def test_async_iteration_and_timeout():
    async def exchange():
        a, b = wire_pair()
        async with a, b:
            assert await b.areceive(timeout=0.05) is None
            await a.asend([frame(n) for n in range(4)])
            seen = []
            async for received in b:
                seen.append(received[BTH].psn)
                if len(seen) == 4:
                    return seen

    assert asyncio.run(exchange()) == [0, 1, 2, 3]


def test_canceled_receive_does_not_consume_a_frame():
    async def exchange():
        a, b = wire_pair()
        async with a, b:
            waits = asyncio.create_task(b.areceive(timeout=None))
            await asyncio.sleep(0.02)
            waits.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waits
            await a.asend(frame(5))
            return (await b.areceive(timeout=1))[BTH].psn

    assert asyncio.run(exchange()) == 5


def test_close_ends_a_waiting_task():
    async def exchange():
        a, b = wire_pair()
        waits = asyncio.create_task(b.areceive(timeout=None))
        await asyncio.sleep(0.02)
        b.close()
        with pytest.raises(rdmawire.ClosedError):
            await waits
        a.close()

    asyncio.run(exchange())


def test_areceive_without_descriptor_does_not_block_the_loop():
    async def exchange():
        with open_wire("null") as wire:
            started = time.monotonic()
            ticks = 0

            async def tick():
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0.01)

            task = asyncio.create_task(tick())
            assert await wire.areceive(timeout=0.2) is None
            task.cancel()
            assert time.monotonic() - started >= 0.19
            assert ticks > 3

    asyncio.run(exchange())


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces require root")
def test_packet_wire_over_veth():
    # Runs in a separate namespace, without other traffic.
    program = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "import rdmawire\n"
        "from rdmawire import BTH, Ether, IPv4, UDP\n"
        "with rdmawire.open_wire('packet:left') as left, rdmawire.open_wire('packet:right') as right:\n"
        "    sent = Ether(dst='02:00:00:00:00:02', src='02:00:00:00:00:01') / IPv4() / UDP() / BTH(psn=42) / b'data'\n"
        "    left.send(sent)\n"
        "    received = next(right.sniff(count=1, timeout=5, filter='bth.psn == 42'))\n"
        "    print(bytes(received) == bytes(sent), left.flush(), left.counters.sent)\n"
    )
    script = (
        "ip link add left type veth peer name right && ip link set left up && ip link set right up && "
        f'exec {sys.executable} -c "$PROGRAM"'
    )
    done = subprocess.run(
        ["unshare", "-n", "sh", "-c", script],
        env=os.environ | {"PROGRAM": program},
        capture_output=True,
        text=True,
        timeout=60,
    )
    if "Operation not permitted" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.stdout == "True True 1\n", done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces require root")
@pytest.mark.parametrize("options", ["", ",incoming", ",noreceive", ",bypass"])
def test_packet_wire_records_sent_and_received_frames_once(tmp_path, options):
    program = (
        f"import contextlib, sys\nsys.path[:0] = {sys.path!r}\n"
        "import rdmawire\n"
        "from rdmawire import BTH, Ether, IPv4, UDP\n"
        "def frame(psn): return Ether() / IPv4() / UDP() / BTH(psn=psn) / b'data'\n"
        f"with rdmawire.open_wire('packet:left{options}') as left, rdmawire.open_wire('packet:right') as right, \\\n"
        "        rdmawire.open_wire('packet:left') as other:\n"
        "    left.record()\n"
        "    left.send([frame(psn) for psn in range(3)])\n"
        "    assert len(list(right.sniff(count=3, timeout=5, filter='bth'))) == 3\n"
        "    other.send(frame(9))\n"
        "    right.send(frame(100))\n"
        "    assert len(list(other.sniff(count=1, timeout=5, filter='bth.psn == 100'))) == 1\n"
        "    with contextlib.suppress(rdmawire.WireError):  # noreceive\n"
        "        while left.receive(0.3): pass\n"
        f"    left.save({str(tmp_path / 'x.pcapng')!r})\n"
    )
    script = (
        "ip link add left type veth peer name right && ip link set left up && ip link set right up && "
        f'exec {sys.executable} -c "$PROGRAM"'
    )
    done = subprocess.run(
        ["unshare", "-n", "sh", "-c", script], env=os.environ | {"PROGRAM": program}, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    if "Operation not permitted" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    recorded = [
        (frame[BTH].psn, *frame.comments) for frame in rdmawire.open_capture(tmp_path / "x.pcapng") if BTH in frame
    ]
    expected = [(0, "sent"), (1, "sent"), (2, "sent")]
    if options in ("", ",bypass"):
        expected.append((9, "sent"))  # a frame that another socket of this host sent
    if options != ",noreceive":
        expected.append((100, "received"))
    assert recorded == expected
