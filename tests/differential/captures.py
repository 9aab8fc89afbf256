"""The captures of the tests: captures/samples, and ../shared/captures if it exists."""

import dataclasses
import functools
import gzip
import os
import struct
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "captures" / "samples"
SHARED = Path(os.environ.get("RDMAWIRE_SHARED", ROOT.parent / "shared")) / "captures"
WITHOUT_SHARED = "requires ../shared/captures next to the repository"
ENDINGS = (".pcap", ".pcapng", ".pcap.gz", ".pcap.zst", ".pcapng.zst")


@dataclasses.dataclass(frozen=True)
class Capture:
    name: str  # the name in known.toml, such as "samples/rping.pcap"
    path: Path


def content_of(path):
    """Return the uncompressed bytes of a capture."""
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes())
    if path.suffix == ".zst":
        return subprocess.run(["zstd", "-dcq", path], stdout=subprocess.PIPE, check=True).stdout
    return path.read_bytes()


def _in(folder, name):
    return [Capture(f"{name}/{path.name}", path) for path in sorted(folder.glob("*")) if path.name.endswith(ENDINGS)]


@functools.cache
def all_captures():
    """Return every capture once, without those of ../shared whose content equals a sample's."""
    samples = _in(SAMPLES, "samples")
    shared = _in(SHARED, "shared") + _in(SHARED / "public", "shared/public")
    seen = set()
    captures = []
    for capture in samples + shared:
        content = content_of(capture.path)
        if content not in seen:
            seen.add(content)
            captures.append(capture)
    return captures


def capture_named(name):
    """Return the capture with this name, or None."""
    return next((capture for capture in all_captures() if capture.name == name), None)


# ---------------------------------------------------------------------------------------------------------------------
# Frames for modified captures


@dataclasses.dataclass
class Frame:
    seconds: int
    fraction: int
    wire_length: int
    data: bytearray


def read_pcap(path):
    """Return (link type, frames) of a little-endian pcap file."""
    data = content_of(path)
    magic, _, _, _, _, _, link = struct.unpack_from("<IHHiIII", data)
    assert magic == 0xA1B2C3D4, f"{path} is not a little-endian pcap with microseconds"
    frames, at = [], 24
    while at < len(data):
        seconds, fraction, captured, wire = struct.unpack_from("<IIII", data, at)
        frames.append(Frame(seconds, fraction, wire, bytearray(data[at + 16 : at + 16 + captured])))
        at += 16 + captured
    return link, frames


def write_pcap(path, link, frames):
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, link))
        for frame in frames:
            out.write(struct.pack("<IIII", frame.seconds, frame.fraction, len(frame.data), frame.wire_length))
            out.write(frame.data)
