"""Captured traffic played again: as it was, rewritten for a live peer, with faults, through a function of yours.

    report = rdmawire.replay("x.pcap", wire="packet:veth0", speed=10, map=["qp:0x11=0x777"], faults=["drop psn +5 try 1"])

docs/how-to/replay-a-capture.md says what mappings, faults and the options mean; the report's ``json`` is what the command prints.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from typing import Any

from rdmawire import _core
from rdmawire._core import PlayedFrame
from rdmawire.captures import open_capture
from rdmawire.devices import Device
from rdmawire.wires import Wire, open_wire

__all__ = ["PlayedFrame", "ReactiveReport", "ReplayReport", "areplay", "learn_map", "replay", "replay_reactive"]

#: A capture file, or several.
Captures = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
#: A wire by name, an open one, or several of them.
Wires = str | Wire | Iterable[str | Wire] | None
#: What a function that sees each frame says: None or True, as it is; False, not at all; bytes or a Frame in its place.
OnFrame = Callable[[PlayedFrame], Any]

USUAL_CAP = 1_000_000_000  # bits a second where someone had to allow the target


class ReplayReport:
    """What a replay did. ``json`` is what ``rdmawire replay --json`` prints (docs/reference/schemas/replay.schema.json)."""

    def __init__(self, json: dict[str, Any], text: str, trouble: str, unable: int) -> None:
        self.json = json
        self._text = text
        self.trouble = trouble  #: why it ended early; empty: it did not
        self.unable = unable  #: frames that were to be sent and could not be
        #: With dry_run: of each frame its number and what would be rewritten.
        self.differences: list[tuple[int, list[str]]] = []

    @property
    def ok(self) -> bool:
        """Nothing ended it early, and all that was to be sent was."""
        return not self.trouble and not self.unable

    @property
    def sent(self) -> int:
        """Frames that were handed over and have left."""
        return int(self.json["sent"]["frames"])

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        ended = f"; ended early: {self.trouble}" if self.trouble else ""
        return f"<ReplayReport {self._text.splitlines()[0] if self._text else ''}{ended}>"


class ReactiveReport:
    """What came of a reactive replay (docs/how-to/replay-against-a-live-peer.md)."""

    def __init__(self, made: dict[str, Any]) -> None:
        self.json: dict[str, Any] = made["json"]
        self.ok: bool = made["good"]  #: everything was played and answered as in the capture
        self.failure: str = made["failure"]  #: why it did not come to its end; empty: it did
        self._text: str = made["text"]

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<ReactiveReport {'as captured' if self.ok else self.failure or 'otherwise than captured'}>"


class _Prepared:
    """A replay with its wires, which are closed behind it where they were opened here."""

    def __init__(
        self,
        captures: Captures,
        wire: Wires,
        map: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        faults: str | Iterable[str],
        on_frame: OnFrame | None,
        on_progress: Callable[[dict[str, Any]], Any] | None,
        dry_run: bool,
        allow_target: str | Iterable[str],
        options: dict[str, Any],
    ) -> None:
        self._opened: list[Wire] = []
        self._dry = dry_run
        self._differences: list[tuple[int, list[str]]] = []
        allowed = {allow_target} if isinstance(allow_target, str) else set(allow_target)
        given = {key: value for key, value in options.items() if value is not None}
        given |= {
            "map": _paths(map),
            "faults": faults if isinstance(faults, str) else "\n".join(faults),
            "dry_run": dry_run,
            "on_progress": on_progress,
        }
        if dry_run:
            given["on_frame"] = self._shown(on_frame)
        elif on_frame is not None:
            given["on_frame"] = on_frame
        try:
            wires, safe = self._wires(wire, allowed)
            given.setdefault("rate_cap", 0 if safe else USUAL_CAP)
            given.setdefault(
                "allow_multicast",
                all(one.capabilities.virtual_time or one.name.startswith(("null", "pair:")) for one in wires),
            )
            paths = _paths(captures)
            _check_first(paths)
            self.player = _core._Player(paths, [one._core for one in wires], given)
        except BaseException:
            self.close()
            raise

    def _wires(self, wire: Wires, allowed: set[str]) -> tuple[list[Wire], bool]:
        if wire is None:
            if not self._dry:
                raise _core.UsageError("replay: where to? wire= says it, or dry_run=True sends nothing")
            return [], True
        wires: list[Wire] = []
        all_safe = True
        for one in [wire] if isinstance(wire, str | Wire) else list(wire):
            name = one if isinstance(one, str) else one.name
            if isinstance(one, str) or name.startswith(("packet:", "xdp:", "verbs:")):
                target = _core._judge_target(name)
                if not self._dry and not target["safe"] and target["name"] not in allowed:
                    raise _core.UsageError(
                        f"{name} ({target['about']}): frames that others made are sent there only with "
                        f"allow_target=\"{target['name']}\""
                    )
                all_safe = all_safe and target["safe"]
            if isinstance(one, str):
                if self._dry:
                    continue
                one = open_wire(name)
                self._opened.append(one)
            if not one.capabilities.sends:
                raise _core.UsageError(f"{name}: this wire sends nothing")
            wires.append(one)
        return wires, all_safe

    def _shown(self, on_frame: OnFrame | None) -> OnFrame:
        # Without this object, which holds the player that holds the function.
        differences = self._differences

        def show(frame: PlayedFrame) -> Any:
            differences.append((frame.number, frame.changes))
            return None if on_frame is None else on_frame(frame)

        return show

    def run(self) -> ReplayReport:
        try:
            report = ReplayReport(*self.player.run())
        finally:
            self.close()
        report.differences = self._differences
        return report

    def close(self) -> None:
        for wire in self._opened:
            wire.close()


def _paths(paths: Captures) -> list[str]:
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    return [os.fspath(path) for path in paths]


def _check_first(paths: list[str]) -> None:
    """CaptureError where there is nothing to play. A pipe is opened once only, by who plays it."""
    if paths and (os.path.isfile(paths[0]) or not os.path.exists(paths[0])):
        with open_capture(paths[0]):
            pass


def replay(
    capture: Captures,
    wire: Wires = None,
    *,
    map: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    faults: str | Iterable[str] = (),
    on_frame: OnFrame | None = None,
    on_progress: Callable[[dict[str, Any]], Any] | None = None,
    dry_run: bool = False,
    allow_target: str | Iterable[str] = (),
    **options: Any,
) -> ReplayReport:
    """Plays captures onto a wire, or several, and gives the report. Ctrl-C ends it with KeyboardInterrupt.

    ``map``: mapping files and assignments such as "qp:0x11=0x777". ``faults``: rules of docs/reference/fault-language.md. ``on_frame`` is
    called with each :class:`PlayedFrame` before it is sent, before faults: None lets it go, False drops it, bytes or a
    Frame go in its place. ``on_progress`` is called with sent,
    pattern_bytes, frames_per_second, … What either raises ends the replay and comes out here. ``dry_run`` sends nothing;
    ``report.differences`` has what would be rewritten. Interfaces that may lead anywhere need ``allow_target``. The first
    capture must be one, else CaptureError; what is wrong later is the report's ``trouble``.

    Options are those of the command, with underscores: speed, pps, bps, top, burst, max_gap, spin, preload; loops,
    pause, continue_psns, ip_step, qp_step; limit, max_bytes, seconds, include, exclude, split; unmapped, others, crc,
    icrc_mask, hop_limit, dscp, flow_label; snapped, truncate, allow_multicast, rate_cap; fault_seed. Times are seconds.
    """
    return _Prepared(capture, wire, map, faults, on_frame, on_progress, dry_run, allow_target, options).run()


async def areplay(
    capture: Captures,
    wire: Wires = None,
    *,
    map: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    faults: str | Iterable[str] = (),
    on_frame: OnFrame | None = None,
    on_progress: Callable[[dict[str, Any]], Any] | None = None,
    dry_run: bool = False,
    allow_target: str | Iterable[str] = (),
    **options: Any,
) -> ReplayReport:
    """As :func:`replay`, while other tasks go on. Canceling the task ends the replay. Functions are called in a thread."""
    prepared = _Prepared(capture, wire, map, faults, on_frame, on_progress, dry_run, allow_target, options)
    running = asyncio.get_running_loop().run_in_executor(None, prepared.run)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        prepared.player.stop()
        await asyncio.wait([running])
        raise


def learn_map(capture: Captures, map: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = ()) -> str:
    """A mapping file, learnt from captures, to be filled in with what is live; ``map`` fills in already."""
    return _core._learn_map(_paths(capture), _paths(map))


def replay_reactive(
    capture: str | os.PathLike[str],
    device: Device,
    *,
    connection: int = 0,
    side: str = "",
    faults: str | Iterable[str] = (),
    seed: int = 1,
    output: str | os.PathLike[str] = "",
    retry_after: float = 0.5,
    step_timeout: float = 10.0,
) -> ReactiveReport:
    """Plays one side of a captured connection against a live device, and waits for what it says (docs/how-to/replay-against-a-live-peer.md).

    ``connection``: the capture's n-th, from 1; 0: the one with most bytes. ``side``: the end that is played, "a" or
    "b"; empty: the one that sent more. ``output``: a capture of what was said.
    """
    if side not in ("", "a", "b"):
        raise _core.UsageError(f"side={side!r}: it is a or b")
    rules = faults if isinstance(faults, str) else "\n".join(faults)
    return ReactiveReport(
        _core._replay_reactive(
            os.fspath(capture),
            device._core,
            connection,
            side,
            rules,
            seed,
            os.fspath(output),
            retry_after,
            step_timeout,
        )
    )
