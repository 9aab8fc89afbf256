"""Runs rdmawire and tshark over a capture and converts their output to the same format.

The result for a frame is a dictionary: Wireshark's field name to the list of values in order of the frame. Numbers are
compared as integers, other values as text in a canonical spelling.
"""

import functools
import ipaddress
import json
import os
import re
import shutil
import subprocess
from decimal import Decimal

from captures import ROOT

RDMAWIRE = os.environ.get("RDMAWIRE", str(ROOT / "build" / "dev" / "bin" / "rdmawire"))
TSHARK_VERSION = "4.0"

# Without these options tshark shows other values than the packet contains.
TSHARK_OPTIONS = [
    "-n",  # no names for addresses and ports
    "-o", "tcp.relative_sequence_numbers:FALSE",
    "-o", "tcp.try_heuristic_first:TRUE",  # else ports of other protocols take precedence over iWARP
    "-o", "ipv6.defragment:FALSE",  # else a first fragment is not dissected
    "-o", "tcp.reassemble_out_of_order:TRUE",  # else early segments are dissected out of order
]
SEPARATOR, AGGREGATOR = "\t", "\x1e"


class CannotRun(Exception):
    """A program is missing or has the wrong version."""


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, timeout=300, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr.decode(errors='replace')[-2000:]}")
    return done.stdout.decode(errors="replace")


def require_rdmawire():
    if not shutil.which(RDMAWIRE):
        raise CannotRun(f"requires {RDMAWIRE}: run cmake --build --preset dev, or set RDMAWIRE to another program")


def require_tshark():
    if not shutil.which("tshark"):
        raise CannotRun("requires tshark")
    first = run("tshark", "--version").splitlines()[0]
    if not re.search(rf"\b{re.escape(TSHARK_VERSION)}\.", first):
        raise CannotRun(f"requires tshark {TSHARK_VERSION}, found {first}")


@functools.cache
def tables():
    """Return rdmawire's headers from `rdmawire explain --json`: name to header."""
    names = [header["id"] for header in json.loads(run(RDMAWIRE, "explain", "--json"))["headers"]]
    headers = {}
    for name in names:
        for line in run(RDMAWIRE, "explain", name, "--json").splitlines():
            topic = json.loads(line)
            if topic["kind"] == "header" and topic["id"] == name:
                headers[name] = topic
    missing = [name for name in names if name not in headers]
    assert not missing, f"explain lists these headers, but does not describe them: {missing}"
    return headers


@functools.cache
def aliases():
    """Return the Wireshark names in rdmawire's tables: name to [(header, field)]."""
    found = {}
    for header in tables().values():
        for field in header["fields"]:
            for alias in field.get("wireshark", ()):
                found.setdefault(alias, []).append((header["id"], field))
    return found


@functools.cache
def tshark_fields():
    """Return all fields of tshark: name to (type, protocol)."""
    fields = {}
    for line in run("tshark", "-G", "fields").splitlines():
        columns = line.split("\t")
        if columns[0] == "F":
            fields[columns[2]] = (columns[3], columns[4])
    return fields


# ---------------------------------------------------------------------------------------------------------------------
# Canonical spelling of values

_NUMBERS = {"decimal", "hexadecimal", "flag", "time", "reserved"}  # names of `display` in explain


def _hex_digits(text):
    return re.sub(r"[:.\-]", "", text).lower()


def canonical(value, display, tshark_type=None):
    """Return a value in canonical spelling. `tshark_type` is None for values of rdmawire."""
    text = str(value)
    if tshark_type == "FT_RELATIVE_TIME":
        return int(Decimal(text) * 1_000_000_000)
    if display in _NUMBERS:
        return int(text, 16 if tshark_type == "FT_BYTES" else 0)
    if display in ("MAC address", "GUID", "bytes"):
        if text.startswith("0x"):  # tshark shows a number: pad it to the digits of a GUID
            return f"{int(text, 16):0{16 if display == 'GUID' else len(text) - 2}x}"
        return _hex_digits(text)
    if display in ("IPv4 address", "IPv6 address or GID"):
        if re.fullmatch("[0-9a-f]{32}", text):
            return str(ipaddress.ip_address(bytes.fromhex(text)))
        return str(ipaddress.ip_address(text))
    return text


# ---------------------------------------------------------------------------------------------------------------------
# Output of rdmawire


@functools.cache
def _plan():
    """Return the compared fields of each header: [(field, alias, display)]."""
    plan = {}
    for name, header in tables().items():
        rows = [(f["name"], alias, f["display"]) for f in header["fields"] for alias in f.get("wireshark", ())]
        if rows:
            plan[name] = rows
    return plan


def _add_layer(values, layer):
    fields = layer["fields"]
    for name, alias, display in _plan().get(layer["protocol"], ()):
        if name in fields:
            values.setdefault(alias, []).append(canonical(fields[name], display))
        elif display == "reserved":  # omitted if zero
            values.setdefault(alias, []).append(0)
    for part in layer.get("parts", ()):
        _add_layer(values, part)


def rdmawire_values(packet):
    """Convert a line of `dissect --json` to Wireshark's names."""
    values = {}
    for layer in packet["layers"]:
        _add_layer(values, layer)
    for pdu in packet.get("pdus", ()):
        for layer in pdu["layers"]:
            _add_layer(values, layer)
    for crc, alias in (("icrc", "infiniband.invariant.crc"), ("vcrc", "infiniband.variant.crc")):
        if "value" in packet.get(crc, {}):
            values[alias] = [int(packet[crc]["value"], 0)]
    return values


def dissect(path, *options):
    """Return the objects of `rdmawire dissect --json`."""
    return [json.loads(line) for line in run(RDMAWIRE, "dissect", "--json", *options, path).splitlines()]


# ---------------------------------------------------------------------------------------------------------------------
# Output of tshark


@functools.cache
def compared_fields():
    """Return the fields that both programs have: Wireshark's name to (rdmawire's display, tshark's type)."""
    known = tshark_fields()
    fields = {alias: (places[0][1]["display"], known[alias][0]) for alias, places in aliases().items() if alias in known}
    for crc in ("infiniband.invariant.crc", "infiniband.variant.crc"):
        fields.setdefault(crc, ("hexadecimal", known[crc][0]))
    return fields


def tshark_values(path):
    """Return the field values of each frame, keyed by Wireshark's field names."""
    names = sorted(compared_fields())
    command = ["tshark", "-r", str(path), *TSHARK_OPTIONS, "-T", "fields", "-E", "occurrence=a",
               "-E", f"aggregator={AGGREGATOR}", "-E", "separator=/t"]
    for name in names:
        command += ["-e", name]
    frames = []
    for line in run(*command).split("\n")[:-1]:
        values = {}
        for name, text in zip(names, line.split(SEPARATOR), strict=True):
            if text != "":
                display, kind = compared_fields()[name]
                values[name] = [canonical(value, display, kind) for value in text.split(AGGREGATOR)]
        frames.append(values)
    return frames
