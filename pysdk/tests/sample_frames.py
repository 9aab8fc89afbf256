"""Frames of the sample captures, read with scapy."""

import functools
import gzip
import io
import subprocess
from pathlib import Path

from scapy.utils import RawPcapNgReader, RawPcapReader

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "captures" / "samples"
FILES = sorted(path.name for path in SAMPLES.iterdir() if ".pcap" in path.name)


@functools.cache
def frames(name):
    """Return (bytes, link type number, bytes on the wire) of each frame of a sample."""
    path = SAMPLES / name
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    elif path.suffix == ".zst":
        content = subprocess.run(["zstd", "-dc", path], check=True, capture_output=True).stdout
    if content[:4] == b"\x0a\x0d\x0d\x0a":
        return [(data, meta.linktype, meta.wirelen) for data, meta in RawPcapNgReader(io.BytesIO(content))]
    reader = RawPcapReader(io.BytesIO(content))
    return [(data, reader.linktype, meta.wirelen) for data, meta in reader]


def all_frames():
    for name in FILES:
        yield from frames(name)
