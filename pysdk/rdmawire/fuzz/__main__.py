"""Command line of the fuzzer: ``python3 -m rdmawire.fuzz --help``."""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import tempfile
import traceback
import types
from pathlib import Path
from typing import Any

import rdmawire
from rdmawire import fuzz
from rdmawire.fuzz.jobs import Terminated, is_messages, report_text, run_jobs, status

EXAMPLES = """\
examples:
  python3 -m rdmawire.fuzz --executions 100000
  python3 -m rdmawire.fuzz --target reference:bounds-off-by-one --time 10 --report build/fuzz
  python3 -m rdmawire.fuzz --target reference:iwarp --executions 100000
  python3 -m rdmawire.fuzz --target lab:rxe --time 300 --corpus build/corpus --resume --report build/rxe
  python3 -m rdmawire.fuzz --executions 1000000 --jobs 4 --report build/four
  python3 -m rdmawire.fuzz --status build/four
  python3 -m rdmawire.fuzz --session mine.py --jobs 4 --report build/mine
  python3 -m rdmawire.fuzz --corpus build/all --merge build/corpus
  python3 -m rdmawire.fuzz --replay build/fuzz/01-…/script.json --target reference

exit status: 0 no findings, 1 findings, 2 usage error, 3 error of the target, of a file, or of the file of --session"""


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
    add("--session", metavar="FILE[:FUNCTION]", help="Fuzz your own target: FUNCTION(job, **options) in FILE returns a "
        "fuzz.MessageSession with these options. job is the number of the job from 0 [default function: session].")
    add("--job", type=int, default=0, help=argparse.SUPPRESS)
    add("--executions", type=int, default=0, metavar="N", help="Stop after N mutated steps.")
    add(
        "--time",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="Stop after SECONDS seconds [default: 60 without --executions].",
    )
    add("--seed", type=int, metavar="N", help="Set the seed of the session [default: random, printed in the report].")
    add(
        "--corpus",
        metavar="DIR",
        help="Store scripts that reach new edges in DIR, and each second the state of the session.",
    )
    add(
        "--resume",
        action="store_true",
        help="Continue the last session of the corpus with its seed, also after its process was killed.",
    )
    add("--merge", action="append", default=[], metavar="DIR", help="Add the scripts of DIR that reach new edges to "
        "the corpus, and end. May be repeated.")
    add("--minimize-corpus", action="store_true", help="Remove scripts that reach no edge of their own from the "
        "corpus, and end.")
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
        help="Write report.json, report.txt, index.html, and files to reproduce each finding, to DIR. Findings are "
        "written when they occur. DIR contains one session.",
    )
    add("--status", metavar="DIR", help="Print the counters of the session that writes its report to DIR, and end.")
    add("--jobs", type=int, default=1, metavar="N", help="Run N sessions in parallel, each with its own seed and its "
        "own directory in --corpus and --report [default: 1].")
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
    if chosen.session:
        check_session_options(parser, chosen)
    elif chosen.resume and not chosen.corpus:
        parser.error("--resume requires --corpus")
    if (chosen.merge or chosen.minimize_corpus) and not chosen.corpus:
        parser.error("--merge and --minimize-corpus require --corpus")
    if chosen.jobs < 1:
        parser.error("--jobs must be at least 1")
    if chosen.jobs > 1 and (chosen.target or "").startswith("agent:"):
        parser.error("--jobs requires a target that each job can start: reference or lab")
    return chosen


def check_session_options(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> None:
    """Exit with an error if options of devices are combined with --session."""
    for name in ("target", "corpus", "merge", "minimize_corpus", "plain", "replay", "faults", "wire", "allow", "credentials"):
        if getattr(chosen, name):
            parser.error(f"--session and --{name.replace('_', '-')} exclude each other")
    if chosen.resume and not chosen.report:
        parser.error("--session with --resume requires --report")


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


def feedback_of(chosen: argparse.Namespace) -> list[str]:
    return [] if chosen.feedback == "none" else chosen.feedback.split(",")


def device_options(chosen: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(chosen, name) for name in ("wire", "kernel", "allow", "credentials")}


def edit_corpus(chosen: argparse.Namespace) -> int:
    """Merge and minimize the corpus."""
    options = {"target": chosen.target or "reference", "feedback": feedback_of(chosen), **device_options(chosen)}
    if chosen.merge:
        before, after = fuzz.merge_corpus(chosen.corpus, chosen.merge, **options)
        print(f"{chosen.corpus}: {before} scripts before, {after} after the merge")
    if chosen.minimize_corpus:
        before, after = fuzz.minimize_corpus(chosen.corpus, **options)
        print(f"{chosen.corpus}: {before} scripts before, {after} after the minimization")
    return 0


def print_status(chosen: argparse.Namespace) -> int:
    report = status(chosen.status)
    s = report["statistics"]
    print(
        f"{report['target']}: {'running' if report['running'] else 'ended'}, {s['executions']} executions in "
        f"{s['seconds']:.1f} s, {s['corpus']} {'cases' if is_messages(report) else 'scripts'} in the corpus, "
        f"{s['findings']} findings, {s['resets' if is_messages(report) else 'restarts']} "
        f"{'resets' if is_messages(report) else 'restarts'}"
    )
    for finding in report["findings"]:
        print(f"  {finding['directory']}  seen {finding['times']}×")
    return 0


def run_parallel(chosen: argparse.Namespace) -> int:
    """Run several jobs and print one report."""
    seconds = chosen.time if chosen.time or chosen.executions else 60.0
    if chosen.session:
        arguments = ["--session", chosen.session]
    else:
        arguments = ["--target", chosen.target or "reference", "--feedback", chosen.feedback, "--kernel", chosen.kernel]
    arguments += ["--time", str(seconds)] if seconds else []
    arguments += ["--plain"] if chosen.plain else []
    arguments += ["--stop-at-first"] if chosen.stop_at_first else []

    def show_all(report: dict[str, Any]) -> None:
        s = report["statistics"]
        line = f"{s['executions']:,} executions  {report['jobs']} jobs  {s['findings']} findings"
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)

    with contextlib.ExitStack() as stack:
        directory = chosen.report or stack.enter_context(tempfile.TemporaryDirectory(prefix="rdmawire-fuzz-"))
        report, result = run_jobs(
            chosen.jobs, arguments, report=Path(directory), corpus=Path(chosen.corpus) if chosen.corpus else None,
            own=bool(chosen.session),
            seed=chosen.seed, resume=chosen.resume, executions=chosen.executions, stop_at_first=chosen.stop_at_first,
            show=show_all if sys.stderr.isatty() else None,
        )  # fmt: skip
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    print(json.dumps(report, indent=1) if chosen.json else report_text(report), end="\n" if chosen.json else "")
    return result


