"""Runs rdmawire and tshark over a capture and gives what both say of each frame, in one form.

What a program says of a frame is a dictionary: Wireshark's name of a field, to the list of its values in the order of
the frame. Values are compared as integers where they are numbers, else as text in one spelling.
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

# tshark's ways that would make it say something else than what the packet holds.
TSHARK_OPTIONS = [
    "-n",  # no names for addresses and ports
    "-o", "tcp.relative_sequence_numbers:FALSE",
    "-o", "tcp.try_heuristic_first:TRUE",  # else ports of other protocols hide iWARP
    "-o", "ipv6.defragment:FALSE",  # else what a first fragment holds is not read
    "-o", "tcp.reassemble_out_of_order:TRUE",  # else what came too early is read out of its place
]
SEPARATOR, AGGREGATOR = "\t", "\x1e"


class CannotRun(Exception):
    """A program is not there or not the right one; says which, and what was found."""


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, timeout=300, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr.decode(errors='replace')[-2000:]}")
    return done.stdout.decode(errors="replace")


def require_rdmawire():
    if not shutil.which(RDMAWIRE):
        raise CannotRun(f"needs {RDMAWIRE}: build it with cmake --build --preset dev, or name another in RDMAWIRE")


def require_tshark():
    if not shutil.which("tshark"):
        raise CannotRun("needs tshark")
    first = run("tshark", "--version").splitlines()[0]
    if not re.search(rf"\b{re.escape(TSHARK_VERSION)}\.", first):
        raise CannotRun(f"needs tshark {TSHARK_VERSION}; there is: {first}")


@functools.cache
def tables():
    """Our headers with their fields, as `rdmawire explain --json` gives them: name to header."""
    names = [header["id"] for header in json.loads(run(RDMAWIRE, "explain", "--json"))["headers"]]
    headers = {}
    for name in names:
        for line in run(RDMAWIRE, "explain", name, "--json").splitlines():
            topic = json.loads(line)
            if topic["kind"] == "header" and topic["id"] == name:
                headers[name] = topic
    missing = [name for name in names if name not in headers]
    assert not missing, f"explain lists these headers and does not explain them: {missing}"
    return headers


@functools.cache
def aliases():
    """Wireshark's names in our tables: each to its fields, as (header, field)."""
    found = {}
    for header in tables().values():
        for field in header["fields"]:
            for alias in field.get("wireshark", ()):
                found.setdefault(alias, []).append((header["id"], field))
    return found


@functools.cache
def tshark_fields():
    """All of tshark's fields: name to (type, protocol)."""
    fields = {}
    for line in run("tshark", "-G", "fields").splitlines():
        columns = line.split("\t")
        if columns[0] == "F":
            fields[columns[2]] = (columns[3], columns[4])
    return fields


# ---------------------------------------------------------------------------------------------------------------------
# One spelling of values.

_NUMBERS = {"decimal", "hexadecimal", "flag", "time", "reserved"}  # as explain names how a field is shown


def _hex_digits(text):
    return re.sub(r"[:.\-]", "", text).lower()


def canonical(value, display, tshark_type=None):
    """A value in the spelling that is compared; `display` is our table's, `tshark_type` None for our own values."""
    text = str(value)
    if tshark_type == "FT_RELATIVE_TIME":
        return int(Decimal(text) * 1_000_000_000)
    if display in _NUMBERS:
        return int(text, 16 if tshark_type == "FT_BYTES" else 0)
    if display in ("MAC address", "GUID", "bytes"):
        if text.startswith("0x"):  # a number to tshark: as many digits as a GUID has, or as it wrote
            return f"{int(text, 16):0{16 if display == 'GUID' else len(text) - 2}x}"
        return _hex_digits(text)
    if display in ("IPv4 address", "IPv6 address or GID"):
        if re.fullmatch("[0-9a-f]{32}", text):
            return str(ipaddress.ip_address(bytes.fromhex(text)))
        return str(ipaddress.ip_address(text))
    return text


# ---------------------------------------------------------------------------------------------------------------------
# Ours.


@functools.cache
def _plan():
    """Header to [(field's key, alias, display, is reserved)]."""
    plan = {}
    for name, header in tables().items():
        rows = [(f["name"], alias, f["display"]) for f in header["fields"] for alias in f.get("wireshark", ())]
        if rows:
            plan[name] = rows
    return plan


def _add_layer(said, layer):
    fields = layer["fields"]
    for name, alias, display in _plan().get(layer["protocol"], ()):
        if name in fields:
            said.setdefault(alias, []).append(canonical(fields[name], display))
        elif display == "reserved":  # written only where it is not zero
            said.setdefault(alias, []).append(0)
    for part in layer.get("parts", ()):
        _add_layer(said, part)


def ours(packet):
    """What a line of `dissect --json` says, by Wireshark's names."""
    said = {}
    for layer in packet["layers"]:
        _add_layer(said, layer)
    for pdu in packet.get("pdus", ()):
        for layer in pdu["layers"]:
            _add_layer(said, layer)
    for crc, alias in (("icrc", "infiniband.invariant.crc"), ("vcrc", "infiniband.variant.crc")):
        if "value" in packet.get(crc, {}):
            said[alias] = [int(packet[crc]["value"], 0)]
    return said


def dissect(path, *options):
    """The objects of `rdmawire dissect --json`."""
    return [json.loads(line) for line in run(RDMAWIRE, "dissect", "--json", *options, path).splitlines()]


# ---------------------------------------------------------------------------------------------------------------------
# tshark's.


@functools.cache
def compared_fields():
    """Wireshark's names that both know: each to our display and tshark's type."""
    known = tshark_fields()
    fields = {alias: (places[0][1]["display"], known[alias][0]) for alias, places in aliases().items() if alias in known}
    for crc in ("infiniband.invariant.crc", "infiniband.variant.crc"):
        fields.setdefault(crc, ("hexadecimal", known[crc][0]))
    return fields


def tshark_says(path):
    """For each frame, what tshark says, by its names."""
    names = sorted(compared_fields())
    command = ["tshark", "-r", str(path), *TSHARK_OPTIONS, "-T", "fields", "-E", "occurrence=a",
               "-E", f"aggregator={AGGREGATOR}", "-E", "separator=/t"]
    for name in names:
        command += ["-e", name]
    frames = []
    for line in run(*command).split("\n")[:-1]:
        said = {}
        for name, values in zip(names, line.split(SEPARATOR), strict=True):
            if values != "":
                display, kind = compared_fields()[name]
                said[name] = [canonical(value, display, kind) for value in values.split(AGGREGATOR)]
        frames.append(said)
    return frames
