"""Headers that a program defines."""

import ipaddress

import pytest
import rdmawire
from rdmawire import BTH, TCP, UDP, Ether, HeaderField, ImmDt, IPv4, Opcode, UsageError, define_header, parse, undefine_header, user_headers


def define_all():
    Stored = define_header(
        "Stored",
        [
            HeaderField("op", 8, "Operation", values={1: "PUT", 2: "GET"}),
            HeaderField("urgent", 1, kind="flag"),
            HeaderField("id", 15, "Number of the request", kind="hex"),
            HeaderField("owner", 32, kind="ipv4"),
            HeaderField("key_length", 8, counts="tail"),
            HeaderField("size", 16, counts="payload"),
            HeaderField("cookie", 16, little_endian=True),
        ],
        tail="key",
        after=[BTH(opcode="RC_SEND_ONLY"), BTH(opcode="RC_SEND_ONLY_WITH_IMMEDIATE")],
        title="Stored request",
    )
    Lock = define_header("Lock", [HeaderField("action", 8), HeaderField("next", 8)], after=UDP(dst_port=7777))
    Detail = define_header("Detail", [HeaderField("name", 64, kind="text"), HeaderField("raw", 72, kind="bytes")], after=Lock(next=3))
    return Stored, Lock, Detail


def undefine_all():
    for _, header in user_headers._defined.values():
        undefine_header(header)


Stored, Lock, Detail = define_all()
undefine_all()  # other test modules run in this process


@pytest.fixture(autouse=True)
def defined():
    assert define_all() == (Stored, Lock, Detail)
    yield
    undefine_all()


START = Ether() / IPv4() / UDP()


def put(**fields):
    return START / BTH(opcode="RC_SEND_ONLY") / Stored(op="PUT", id=7, owner="10.0.0.9", key=b"alpha", **fields) / b"data"


def test_build_and_decode():
    frame = parse(bytes(put(cookie=0x1234)))
    assert [type(layer).__name__ for layer in frame.layers] == ["Ether", "IPv4", "UDP", "BTH", "Stored"]
    header = frame[Stored]
    assert bytes(header) == b"\x01\x00\x07\x0a\x00\x00\x09\x05\x00\x04\x34\x12alpha"
    assert (header.op.name, header.urgent, header.id, header.owner) == ("PUT", 0, 7, "10.0.0.9")
    assert (header.key_length, header.size, header.key, frame.payload) == (5, 4, b"alpha", b"data")
    assert frame.icrc_status == "good" and frame.findings == () and Stored in frame and frame.get(Lock) is None


def test_changes_recompute_lengths_and_icrc():
    frame = parse(bytes(put())).recompute()
    frame[Stored].key, frame.payload = b"a longer key", b"more than before"
    assert (frame[Stored].key_length, frame[Stored].size, frame.icrc_status) == (12, 16, "good")
    again = parse(bytes(frame))
    assert again[Stored].key == b"a longer key" and again.payload == b"more than before"
    frame[Stored].key_length = 3  # invalid values are encoded as they are
    assert parse(bytes(frame))[Stored].key == b"a l"


def test_extension_headers_precede_it():
    frame = START / BTH(opcode="RC_SEND_ONLY_WITH_IMMEDIATE") / ImmDt(data=1) / Stored(op=2, key=b"k")
    assert parse(bytes(frame))[Stored].key == b"k"
    assert Stored not in parse(bytes(START / BTH(opcode="RC_SEND_FIRST") / Stored(op=2, key=b"k")))


def test_header_sets_the_selecting_field_and_headers_follow_each_other():
    frame = START / Lock() / Detail(name="abc", raw=bytes(range(9))) / b"rest"
    assert (frame[UDP].dst_port, frame[Lock].next) == (7777, 3)
    again = parse(bytes(frame))
    assert again[Detail].name == "abc" and again[Detail].raw == bytes(range(9)) and again.payload == b"rest"
    assert again == frame and eval(again.command()) == frame


def test_command_and_repr_create_the_same_header():
    frame = parse(bytes(put()))
    assert eval(frame.command()) == frame and "op='PUT'" in frame.command()
    assert eval(repr(frame[Stored])) == frame[Stored]


def test_show_summary_and_json():
    frame = put()
    text = frame.show(dump=True)
    assert "stored  Stored request  17 bytes" in text and "Number of the request" in text and "PUT" in text
    assert "alpha" in frame.hexdump(dump=True)
    assert "data" in frame.summary() or "SEND" in frame.summary()
    fields = frame.to_dict()["layers"][-1]["fields"]
    assert (fields["op"], fields["op_name"], fields["owner"]) == (1, "PUT", "10.0.0.9")


@pytest.fixture
def capture(tmp_path):
    path = tmp_path / "x.pcapng"
    with rdmawire.create_capture(path) as out:
        for number in range(10):
            out.write(START / BTH(opcode="RC_SEND_ONLY", psn=number) / Stored(op=1 + number % 2, id=number, key=b"k" * number))
        out.write(START / Lock(action=9) / b"x")
    with rdmawire.open_capture(path) as opened:
        yield opened


