"""The plugin shows the connections, messages and events of `rdmawire analyze --csv` and the violations of `check`."""

import csv
import json
import subprocess
from collections import Counter
from decimal import Decimal

import pytest
from tshark_runs import ALL, COMMAND, needs_tshark, plugin_tree, with_plugin

pytestmark = needs_tshark


def ns(shown):
    return int(Decimal(shown) * 1_000_000_000)


class Tables:
    """The tables that `rdmawire analyze` writes for a capture."""

    def __init__(self, capture, directory):
        # One thread: otherwise events of directions that are paired late can have a different order.
        done = subprocess.run([COMMAND, "analyze", capture, "--csv", directory, "--csv-packets", "--threads", "1",
                               "--json"], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        self.report = json.loads(done.stdout)
        for name in ("connections", "messages", "events", "packets"):
            with (directory / f"{name}.csv").open(newline="") as file:
                setattr(self, name, list(csv.DictReader(file)))
        self.merged_from = {row["merged_from"]: row["connection"] for row in self.connections if row.get("merged_from")}

    def final_name(self, connection, end):
        """Return the final number of a connection and the final name of its endpoint."""
        if connection in self.merged_from:
            return self.merged_from[connection], {"a": "b", "b": "a", "": ""}[end]
        return connection, end


@pytest.fixture(scope="module")
def tables_of(tmp_path_factory):
    cache = {}

    def tables(capture):
        if capture not in cache:
            cache[capture] = Tables(capture, tmp_path_factory.mktemp("tables"))
        return cache[capture]

    return tables


@pytest.fixture(scope="module")
def trees_of():
    cache = {}

    def trees(capture):
        """Return {frame: plugin's tree} of a capture, with two passes."""
        if capture not in cache:
            packets = with_plugin().packets(capture, "-2", "-J", "rdmawire")
            cache[capture] = {number: plugin_tree(packet) for number, packet in enumerate(packets, 1)}
        return cache[capture]

    return trees


def fields(element, name):
    return [field for field in element.iter("field") if field.get("name") == "rdmawire." + name]


def shown(element, name, default=None):
    found = fields(element, name)
    assert len(found) <= 1, f"{name} occurs {len(found)} times"
    return found[0].get("show") if found else default


def enum_name(element, name):
    """Return the name of an enumerated value, as in "Kind: retransmission (0)"."""
    found = fields(element, name)
    return found[0].get("showname").split(": ", 1)[1].rsplit(" (", 1)[0] if found else ""


def direct(element, name):
    """Return the value of a direct child field."""
    found = [field for field in element.findall("field") if field.get("name") == "rdmawire." + name]
    return found[0].get("show") if found else ""


@pytest.mark.parametrize("capture", ALL, ids=lambda path: path.name)
def test_packet_fields_equal_packets_csv(capture, tables_of, trees_of):
    tables, trees = tables_of(capture), trees_of(capture)
    row_of = {}
    for row in tables.packets:
        row_of[int(row["frame"])] = row
    for frame, tree in trees.items():
        analysis = None if tree is None else next(iter(fields(tree, "analysis")), None)
        connection = "" if analysis is None else direct(analysis, "analysis.connection")
        row = row_of.get(frame)
        # CM packets have a connection, too, but no sender.
        sender = "" if analysis is None else direct(analysis, "analysis.sender")
        assert bool(sender) == bool(row), f"frame {frame}"
        if not row:
            continue
        expected_connection, expected_end = tables.final_name(row["connection"], row["end"])
        assert connection == expected_connection, f"frame {frame}"
        assert "ab"[int(direct(analysis, "analysis.sender"))] == expected_end, f"frame {frame}"
        assert direct(analysis, "analysis.relative_psn") == row["relative_psn"], f"frame {frame}"
        assert direct(analysis, "analysis.outstanding") == row["outstanding"], f"frame {frame}"
        retransmitted = direct(analysis, "analysis.seen_before") in ("1", "True")
        assert retransmitted == (row["retransmitted"] == "1"), f"frame {frame}"
        related = "analysis.first_sent_" if retransmitted else "analysis.answers"
        assert direct(analysis, related + ("in" if retransmitted else "")) == row["related_frame"], f"frame {frame}"
        delay = direct(analysis, related + ("ago" if retransmitted else "_after"))
        assert (str(ns(delay)) if delay else "") == row["related_delay_ns"], f"frame {frame}"
        if row["message"]:
            numbers = [(field.get("show")) for field in fields(analysis, "message.number")]
            assert row["message"] in numbers, f"frame {frame}"


@pytest.mark.parametrize("capture", ALL, ids=lambda path: path.name)
def test_connection_fields_equal_the_report(capture, tables_of, trees_of):
    """Compares service, path MTU, and how the connection was opened and closed, for each packet."""
    expected = {str(connection["connection"]): connection for connection in tables_of(capture).report["connections"]}
    seen = set()
    for frame, tree in trees_of(capture).items():
        analysis = None if tree is None else next(iter(fields(tree, "analysis")), None)
        if analysis is None or not direct(analysis, "analysis.sender"):
            continue
        connection = expected[direct(analysis, "analysis.connection")]
        seen.add(str(connection["connection"]))
        assert enum_name(analysis, "analysis.service") == connection["service"], f"frame {frame}"
        assert enum_name(analysis, "analysis.paired_by") == connection["paired_by"], f"frame {frame}"
        for name, key in (("mtu", "mtu"), ("opened_in", "opened_frame"), ("closed_in", "closed_frame")):
            assert direct(analysis, "analysis." + name) == str(connection[key] or ""), f"frame {frame}: {name}"
        took = direct(analysis, "analysis.open_time")
        assert (ns(took) if took else 0) == (connection["open_ns"] or 0), f"frame {frame}"
    assert seen == set(expected)


# Values that the built-in dissectors show for CM, MPA, FIN, or the text before a pingpong.
# (Capture, connection): service, paired by, path MTU, opened in, after, closed in.
OPENED_AND_CLOSED = {
    ("rping.pcap", 15): ("RC", "connection_manager", "1024", "17", "0.028205000", "378"),
    ("ucmatose.pcap", 15): ("RC", "connection_manager", "1024", "17", "0.029757000", "218"),
    ("linlinw5-cm.pcap", 1): ("RC", "connection_manager", "1024", "3", "0.002284000", "95"),
    ("linlinw5-cm.pcap", 24): ("RC", "connection_manager", "1024", "30", "0.002140000", "91"),
    ("siw-rping.pcap", 20): ("iWARP", "stream", "", "22", "0.016898000", "304"),
    ("rc-write-jumbo.pcapng.zst", 29): ("RC", "text", "4096", "", "", ""),
}


@pytest.mark.parametrize("name", sorted({name for name, _ in OPENED_AND_CLOSED}))
def test_connection_fields_have_known_values(name, trees_of):
    capture = next(path for path in ALL if path.name == name)
    found = {}
    for tree in trees_of(capture).values():
        analysis = None if tree is None else next(iter(fields(tree, "analysis")), None)
        if analysis is not None and direct(analysis, "analysis.sender"):
            found.setdefault((name, int(direct(analysis, "analysis.connection"))), set()).add(
                (enum_name(analysis, "analysis.service"), enum_name(analysis, "analysis.paired_by"),
                 *(direct(analysis, "analysis." + field) for field in ("mtu", "opened_in", "open_time", "closed_in"))))
    assert found == {key: {value} for key, value in OPENED_AND_CLOSED.items() if key[0] == name}


def test_one_pass_shows_closing_frame_only_afterwards():
    """A packet does not yet show the frame that closes its connection in one pass."""
    capture = next(path for path in ALL if path.name == "linlinw5-cm.pcap")
    home = with_plugin()
    for passes in ((), ("-2",)):
        done = home.tshark("-n", *passes, "-r", home.place(capture), "-Y", "rdmawire.analysis.sender", "-T", "fields",
                           "-e", "frame.number", "-e", "rdmawire.analysis.connection",
                           "-e", "rdmawire.analysis.opened_in", "-e", "rdmawire.analysis.closed_in")
        rows = [line.split("\t") for line in done.stdout.decode().splitlines()]
        assert {row[1] for row in rows} == {"1", "24"}
        for frame, connection, opened, closed in rows:
            _, _, _, opened_in, _, closed_in = OPENED_AND_CLOSED["linlinw5-cm.pcap", int(connection)]
            assert opened == (opened_in if passes or int(frame) >= int(opened_in) else ""), f"frame {frame}"
            assert closed == (closed_in if passes or int(frame) >= int(closed_in) else ""), f"frame {frame}"


def events_of(tree):
    for event in fields(tree, "event"):
        yield (
            event.get("show"), enum_name(event, "event.cause"), enum_name(event, "event.severity"),
            shown(event, "event.connection", ""), "ab"[int(shown(event, "event.end"))],
            shown(event, "event.frame", ""), shown(event, "event.last_frame", ""),
            shown(event, "event.origin_frame", ""), shown(event, "event.cause_frame", ""),
            str(ns(shown(event, "event.duration"))), shown(event, "event.packets"), shown(event, "event.bytes"),
            shown(event, "event.psn"), shown(event, "event.value"), shown(event, "event.found"))


@pytest.mark.parametrize("capture", ALL, ids=lambda path: path.name)
def test_events_equal_events_csv(capture, tables_of, trees_of):
    tables, trees = tables_of(capture), trees_of(capture)
    found = Counter()
    for frame, tree in trees.items():
        for event in events_of(tree) if tree is not None else []:
            assert event[5] == str(frame)
            found[event] += 1
    expected = Counter(
        tuple(row[key] for key in ("kind", "cause", "severity", "connection", "end", "frame", "last_frame",
                                   "origin_frame", "cause_frame", "duration_ns", "packets", "bytes", "psn", "value",
                                   "observed"))
        for row in tables.events)
    assert found == expected
    by_kind = Counter(event[0] for event in found.elements())
    assert by_kind == tables.report["summary"]["events"]
    # Each event is also an expert item that display filters can use.
    for frame, tree in trees.items():
        for event in events_of(tree) if tree is not None else []:
            assert fields(tree, "analysis." + event[0]), f"frame {frame}: no expert item {event[0]}"


@pytest.mark.parametrize("capture", ALL, ids=lambda path: path.name)
def test_retransmissions_show_their_recovery(capture, tables_of, trees_of):
    """Each retransmitted packet shows its recovery as in events.csv, and the original packet refers to it."""
    tables, trees = tables_of(capture), trees_of(capture)
    recoveries = [row for row in tables.events if row["kind"] == "retransmission"]
    found = {}
    for frame, tree in trees.items():
        for element in fields(tree, "analysis.go_back_n") if tree is not None else []:
            end = shown(tree, "analysis.sender")
            key = (shown(tree, "analysis.connection"), "ab"[int(end)], element.get("show"))
            values = tuple(direct(element, "analysis.go_back_n." + name) for name in (
                "starts_in", "ends_in", "goes_back_to", "packets", "bytes", "cause_frame")) + (
                enum_name(element, "analysis.go_back_n.cause"), ns(direct(element, "analysis.go_back_n.time")))
            assert found.setdefault(key, values) == values, f"frame {frame}"
            assert int(values[0]) <= frame <= int(values[1])
            first = shown(tree, "analysis.first_sent_in")
            if first:
                assert shown(trees[int(first)], "analysis.retransmitted_in"), f"frame {frame}, first in {first}"
    assert sorted(found.values()) == sorted(
        (row["frame"], row["last_frame"], row["origin_frame"], row["packets"], row["bytes"], row["cause_frame"],
         row["cause"], int(row["duration_ns"])) for row in recoveries)
    if capture.name.startswith("rc-pingpong-loss"):
        assert len(recoveries) == 18


def message_of(element):
    return {
        "message": direct(element, "message.number"),
        "end": "ab"[int(direct(element, "message.requester"))],
        "operation": enum_name(element, "message.operation"),
        "outcome": enum_name(element, "message.outcome"),
        "size": direct(element, "message.size"),
        "packets": direct(element, "message.packets"),
        "repeated_packets": direct(element, "message.repeated") or "0",
        "first_psn": direct(element, "message.first_psn"),
        "last_psn": direct(element, "message.last_psn"),
    }


@pytest.mark.parametrize("capture", ALL, ids=lambda path: path.name)
def test_messages_equal_messages_csv(capture, tables_of, trees_of):
    """The first and last frame, the first response and the completion of each message show the message."""
    tables, trees = tables_of(capture), trees_of(capture)
    shown_messages = Counter()
    for frame, tree in trees.items():
        for element in fields(tree, "analysis.message_part") if tree is not None else []:
            if element.get("show") != "belongs to":
                shown_messages[frame, tuple(message_of(element).values()), element.get("show")] += 1
    expected = Counter()
    for row in tables.messages:
        # The plugin keeps the number that a message had before its direction was paired.
        message = tuple(row[key] for key in ("message", "end", "operation", "outcome", "size", "packets",
                                             "repeated_packets", "first_psn", "last_psn"))
        first, last = row["first_frame"], row["last_frame"]
        if first:
            expected[int(first), message, "sent here" if first == last else "starts here"] += 1
        if last and last != first:
            expected[int(last), message, "ends here"] += 1
        if row["first_response_frame"] and row["first_response_frame"] != row["answer_frame"]:
            expected[int(row["first_response_frame"]), message, "first response"] += 1
        if row["answer_frame"]:
            expected[int(row["answer_frame"]), message, "completed here"] += 1
    assert shown_messages == expected


@pytest.mark.parametrize("capture", ALL, ids=lambda path: path.name)
def test_message_frames_and_latency_equal_messages_csv(capture, tables_of, trees_of):
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
def test_violations_equal_rdmawire_check(capture, trees_of):
    done = subprocess.run([COMMAND, "check", "--json", capture], capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 1), done.stderr
    expected = Counter((violation["frame"], violation["rule"], violation["level"], violation["clause"],
                      violation["expected"], violation["actual"], violation["last_frame"], violation["count"],
                      tuple(violation["related"])) for violation in json.loads(done.stdout)["violations"])
    found = Counter()
    for frame, tree in trees_of(capture).items():
        for element in fields(tree, "violation") if tree is not None else []:
            found[frame, direct(element, "violation.rule"), direct(element, "violation.level"),
                 direct(element, "violation.clause"), direct(element, "violation.expected"),
                 direct(element, "violation.actual"), int(direct(element, "violation.last_frame")),
                 int(direct(element, "violation.count")),
                 tuple(int(field.get("show")) for field in fields(element, "violation.related"))] += 1
    assert found == expected


FIRST_PASS = COMMAND.parent / "wireshark_first_pass"


@pytest.mark.skipif(not FIRST_PASS.exists(), reason=f"requires {FIRST_PASS}")
@pytest.mark.parametrize("capture", ALL, ids=lambda path: path.name)
def test_one_pass_shows_the_tracker_state_at_that_frame(capture):
    """A frame shows, in one pass, exactly the tracker's output at the time the frame was added."""
    home = with_plugin()
    done = subprocess.run([FIRST_PASS, home.place(capture)], capture_output=True, text=True, timeout=120, check=True)
    expected = done.stdout.splitlines()
    packets = home.packets(capture, "-J", "rdmawire")
    assert len(packets) == len(expected) > 0
    for frame, (packet, line) in enumerate(zip(packets, expected), 1):
        note, events = line.split(" |")
        tree = plugin_tree(packet)
        analysis = None if tree is None else next(iter(fields(tree, "analysis")), None)
        note_of_plugin = str(frame)
        if analysis is not None and direct(analysis, "analysis.sender"):
            retransmitted = direct(analysis, "analysis.seen_before") in ("1", "True")
            related = direct(analysis, "analysis.first_sent_in" if retransmitted else "analysis.answers") or "0"
            request_state = ("acknowledged" if direct(analysis, "analysis.duplicate_acknowledgement")
                             else "unseen" if direct(analysis, "analysis.unseen_request") else None)
            # For a response to an outstanding request, the plugin shows only the acknowledged packets.
            request_state = request_state or ("outstanding" if " outstanding " in note else "nothing")
            note_of_plugin += " " + " ".join([
                direct(analysis, "analysis.connection"), "ab"[int(direct(analysis, "analysis.sender"))],
                direct(analysis, "analysis.relative_psn"), direct(analysis, "analysis.outstanding"),
                str(int(retransmitted)), related, direct(analysis, "analysis.outstanding_bytes") or "0",
                direct(analysis, "analysis.acknowledges") or "0", request_state,
                direct(analysis, "analysis.reads_outstanding") or "0",
                direct(analysis, "analysis.reads_allowed") or "0", direct(analysis, "analysis.credits") or "-"])
        assert note_of_plugin == note
        shown_events = [] if tree is None else [event.get("show") for event in fields(tree, "event")]
        assert shown_events == events.split(), f"frame {frame}"
