"""What the plugin says of connections, messages and events is, one by one, what `rdmawire analyze --csv` writes of them
(tables of the same tracker, joined with the report's), and violations are those of `rdmawire check`."""

import csv
import json
import subprocess
from collections import Counter
from decimal import Decimal

import pytest
from tshark_runs import ALL, COMMAND, needs_tshark, ours, with_plugin

pytestmark = needs_tshark


def ns(shown):
    return int(Decimal(shown) * 1_000_000_000)


class Tables:
    """The tables that the command writes of a capture."""

    def __init__(self, capture, directory):
        # One thread: halves that are joined late are told in one order.
        done = subprocess.run([COMMAND, "analyze", capture, "--csv", directory, "--csv-packets", "--threads", "1",
                               "--json"], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        self.report = json.loads(done.stdout)
        for name in ("connections", "messages", "events", "packets"):
            with (directory / f"{name}.csv").open(newline="") as file:
                setattr(self, name, list(csv.DictReader(file)))
        self.merged_from = {row["merged_from"]: row["connection"] for row in self.connections if row.get("merged_from")}

    def called(self, connection, end):
        """A connection's number and an end as they are called at last."""
        if connection in self.merged_from:
            return self.merged_from[connection], {"a": "b", "b": "a", "": ""}[end]
        return connection, end


@pytest.fixture(scope="module")
def tables_of(tmp_path_factory):
    known = {}

    def tables(capture):
        if capture not in known:
            known[capture] = Tables(capture, tmp_path_factory.mktemp("tables"))
        return known[capture]

    return tables


@pytest.fixture(scope="module")
def trees_of():
    known = {}

    def trees(capture):
        """Frame to the plugin's tree, in two passes."""
        if capture not in known:
            packets = with_plugin().packets(capture, "-2", "-J", "rdmawire")
            known[capture] = {number: ours(packet) for number, packet in enumerate(packets, 1)}
        return known[capture]

    return trees


def fields(element, name):
    return [field for field in element.iter("field") if field.get("name") == "rdmawire." + name]


def shown(element, name, default=None):
    found = fields(element, name)
    assert len(found) <= 1, f"{name} is there {len(found)} times"
    return found[0].get("show") if found else default


def word(element, name):
    """The word of an enumerated field: "Kind: retransmission (0)"."""
    found = fields(element, name)
    return found[0].get("showname").split(": ", 1)[1].rsplit(" (", 1)[0] if found else ""


def direct(element, name):
    """Of the fields right below."""
    found = [field for field in element.findall("field") if field.get("name") == "rdmawire." + name]
    return found[0].get("show") if found else ""


@pytest.mark.parametrize("capture", ALL, ids=lambda path: path.name)
def test_packets(capture, tables_of, trees_of):
    tables, trees = tables_of(capture), trees_of(capture)
    noted = {}
    for row in tables.packets:
        noted[int(row["frame"])] = row
    for frame, tree in trees.items():
        analysis = None if tree is None else next(iter(fields(tree, "analysis")), None)
        connection = "" if analysis is None else direct(analysis, "analysis.connection")
        row = noted.get(frame)
        assert bool(connection) == bool(row), f"frame {frame}"
        if not row:
            continue
        said_connection, said_end = tables.called(row["connection"], row["end"])
        assert connection == said_connection, f"frame {frame}"
        assert "ab"[int(direct(analysis, "analysis.sender"))] == said_end, f"frame {frame}"
        assert direct(analysis, "analysis.relative_psn") == row["relative_psn"], f"frame {frame}"
        assert direct(analysis, "analysis.outstanding") == row["outstanding"], f"frame {frame}"
        again = direct(analysis, "analysis.seen_before") in ("1", "True")
        assert again == (row["retransmitted"] == "1"), f"frame {frame}"
        related = "analysis.first_sent_" if again else "analysis.answers"
        assert direct(analysis, related + ("in" if again else "")) == row["related_frame"], f"frame {frame}"
        delay = direct(analysis, related + ("ago" if again else "_after"))
        assert (str(ns(delay)) if delay else "") == row["related_delay_ns"], f"frame {frame}"
        if row["message"]:
            numbers = [(field.get("show")) for field in fields(analysis, "message.number")]
            assert row["message"] in numbers, f"frame {frame}"


@pytest.mark.parametrize("capture", ALL, ids=lambda path: path.name)
def test_connections(capture, tables_of, trees_of):
    """Each packet of a connection has what `analyze` says of it: service, path MTU, and how it was opened and closed."""
    wanted = {str(one["connection"]): one for one in tables_of(capture).report["connections"]}
    seen = set()
    for frame, tree in trees_of(capture).items():
        analysis = None if tree is None else next(iter(fields(tree, "analysis")), None)
        if analysis is None or not direct(analysis, "analysis.connection"):
            continue
        one = wanted[direct(analysis, "analysis.connection")]
        seen.add(str(one["connection"]))
        assert word(analysis, "analysis.service") == one["service"], f"frame {frame}"
        assert word(analysis, "analysis.paired_by") == one["paired_by"], f"frame {frame}"
        for name, key in (("mtu", "mtu"), ("opened_in", "opened_frame"), ("closed_in", "closed_frame")):
            assert direct(analysis, "analysis." + name) == str(one[key] or ""), f"frame {frame}: {name}"
        took = direct(analysis, "analysis.open_time")
        assert (ns(took) if took else 0) == (one["open_ns"] or 0), f"frame {frame}"
    assert seen == set(wanted)


# What the CM's messages, MPA's frames and FIN, or the text before a pingpong say, as the built-in dissectors show them.
# Capture and connection: service, directions joined by, path MTU, opened in, after, closed in.
OPENED_AND_CLOSED = {
    ("rping.pcap", 15): ("RC", "connection_manager", "1024", "17", "0.028205000", "378"),
    ("ucmatose.pcap", 15): ("RC", "connection_manager", "1024", "17", "0.029757000", "218"),
    ("linlinw5-cm.pcap", 1): ("RC", "connection_manager", "1024", "3", "0.002284000", "95"),
    ("linlinw5-cm.pcap", 24): ("RC", "connection_manager", "1024", "30", "0.002140000", "91"),
    ("siw-rping.pcap", 20): ("iWARP", "stream", "", "22", "0.016898000", "304"),
    ("rc-write-jumbo.pcapng.zst", 29): ("RC", "text", "4096", "", "", ""),
}


@pytest.mark.parametrize("name", sorted({name for name, _ in OPENED_AND_CLOSED}))
def test_connections_that_are_known(name, trees_of):
    capture = next(path for path in ALL if path.name == name)
    said = {}
    for tree in trees_of(capture).values():
        analysis = None if tree is None else next(iter(fields(tree, "analysis")), None)
        if analysis is not None and direct(analysis, "analysis.connection"):
            said.setdefault((name, int(direct(analysis, "analysis.connection"))), set()).add(
                (word(analysis, "analysis.service"), word(analysis, "analysis.paired_by"),
                 *(direct(analysis, "analysis." + one) for one in ("mtu", "opened_in", "open_time", "closed_in"))))
    assert said == {key: {value} for key, value in OPENED_AND_CLOSED.items() if key[0] == name}


def test_one_pass_knows_nothing_of_the_end():
    """In one pass a packet of an open connection says where it was opened, and not yet where it is closed."""
    capture = next(path for path in ALL if path.name == "linlinw5-cm.pcap")
    home = with_plugin()
    for passes in ((), ("-2",)):
        done = home.tshark("-n", *passes, "-r", home.place(capture), "-Y", "rdmawire.analysis.connection", "-T", "fields",
                           "-e", "frame.number", "-e", "rdmawire.analysis.connection",
                           "-e", "rdmawire.analysis.opened_in", "-e", "rdmawire.analysis.closed_in")
        rows = [line.split("\t") for line in done.stdout.decode().splitlines()]
        assert {row[1] for row in rows} == {"1", "24"}
        for frame, connection, opened, closed in rows:
            there = OPENED_AND_CLOSED["linlinw5-cm.pcap", int(connection)]
            assert opened == (there[3] if passes or int(frame) >= int(there[3]) else ""), f"frame {frame}"
            assert closed == (there[5] if passes or int(frame) >= int(there[5]) else ""), f"frame {frame}"


def events_of(tree):
    for event in fields(tree, "event"):
        yield (
            event.get("show"), word(event, "event.cause"), word(event, "event.severity"),
            shown(event, "event.connection", ""), "ab"[int(shown(event, "event.end"))],
            shown(event, "event.frame", ""), shown(event, "event.last_frame", ""),
            shown(event, "event.origin_frame", ""), shown(event, "event.cause_frame", ""),
            str(ns(shown(event, "event.duration"))), shown(event, "event.packets"), shown(event, "event.bytes"),
            shown(event, "event.psn"), shown(event, "event.value"), shown(event, "event.found"))


@pytest.mark.parametrize("capture", ALL, ids=lambda path: path.name)
def test_events(capture, tables_of, trees_of):
    tables, trees = tables_of(capture), trees_of(capture)
    said = Counter()
    for frame, tree in trees.items():
        for event in events_of(tree) if tree is not None else []:
            assert event[5] == str(frame)
            said[event] += 1
    wanted = Counter(
        tuple(row[key] for key in ("kind", "cause", "severity", "connection", "end", "frame", "last_frame",
                                   "origin_frame", "cause_frame", "duration_ns", "packets", "bytes", "psn", "value",
                                   "observed"))
        for row in tables.events)
    assert said == wanted
    by_kind = Counter(event[0] for event in said.elements())
    assert by_kind == tables.report["summary"]["events"]
    # Each is an expert item, too, and can be filtered by.
    for frame, tree in trees.items():
        for event in events_of(tree) if tree is not None else []:
            assert fields(tree, "analysis." + event[0]), f"frame {frame}: no expert item {event[0]}"


@pytest.mark.parametrize("capture", ALL, ids=lambda path: path.name)
def test_rounds_of_going_back(capture, tables_of, trees_of):
    """Each packet that is sent again names its round, with what `analyze` says of that, and its first sending names it."""
    tables, trees = tables_of(capture), trees_of(capture)
    rounds = [row for row in tables.events if row["kind"] == "retransmission"]
    said = {}
    for frame, tree in trees.items():
        for element in fields(tree, "analysis.go_back_n") if tree is not None else []:
            end = shown(tree, "analysis.sender")
            key = (shown(tree, "analysis.connection"), "ab"[int(end)], element.get("show"))
            told = tuple(direct(element, "analysis.go_back_n." + name) for name in (
                "starts_in", "ends_in", "goes_back_to", "packets", "bytes", "cause_frame")) + (
                word(element, "analysis.go_back_n.cause"), ns(direct(element, "analysis.go_back_n.time")))
            assert said.setdefault(key, told) == told, f"frame {frame}"
            assert int(told[0]) <= frame <= int(told[1])
            first = shown(tree, "analysis.first_sent_in")
            if first:
                assert shown(trees[int(first)], "analysis.retransmitted_in"), f"frame {frame}, first in {first}"
    assert sorted(said.values()) == sorted(
        (row["frame"], row["last_frame"], row["origin_frame"], row["packets"], row["bytes"], row["cause_frame"],
         row["cause"], int(row["duration_ns"])) for row in rounds)
    if capture.name.startswith("rc-pingpong-loss"):
        assert len(rounds) == 18


def message_of(element):
    return {
        "message": direct(element, "message.number"),
        "end": "ab"[int(direct(element, "message.requester"))],
        "operation": word(element, "message.operation"),
        "outcome": word(element, "message.outcome"),
        "size": direct(element, "message.size"),
        "packets": direct(element, "message.packets"),
        "repeated_packets": direct(element, "message.repeated") or "0",
        "first_psn": direct(element, "message.first_psn"),
        "last_psn": direct(element, "message.last_psn"),
    }


@pytest.mark.parametrize("capture", ALL, ids=lambda path: path.name)
def test_messages(capture, tables_of, trees_of):
    """Every message stands at the frames where it begins, ends, is answered first and is completed, with its times."""
    tables, trees = tables_of(capture), trees_of(capture)
    there = Counter()
    for frame, tree in trees.items():
        for element in fields(tree, "analysis.message_part") if tree is not None else []:
            if element.get("show") != "belongs to":
                there[frame, tuple(message_of(element).values()), element.get("show")] += 1
    wanted = Counter()
    for row in tables.messages:
        # One that was told of a half stays called as it was then.
        said = tuple(row[key] for key in ("message", "end", "operation", "outcome", "size", "packets",
                                          "repeated_packets", "first_psn", "last_psn"))
        first, last = row["first_frame"], row["last_frame"]
        if first:
            wanted[int(first), said, "sent here" if first == last else "starts here"] += 1
        if last and last != first:
            wanted[int(last), said, "ends here"] += 1
        if row["first_response_frame"] and row["first_response_frame"] != row["answer_frame"]:
            wanted[int(row["first_response_frame"]), said, "first response"] += 1
        if row["answer_frame"]:
            wanted[int(row["answer_frame"]), said, "completed here"] += 1
    assert there == wanted


@pytest.mark.parametrize("capture", ALL, ids=lambda path: path.name)
def test_message_times_and_links(capture, tables_of, trees_of):
    tables, trees = tables_of(capture), trees_of(capture)
    compared = 0
    for row in tables.messages:
        if not row["first_frame"]:
            continue
        tree = trees[int(row["first_frame"])]
        if tree is None:
            continue
        element = next((e for e in fields(tree, "analysis.message_part")
                        if e.get("show") in ("sent here", "starts here")
                        and message_of(e)["message"] == row["message"] and message_of(e)["end"] == row["end"]), None)
        assert element is not None, row
        assert direct(element, "analysis.acknowledged_in") == (
            row["answer_frame"] if row["answer_frame"] != row["first_frame"] else ""), row
        assert direct(element, "analysis.response_in") == row["first_response_frame"], row
        took = direct(element, "analysis.acknowledgement_time")
        assert (str(ns(took)) if took else "") == row["latency_ns"], row
        compared += 1
    assert compared or not tables.messages


@pytest.mark.parametrize("capture", ALL, ids=lambda path: path.name)
def test_violations_are_those_of_check(capture, trees_of):
    done = subprocess.run([COMMAND, "check", "--json", capture], capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 1), done.stderr
    wanted = Counter((violation["frame"], violation["rule"], violation["level"], violation["clause"],
                      violation["expected"], violation["actual"], violation["last_frame"], violation["count"],
                      tuple(violation["related"])) for violation in json.loads(done.stdout)["violations"])
    said = Counter()
    for frame, tree in trees_of(capture).items():
        for element in fields(tree, "violation") if tree is not None else []:
            said[frame, direct(element, "violation.rule"), direct(element, "violation.level"),
                 direct(element, "violation.clause"), direct(element, "violation.expected"),
                 direct(element, "violation.actual"), int(direct(element, "violation.last_frame")),
                 int(direct(element, "violation.count")),
                 tuple(int(field.get("show")) for field in fields(element, "violation.related"))] += 1
    assert said == wanted


SO_FAR = COMMAND.parent / "wireshark_so_far"


@pytest.mark.skipif(not SO_FAR.exists(), reason=f"needs {SO_FAR}")
@pytest.mark.parametrize("capture", ALL, ids=lambda path: path.name)
def test_one_pass_says_what_was_known_then(capture):
    """In one pass a frame has what the tracker, by itself, had told of it when the frame was added, and no more."""
    home = with_plugin()
    done = subprocess.run([SO_FAR, home.place(capture)], capture_output=True, text=True, timeout=120, check=True)
    expected = done.stdout.splitlines()
    packets = home.packets(capture, "-J", "rdmawire")
    assert len(packets) == len(expected) > 0
    for frame, (packet, line) in enumerate(zip(packets, expected), 1):
        note, events = line.split(" |")
        tree = ours(packet)
        analysis = None if tree is None else next(iter(fields(tree, "analysis")), None)
        said = str(frame)
        if analysis is not None and direct(analysis, "analysis.connection"):
            again = direct(analysis, "analysis.seen_before") in ("1", "True")
            related = direct(analysis, "analysis.first_sent_in" if again else "analysis.answers") or "0"
            answered = ("acknowledged" if direct(analysis, "analysis.duplicate_acknowledgement")
                        else "unseen" if direct(analysis, "analysis.unseen_request") else None)
            # Of a response to what waits for it nothing is said but what it acknowledges.
            answered = answered or ("outstanding" if " outstanding " in note else "nothing")
            said += " " + " ".join([direct(analysis, "analysis.connection"),
                                    "ab"[int(direct(analysis, "analysis.sender"))],
                                    direct(analysis, "analysis.relative_psn"),
                                    direct(analysis, "analysis.outstanding"), str(int(again)), related,
                                    direct(analysis, "analysis.outstanding_bytes") or "0",
                                    direct(analysis, "analysis.acknowledges") or "0", answered,
                                    direct(analysis, "analysis.reads_outstanding") or "0",
                                    direct(analysis, "analysis.reads_allowed") or "0",
                                    direct(analysis, "analysis.credits") or "-"])
        assert said == note
        told = [] if tree is None else [event.get("show") for event in fields(tree, "event")]
        assert told == events.split(), f"frame {frame}"
