"""python3 -m rdmawire.fuzz: see --help."""

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

exit status: 0 nothing found, 1 findings, 2 usage, 3 trouble with the target or a file"""


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 -m rdmawire.fuzz",
        description="Fuzzes an RDMA device: walks the states of a live connection, says one thing wrong at a time, and "
        "compares what comes of it with the reference device.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--target",
        help="reference, reference:FAULT,…, reference:iwarp, reference:iwarp:FAULT,…, lab:rxe, lab:siw, agent:ADDRESS; "
        "without it the sound reference device, of RoCE or as the script of --replay needs it",
    )
    add("--executions", type=int, default=0, metavar="N", help="end after so many mutated steps")
    add("--time", type=float, default=0.0, metavar="S", help="end after so many seconds; 60 when neither is given")
    add("--seed", type=int, metavar="N", help="of a session that can be repeated; else a random one, which is told")
    add("--corpus", metavar="DIR", help="where interesting scripts are kept")
    add("--resume", action="store_true", help="go on where the corpus's last session ended")
    add(
        "--feedback",
        metavar="KINDS",
        default=",".join(fuzz.FEEDBACK),
        help="for which new edges a script is interesting: answers, code (of a reference device), monitors (%(default)s); "
        "none: for none",
    )
    add("--report", metavar="DIR", help="write report.json, report.txt, index.html, and files to reproduce each finding")
    add("--plain", action="store_true", help="without knowledge of states: random changes of single packets")
    add("--stop-at-first", action="store_true", help="end with the first finding")
    add("--json", action="store_true", help="the report on standard output as JSON")
    add("--replay", metavar="FILE", help="run this script.json once instead")
    add("--faults", action="store_true", help="list the faults that the reference device can have")
    add("--wire", default="", metavar="WIRE", help="the way to an agent's device: packet:eth0")
    add("--allow", action="append", default=[], metavar="ADDRESS", help="an address that crafted frames may be sent to")
    add("--secret-file", default="", metavar="FILE", help="the secret that the agent shares with us")
    add("--kernel", default="debian", help="of the lab: debian or newest (%(default)s)")
    add("--version", action="version", version=f"rdmawire {rdmawire.__version__}")
    chosen = parser.parse_args(argv)
    if chosen.executions < 0 or chosen.time < 0:
        parser.error("--executions and --time are not negative")
    if chosen.seed is not None and not 0 <= chosen.seed < 1 << 64:
        parser.error("--seed is a number of 64 bits")
    if chosen.resume and not chosen.corpus:
        parser.error("--resume needs --corpus")
    return chosen


def show(statistics: fuzz.Statistics) -> None:
    """The status line of a terminal."""
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
            secret_file=chosen.secret_file,
        )
    target = chosen.target or "reference"
    seed = chosen.seed if chosen.seed is not None else random.SystemRandom().getrandbits(32)
    seconds = chosen.time if chosen.time or chosen.executions else 60.0
    looked_on = sys.stderr.isatty()
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
        secret_file=chosen.secret_file,
        kernel=chosen.kernel,
    ) as session:
        trouble = None
        try:
            session.run(chosen.executions, seconds, show if looked_on else None)
        except KeyboardInterrupt:
            pass  # the report says how far it came
        except rdmawire.DeviceError as error:
            trouble = error
        if looked_on:
            print("\r\x1b[K", end="", file=sys.stderr)
        if chosen.report:
            session.write(chosen.report)
        if chosen.json:
            import json

            print(json.dumps(session.to_dict(), indent=1))
        else:
            print(session.report(), end="")
        if trouble is not None:
            print(f"rdmawire.fuzz: {trouble}", file=sys.stderr)
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
