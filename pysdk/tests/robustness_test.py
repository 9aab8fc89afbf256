"""Round trips of every captured frame, random bytes, leaks, threads, fork and object lifetimes."""

import copy
import gc
import os
import pickle
import random
import resource
import sys
import threading
import warnings

import pytest
import rdmawire
import sample_frames
from rdmawire import BTH, HEADERS, Frame, Header, UDP, Ether, IPv4, Opcode, parse, header_table

NAMES = vars(rdmawire)


def read_everything(frame):
    """Call every accessor of a frame."""
    frame.show(dump=True), frame.hexdump(dump=True), frame.summary(), frame.to_dict(), repr(frame), frame.findings
    for layer in frame.layers:
        repr(layer), bytes(layer)
        for field in header_table(type(layer)).fields:
            getattr(layer, field.attribute)
    return (frame.payload, frame.pad, frame.trailer, frame.icrc, frame.vcrc, frame.mpa_crc, frame.icrc_status,
            frame.vcrc_status, frame.mpa_crc_status, frame.wire, frame.wire_length)  # fmt: skip


@pytest.mark.parametrize("name", sample_frames.FILES)
def test_captured_frames_round_trip(name):
    every = 1 if os.environ.get("RDMAWIRE_FULL") else 25
    for data, link, wire_length in sample_frames.frames(name)[::every]:
        frame = parse(data, link, wire_length=wire_length)
        read_everything(frame)
        assert bytes(frame) == data
        command = frame.command()
        assert bytes(eval(command, NAMES)) == data, command
        assert pickle.loads(pickle.dumps(frame)) == frame
        # Setting each field to its own value must keep the bytes.
        opened = frame.copy()
        for layer in opened.layers:
            for field in header_table(type(layer)).fields:
                if not field.read_only and getattr(layer, field.attribute) is not None:
                    setattr(layer, field.attribute, getattr(layer, field.attribute))
        assert bytes(opened) == data
        assert opened.payload == frame.payload and opened.icrc == frame.icrc and opened.trailer == frame.trailer
        if frame.icrc_status == "good":
            assert bytes(opened.recompute()) == data or not rdmawire_can_recompute(frame)


def rdmawire_can_recompute(frame):
    """Return whether recomputation yields the sender's bytes: a zero checksum or another pad size is valid too."""
    return not (UDP in frame and frame[UDP].checksum) and not frame.trailer


def test_random_bytes_round_trip():
    rng = random.Random(2026)
    seeds = [data for data, link, _ in sample_frames.all_frames() if link == 1][::40]
    links = ["ethernet", "infiniband", "raw_ip", "linux_sll", "linux_sll2", "erf", "null_loopback", "fpdu", "mpa", "bth", 147]
    for i in range(6000 if os.environ.get("RDMAWIRE_FULL") else 1500):
        data = bytearray(rng.choice(seeds)) if i % 3 else bytearray(rng.randbytes(rng.randrange(200)))
        for _ in range(rng.randrange(6)):
            if data:
                data[rng.randrange(min(len(data), 80))] = rng.getrandbits(8)
        if i % 5 == 0:
            data = data[: rng.randrange(len(data) + 1)]
        frame = parse(data, rng.choice(links) if i % 2 else "ethernet")
        read_everything(frame)
        assert bytes(frame) == data
        assert bytes(eval(frame.command(), NAMES)) == data
        for layer in frame.layers:
            field = rng.choice(header_table(type(layer)).fields)
            if not field.read_only and field.form == "number":
                setattr(layer, field.attribute, rng.getrandbits(field.width))
            delattr(layer, rng.choice(header_table(type(layer)).fields).attribute)
        read_everything(frame)
        read_everything(frame.recompute())
        assert bytes(eval(frame.command(), NAMES)) == bytes(frame)


