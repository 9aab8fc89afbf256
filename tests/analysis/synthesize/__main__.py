"""Write a synthesized capture and its manifest."""

import argparse
from pathlib import Path

from . import cases, pairing
from .capture import save


def main():
    parser = argparse.ArgumentParser(prog="python -m synthesize", description=__doc__)
    parser.add_argument("output", type=Path, help="write OUTPUT.pcap and OUTPUT.json")
    parser.add_argument("--seed", type=int, default=1)
    contents = parser.add_mutually_exclusive_group()
    contents.add_argument("--cases", type=int, help="number of connections, with and without faults [default: 1000]")
    contents.add_argument("--connections", type=int,
                          help="number of connections without faults, to test the pairing of directions")
    parser.add_argument("--only", help="generate only cases of this name; see cases.py")
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--kind", default="random", choices=pairing.KINDS)
    options = parser.parse_args()
    if options.connections:
        frames = pairing.make(options.connections, options.seed, options.hosts, options.kind)
    else:
        frames = cases.make(options.cases or 1000, options.seed, options.only)
    manifest = save(frames, options.output.with_suffix(".pcap"), options.output.with_suffix(".json"),
                    seed=options.seed)
    print(f"seed {options.seed}: {manifest['packets']} packets, {len(manifest['connections'])} connections, "
          f"{sum(event['required'] for event in manifest['events'])} required events")


if __name__ == "__main__":
    main()