def own_session(chosen: argparse.Namespace) -> fuzz.MessageSession:
    """Return the session of the function in the file of --session."""
    path, _, name = chosen.session.rpartition(":")
    if not path or not name.isidentifier():
        path, name = chosen.session, "session"
    try:
        code = compile(Path(path).read_text(encoding="utf-8"), path, "exec")
    except SyntaxError as error:
        raise rdmawire.UsageError(f"{path}: {error}") from error
    sys.path.insert(0, str(Path(path).resolve().parent))
    module = types.ModuleType("rdmawire_session")
    module.__file__ = path
    sys.modules[module.__name__] = module  # dataclasses and pickle find it there
    exec(code, vars(module))
    function = getattr(module, name, None)
    if not callable(function):
        raise rdmawire.UsageError(f"{path} has no function {name}(job, **options)")
    options = {"seed": chosen_seed(chosen), "directory": chosen.report, "resume": chosen.resume}
    options["stop_at_first"] = chosen.stop_at_first
    session = function(chosen.job, **options)
    if not isinstance(session, fuzz.MessageSession):
        raise rdmawire.UsageError(f"{path}: {name}() must return a fuzz.MessageSession, got {type(session).__name__}")
    return session


def run_own(chosen: argparse.Namespace) -> int:
    """Run the session of --session, and print its report."""
    seconds = chosen.time if chosen.time or chosen.executions else 60.0
    with own_session(chosen) as session:
        try:
            session.run(chosen.executions, seconds)
        except KeyboardInterrupt:
            pass  # the report covers the completed part
        finally:  # also after an error of the target or of the session
            print(json.dumps(session.to_dict(), indent=1) if chosen.json else session.report().rstrip("\n"))
        return int(bool(session.findings))


def chosen_seed(chosen: argparse.Namespace) -> int | None:
    """Return the seed of the session. None: that of the resumed session."""
    state = chosen.report if chosen.session else chosen.corpus
    if chosen.seed is not None or (chosen.resume and (Path(state) / "session.json").exists()):
        return chosen.seed  # type: ignore[no-any-return]
    return random.SystemRandom().getrandbits(32)


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
    if chosen.status:
        return print_status(chosen)
    if chosen.merge or chosen.minimize_corpus:
        return edit_corpus(chosen)
    if chosen.jobs > 1:
        return run_parallel(chosen)
    if chosen.session:
        return run_own(chosen)
    target = chosen.target or "reference"
    seconds = chosen.time if chosen.time or chosen.executions else 60.0
    interactive = sys.stderr.isatty()
    with fuzz.Session(
        target,
        seed=chosen_seed(chosen),
        plain=chosen.plain,
        stop_at_first=chosen.stop_at_first,
        corpus=chosen.corpus,
        resume=chosen.resume,
        report=chosen.report,
        feedback=feedback_of(chosen),
        **device_options(chosen),
    ) as session:
        device_error = None
        try:
            session.run(chosen.executions, seconds, show if interactive else False)
        except KeyboardInterrupt:
            pass  # the report covers the completed part
        except rdmawire.DeviceError as error:
            device_error = error
        if interactive:
            print("\r\x1b[K", end="", file=sys.stderr)
        if chosen.report:
            session.write(chosen.report)
        if chosen.json:
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
    except Terminated:
        return 143
    except BaseException:  # raised by the user's target. The status of a SystemExit is ignored
        traceback.print_exc()
        return 3


if __name__ == "__main__":
    sys.exit(main())
