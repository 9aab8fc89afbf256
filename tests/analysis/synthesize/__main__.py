"""python -m synthesize: writes a capture and its manifest."""

import argparse
from pathlib import Path

from . import cases, joining
from .capture import save


def main():
    parser = argparse.ArgumentParser(prog="python -m synthesize", description=__doc__)
    parser.add_argument("output", type=Path, help="OUTPUT.pcap and OUTPUT.json are written")
    parser.add_argument("--seed", type=int, default=1)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--cases", type=int, help="so many connections, with faults and without")
    what.add_argument("--connections", type=int, help="so many connections without faults, whose halves are to be joined")
    parser.add_argument("--only", help="cases of this name alone; see cases.py")
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--kind", default="random", choices=joining.KINDS)
    options = parser.parse_args()
    if options.connections:
        frames = joining.make(options.connections, options.seed, options.hosts, options.kind)
    else:
        frames = cases.make(options.cases or 1000, options.seed, options.only)
    manifest = save(frames, options.output.with_suffix(".pcap"), options.output.with_suffix(".json"),
                    seed=options.seed)
    print(f"seed {options.seed}: {manifest['packets']} packets, {len(manifest['connections'])} connections, "
          f"{sum(event['required'] for event in manifest['events'])} events to be found")


if __name__ == "__main__":
    main()