def test_filters(capture):
    def numbers(filter):
        return [frame.number for frame in capture.frames(filter=filter)]

    assert numbers("stored") == list(range(1, 11)) and numbers("lock.action == 9") == [11]
    assert numbers("stored.id > 6") == [8, 9, 10]
    assert numbers("stored.op == get and stored.key_length < 4") == [2, 4]
    assert len(list(capture.packets(filter="stored.id == 3"))) == 1
    with pytest.raises(UsageError, match=r"stored\.idd"):
        numbers("stored.idd == 1")
    a, b = rdmawire.wire_pair()
    with a, b:
        a.send([frame for frame in capture])
        assert [f[Stored].id for f in b.sniff(timeout=1, count=2, filter="stored.op == put")] == [0, 2]
        assert b.expect(Lock)[Lock].action == 9


def test_columns(capture):
    columns = capture.columns(["stored.id", "stored.op_name", "lock.action"], filter="stored")
    assert columns["stored.id"].tolist() == list(range(10))
    assert [str(name) for name in columns["stored.op_name"][:3]] == ["PUT", "GET", "PUT"]
    assert capture.columns(["lock.action"], filter="lock")["lock.action"].tolist() == [9]


def test_packets_and_counts(capture):
    packet = next(capture.packets(filter="stored.id == 3"))
    assert packet.frame[Stored].id == 3 and "stored" in packet.show(dump=True)
    assert capture.counts(filter="stored")["packets"] == 10


def test_analysis_counts_it_as_payload(capture):
    report = rdmawire.analyze(capture, progress=False)
    assert report.summary.packets == 11
    assert max(message["size"] for message in report.messages) == 12 + 9


def test_truncated_header_is_a_finding():
    data = bytes(put())
    frame = parse(data[: 14 + 20 + 8 + 12 + 5], wire_length=len(data))
    assert Stored not in frame and "stored" in str(frame.findings[-1])


def test_equal_definition_returns_the_same_class():
    again = define_header("Lock", [HeaderField("action", 8), HeaderField("next", 8)], after=UDP(dst_port=7777))
    assert again is Lock
    with pytest.raises(UsageError, match="header lock: the name is in use"):
        define_header("Lock", [HeaderField("action", 16)], after=UDP(dst_port=7777))


def test_undefined_header_is_payload():
    frame = parse(bytes(put()))
    assert Stored in frame
    undefine_header(Stored)
    assert Stored not in parse(bytes(frame)) and Stored in put()
    define_all()
    assert Stored in parse(bytes(frame))
    with pytest.raises(TypeError, match="that define_header"):
        undefine_header(BTH)


def test_own_header_after_tcp():
    Text = define_header("Text", [HeaderField("kind", 8), HeaderField("length", 8, counts="tail")], tail="text", after=TCP(dst_port=99))
    frame = parse(bytes(Ether() / IPv4() / TCP(dst_port=99) / Text(kind=1, text=b"hi") / b"!"))
    assert frame[Text].text == b"hi" and frame.payload == b"!"


FIELD = [HeaderField("x", 8)]
WRONG = {
    lambda: define_header("X y", FIELD, after=UDP(dst_port=1)): "expected the name of a class",
    lambda: define_header("Bth", FIELD, after=UDP(dst_port=1)): "header bth: the name is in use",
    lambda: define_header("Frame", FIELD, after=UDP(dst_port=1)): "in use|expected",
    lambda: define_header("Wrong1", [], after=UDP(dst_port=1)): "whole number of bytes, got 0 bits",
    lambda: define_header("Wrong2", [HeaderField("x", 7)], after=UDP(dst_port=1)): "got 7 bits",
    lambda: define_header("Wrong3", [HeaderField("x", 8, kind="hexa")], after=UDP(dst_port=1)): "kind='hexa': expected one of",
    lambda: define_header("Wrong4", [HeaderField("copy", 8)], after=UDP(dst_port=1)): "name is that of a method",
    lambda: define_header("Wrong5", [HeaderField("x", 8, counts="all")], after=UDP(dst_port=1)): "counts='all'",
    lambda: define_header("Wrong6", FIELD, after=UDP()): "after: UDP has no field set",
    lambda: define_header("Wrong7", FIELD, after=[]): "expected a header that it follows",
    lambda: define_header("Wrong8", FIELD, after=["udp"]): "after: expected headers .* got str",
    lambda: define_header("Wrong9", ["x"], after=UDP(dst_port=1)): "expected HeaderField objects, got str",
    lambda: define_header("Wrong10", [HeaderField("x", -8)], after=UDP(dst_port=1)): "width=-8",
    lambda: define_header("Wrong11", FIELD, tail="rest", after=UDP(dst_port=1)): "field that counts the variable part",
    lambda: define_header("Wrong12", [HeaderField("x", 8, values={-1: "A"})], after=UDP(dst_port=1)): "expected|fit|type",
    lambda: Stored(op="DELETE"): "StoredOp has no name 'DELETE'",
    lambda: Stored(idd=1): "Stored has no field 'idd'; did you mean id",
    lambda: Stored(id=1 << 15): "stored.id is 15 bits wide",
}


@pytest.mark.parametrize("call", WRONG)
def test_wrong_definitions_are_rejected(call):
    with pytest.raises((UsageError, TypeError), match=WRONG[call]):
        call()


def test_address_objects_are_accepted():
    assert Stored(owner=ipaddress.IPv4Address("10.0.0.9")).owner == "10.0.0.9"