def test_headers_in_every_order():
    rng = random.Random(7)
    for i in range(2000):
        frame = Frame()
        for _ in range(rng.randrange(1, 9)):
            frame /= rng.choice(HEADERS)()
            if rng.random() < 0.1:
                frame /= rng.randbytes(rng.randrange(20))
        read_everything(frame)
        assert bytes(eval(frame.command(), NAMES)) == bytes(frame)


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.__name__)
def test_every_field_of_every_header(header):
    rng = random.Random(header.__name__)
    made = header()
    for field in header_table(header).fields:
        assert getattr(header, field.attribute).__doc__
        if field.read_only:
            with pytest.raises(AttributeError, match="is derived from"):
                setattr(made, field.attribute, 1)
            continue
        data = rng.randbytes((field.width + 7) // 8)
        value = int.from_bytes(data) >> (-field.width % 8) if field.form == "number" else data
        setattr(made, field.attribute, value)
        got = getattr(made, field.attribute)
        if got is None:
            assert field.conditional
        elif field.form == "number":
            assert got == value
            with pytest.raises(rdmawire.UsageError, match="does not fit"):
                setattr(made, field.attribute, 1 << field.width)
        else:
            setattr(made, field.attribute, got)  # the user's spelling
            assert getattr(made, field.attribute) == got
        for wrong in (None, 1.5, object()):
            with pytest.raises(TypeError, match=field.name.replace(".", r"\.")):
                setattr(made, field.attribute, wrong)
        assert not hasattr(Header, field.attribute)
    if header_table(header).tail:
        setattr(made, header_table(header).tail, b"tail")
        assert getattr(made, header_table(header).tail)[:4] == b"tail"
    for copied in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made)), eval(repr(made), NAMES)):
        assert copied == made and copied is not made


def use_frames():
    frame = Ether() / IPv4(dst="10.0.0.2") / UDP() / BTH(opcode=Opcode.RC_SEND_ONLY, psn=5) / b"data"
    read_everything(frame)
    parsed = parse(bytes(frame), time_ns=5)
    read_everything(parsed)
    parsed[BTH].psn = 6
    del parsed.icrc
    read_everything(parsed)
    for wrong in (lambda: setattr(parsed[BTH], "psn", 1 << 24), lambda: parsed[rdmawire.AETH], lambda: BTH(number=1),
                  lambda: parse(b"", strict=True), lambda: IPv4(dst="nowhere")):  # fmt: skip
        try:
            wrong()
        except (rdmawire.Error, IndexError, TypeError):
            pass
    pickle.loads(pickle.dumps(parsed)), copy.copy(frame), frame.command(), frame == parsed, memoryview(parsed)[3]
    rdmawire.segment(frame, 256)


def test_repeated_use_does_not_leak():
    for _ in range(100):
        use_frames()
    gc.collect()
    objects, blocks = len(gc.get_objects()), sys.getallocatedblocks()
    references = [sys.getrefcount(thing) for thing in (BTH, Frame, Opcode.RC_SEND_ONLY, None)]
    for _ in range(1000):
        use_frames()
    gc.collect()
    # A leak in each iteration would leave 1,000 objects.
    assert abs(len(gc.get_objects()) - objects) < 100
    assert sys.getallocatedblocks() - blocks < 500
    after = [sys.getrefcount(thing) for thing in (BTH, Frame, Opcode.RC_SEND_ONLY, None)]
    assert all(b - a < 100 for a, b in zip(references, after, strict=True))
    # The interpreter does not count memory from malloc.
    high = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(1000):
        use_frames()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - high < 4096  # KiB


def test_bytes_and_headers_remain_valid_without_the_frame():
    frame = parse(sample_frames.frames("rping.pcap")[0][0])
    data, view, header, layers = bytes(frame), memoryview(frame), frame[0], frame.layers
    frame[0].dst = "00:00:00:00:00:09"
    assert bytes(view) == data  # the view is a snapshot
    del frame
    gc.collect()
    assert header.dst == "00:00:00:00:00:09" and layers[0] == header and bytes(view) == data


def test_threads_share_a_frame():
    errors = []

    def run():
        try:
            for _ in range(100):
                use_frames()
        except BaseException as error:
            errors.append(error)

    shared = parse(sample_frames.frames("rc-write-ipv6.pcap")[40][0])

    def change():
        try:
            for i in range(500):
                shared[0].dst = i
                read_everything(shared)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=target) for target in (run, run, change, change)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_frame_works_in_forked_child():
    frame = parse(sample_frames.frames("rc-write-ipv6.pcap")[40][0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            use_frames()
            frame[0].dst = 5
            os._exit(0 if frame[0].dst == "00:00:00:00:00:05" else 1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    read_everything(frame)


def test_value_that_changes_the_frame_during_assignment():
    """`__index__` of the value runs during the assignment and changes the frame."""
    frame = parse(sample_frames.frames("rc-write-ipv6.pcap")[40][0])

    class ChangesFrame:
        def __index__(self):
            frame.payload = b"other"
            frame[0].src = 7
            return 3

    frame[BTH].psn = ChangesFrame()
    assert frame[BTH].psn == 3 and frame[0].src == "00:00:00:00:00:07" and frame.payload == b"other"
