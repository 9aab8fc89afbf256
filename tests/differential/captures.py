"""The captures that the tests read: captures/samples, and ../shared/captures where it exists."""

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
WITHOUT_SHARED = "needs ../shared/captures beside the repository"
ENDINGS = (".pcap", ".pcapng", ".pcap.gz", ".pcap.zst", ".pcapng.zst")


@dataclasses.dataclass(frozen=True)
class Capture:
    name: str  # as known.toml writes it: "samples/rping.pcap"
    path: Path


def content_of(path):
    """The bytes of a capture, without its compression."""
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes())
    if path.suffix == ".zst":
        return subprocess.run(["zstd", "-dcq", path], stdout=subprocess.PIPE, check=True).stdout
    return path.read_bytes()


def _in(folder, name):
    return [Capture(f"{name}/{path.name}", path) for path in sorted(folder.glob("*")) if path.name.endswith(ENDINGS)]


@functools.cache
def all_captures():
    """Every capture once: one of ../shared that is a sample too, whatever its compression, is not listed again."""
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
    """The capture that known.toml calls so, or None. A sample's name also finds it where only ../shared has it."""
    return next((capture for capture in all_captures() if capture.name == name), None)


# ---------------------------------------------------------------------------------------------------------------------
# Frames, to be changed and written again.


@dataclasses.dataclass
class Frame:
    seconds: int
    fraction: int
    wire_length: int
    data: bytearray


def read_pcap(path):
    """(link type, frames) of a classic little-endian pcap, compressed or not."""
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
