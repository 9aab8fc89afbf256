"""Command line of the fuzzer: ``python3 -m rdmawire.fuzz --help``."""

from __future__ import annotations

import argparse
import random
import sys

import rdmawire
from rdmawire import fuzz

EXAMPLES = """\
examples:
  python3 -m rdmawire.fuzz --executions 100000
  python3 -m rdmawire.fuzz --target reference:bounds-off-by-one --time 10 --report build/fuzz
  python3 -m rdmawire.fuzz --target reference:iwarp --executions 100000
  python3 -m rdmawire.fuzz --target lab:rxe --time 300 --corpus build/corpus --resume --report build/rxe
  python3 -m rdmawire.fuzz --replay build/fuzz/01-…/script.json --target reference

exit status: 0 no findings, 1 findings, 2 usage error, 3 error of the target or of a file"""


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 -m rdmawire.fuzz",
        description="Fuzz an RDMA device: mutate one field at a time on a live connection, and compare the device with "
        "the reference device.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--target",
        metavar="TARGET",
        help="Fuzz this device: reference, reference:FAULT,…, reference:iwarp, reference:iwarp:FAULT,…, lab:rxe, "
        "lab:siw, agent:ADDRESS [default: reference, or the reference device for the script of --replay].",
    )
    add("--executions", type=int, default=0, metavar="N", help="Stop after N mutated steps.")
    add(
        "--time",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="Stop after SECONDS seconds [default: 60 without --executions].",
    )
    add("--seed", type=int, metavar="N", help="Set the seed of the session [default: random, printed in the report].")
    add("--corpus", metavar="DIR", help="Store scripts that reach new edges in DIR.")
    add("--resume", action="store_true", help="Continue the last session of the corpus.")
    add(
        "--feedback",
        metavar="KINDS",
        default=",".join(fuzz.FEEDBACK),
        help="Store scripts that reach new edges of these kinds: answers, code (of a reference device), monitors, none "
        "[default: %(default)s].",
    )
    add(
        "--report",
        metavar="DIR",
        help="Write report.json, report.txt, index.html, and files to reproduce each finding, to DIR.",
    )
    add("--plain", action="store_true", help="Mutate single packets randomly, without protocol state.")
    add("--stop-at-first", action="store_true", help="Stop after the first finding.")
    add("--json", action="store_true", help="Print the report as JSON.")
    add("--replay", metavar="FILE", help="Run this script.json once instead of fuzzing.")
    add("--faults", action="store_true", help="List the faults of the reference devices.")
    add("--wire", default="", metavar="WIRE", help="Use this wire to the device of an agent, for example packet:eth0.")
    add(
        "--allow",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="Allow sending frames to this address. May be repeated.",
    )
    add("--credentials", default="", metavar="FILE", help="Authenticate to the agent with the key in FILE.")
    add(
        "--kernel",
        default="debian",
        metavar="KERNEL",
        help="Boot this kernel in the lab: debian, newest [default: %(default)s].",
    )
    add("--version", action="version", version=f"rdmawire {rdmawire.__version__}")
    chosen = parser.parse_args(argv)
    if chosen.executions < 0 or chosen.time < 0:
        parser.error("--executions and --time must not be negative")
    if chosen.seed is not None and not 0 <= chosen.seed < 1 << 64:
        parser.error("--seed must be a number of 64 bits")
    if chosen.resume and not chosen.corpus:
        parser.error("--resume requires --corpus")
    return chosen


def show(statistics: fuzz.Statistics) -> None:
    """Update the status line on a terminal."""
    edges = f"{statistics.edges:,}"
    if statistics.code_edges is not None:
        edges += f" + {statistics.code_edges:,} code"
    if statistics.monitor_edges is not None:
        edges += f" + {statistics.monitor_edges:,} monitor"
    print(
        f"\r\x1b[K{statistics.executions:,} executions  {statistics.rate:,.0f}/s  {edges} edges  "
        f"{statistics.corpus:,} in corpus  {statistics.findings} findings  {statistics.restarts} restarts",
        end="",
        file=sys.stderr,
        flush=True,
    )


def run(chosen: argparse.Namespace) -> int:
    if chosen.faults:
        for fault in fuzz.faults():
            print(f"{fault.target:52} {fault.concern or '':14} {fault.sentence}")
        return 0
    if chosen.replay:
        with open(chosen.replay, encoding="utf-8") as file:
            script = fuzz.Script.from_json(file.read())
        return fuzz.reproduce(
            script,
            chosen.target,
            wire=chosen.wire,
            kernel=chosen.kernel,
            allow=chosen.allow,
            credentials=chosen.credentials,
        )
    target = chosen.target or "reference"
    seed = chosen.seed if chosen.seed is not None else random.SystemRandom().getrandbits(32)
    seconds = chosen.time if chosen.time or chosen.executions else 60.0
    interactive = sys.stderr.isatty()
    with fuzz.Session(
        target,
        seed=seed,
        plain=chosen.plain,
        stop_at_first=chosen.stop_at_first,
        corpus=chosen.corpus,
        resume=chosen.resume,
        feedback=[] if chosen.feedback == "none" else chosen.feedback.split(","),
        wire=chosen.wire,
        allow=chosen.allow,
        credentials=chosen.credentials,
        kernel=chosen.kernel,
    ) as session:
        device_error = None
        try:
            session.run(chosen.executions, seconds, show if interactive else None)
        except KeyboardInterrupt:
            pass  # the report covers the completed part
        except rdmawire.DeviceError as error:
            device_error = error
        if interactive:
            print("\r\x1b[K", end="", file=sys.stderr)
        if chosen.report:
            session.write(chosen.report)
        if chosen.json:
            import json

            print(json.dumps(session.to_dict(), indent=1))
        else:
            print(session.report(), end="")
        if device_error is not None:
            print(f"rdmawire.fuzz: {device_error}", file=sys.stderr)
            return 3
        return 1 if session.findings else 0


def main(argv: list[str] | None = None) -> int:
    chosen = arguments(argv)
    try:
        return run(chosen)
    except rdmawire.UsageError as error:
        print(f"rdmawire.fuzz: {error}", file=sys.stderr)
        return 2
    except (rdmawire.Error, OSError) as error:
        print(f"rdmawire.fuzz: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
