"""Replay of captured traffic: unchanged, rewritten for a live peer, with injected faults, or with a callback.

    report = rdmawire.replay("x.pcap", wire="packet:veth0", map=["qp:0x11=0x777"], faults=["drop psn +5 try 1"])

docs/how-to/replay-a-capture.md describes mappings, faults and options. The report's ``json`` is the output of the
command.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from typing import Any

from rdmawire import _core
from rdmawire._core import PlayedFrame
from rdmawire.captures import Capture, open_capture
from rdmawire.devices import Device
from rdmawire.outputs import refuse_inputs
from rdmawire.progress import bar_of, shows_bar
from rdmawire.sources import Source, files_of, native, on_disk
from rdmawire.wires import Wire, open_wire

__all__ = ["PlayedFrame", "ReactiveReport", "ReplayReport", "areplay", "learn_map", "replay", "replay_reactive"]

#: One or several captures: paths, bytes, file objects, URLs of fsspec, or open captures.
Captures = Source | Capture | Iterable[Source | Capture]
#: One or several wires: names or open wires.
Wires = str | Wire | Iterable[str | Wire] | None
#: A function called with each frame. It returns None or True to send it, False to drop it, or a replacement.
OnFrame = Callable[[PlayedFrame], Any]

DEFAULT_RATE_CAP = 1_000_000_000  # bits per second. The default if allow_target is required


class ReplayReport:
    """Report of a replay. ``json`` is the output of ``rdmawire replay --json``."""

    def __init__(self, json: dict[str, Any], text: str, error: str, unsent: int) -> None:
        self.json = json
        self._text = text
        self.error = error  #: why the replay ended early, or empty
        self.unsent = unsent  #: number of frames that could not be sent
        #: With dry_run: number and rewritten fields of each frame.
        self.differences: list[tuple[int, list[str]]] = []

    @property
    def ok(self) -> bool:
        """Whether the replay is complete and all frames were sent."""
        return not self.error and not self.unsent

    @property
    def sent(self) -> int:
        """Number of frames sent."""
        return int(self.json["sent"]["frames"])

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        ended = f"; ended early: {self.error}" if self.error else ""
        return f"<ReplayReport {self._text.splitlines()[0] if self._text else ''}{ended}>"


class ReactiveReport:
    """Report of a reactive replay (docs/how-to/replay-against-a-live-peer.md)."""

    def __init__(self, made: dict[str, Any]) -> None:
        self.json: dict[str, Any] = made["json"]
        self.ok: bool = made["good"]  #: whether the exchange matches the capture
        self.failure: str = made["failure"]  #: why the exchange is incomplete, or empty
        self._text: str = made["text"]

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<ReactiveReport {'as captured' if self.ok else self.failure or 'differs from the capture'}>"


def _is_interface(name: str) -> bool:
    try:
        import socket

        socket.if_nametoindex(name)
    except OSError:
        return False
    return True


class _Prepared:
    """A prepared replay. Closes the wires that it opened."""

    def __init__(
        self,
        captures: Captures,
        wire: Wires,
        map: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        faults: str | Iterable[str],
        on_frame: OnFrame | None,
        on_progress: Callable[[dict[str, Any]], Any] | None,
        progress: bool | None,
        dry_run: bool,
        allow_target: str | Iterable[str],
        options: dict[str, Any],
    ) -> None:
        self._bar = contextlib.ExitStack()
        if on_progress is None and shows_bar(progress):
            show = self._bar.enter_context(bar_of(progress, "replay", unit="frame", scale=True))

            def on_progress(now: dict[str, Any]) -> None:
                rate = f"{now['bits_per_second'] / 1e6:,.0f} Mbit/s"
                show(now["position"], rate, total=now["total"] or None)

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
            paths, self._held = on_disk(captures)
            wire = wire if wire is None or isinstance(wire, str | Wire) else list(wire)
            self._refuse_inputs(paths, wire)
            wires, safe = self._wires(wire, allowed)
            given.setdefault("rate_cap", 0 if safe else DEFAULT_RATE_CAP)
            given.setdefault("allow_multicast", safe)
            _check_first(paths)
            self.player = _core._Player(paths, [one._core for one in wires], given)
        except BaseException:
            self.close()
            raise

    def _wires(self, wire: Wires, allowed: set[str]) -> tuple[list[Wire], bool]:
        if wire is None:
            if not self._dry:
                raise _core.UsageError("replay: expected wire= or dry_run=True")
            return [], True
        wires: list[Wire] = []
        all_safe = True
        for one in [wire] if isinstance(wire, str | Wire) else list(wire):
            name = one if isinstance(one, str) else one.name
            if isinstance(one, str) or name.startswith(("packet:", "xdp:", "verbs:")):
                target = _core._classify_target(name)
                if not self._dry and not target["safe"] and target["name"] not in allowed:
                    if name.startswith(("packet:", "xdp:")) and not _is_interface(target["name"]):
                        open_wire(name).close()  # raises WireError
                    raise _core.UsageError(
                        f"refusing to send captured frames to {name} ({target['about']}); use "
                        f"allow_target=\"{target['name']}\" to permit it"
                    )
                all_safe = all_safe and target["safe"]
            if isinstance(one, str):
                if self._dry:
                    continue
                one = open_wire(name)
                self._opened.append(one)
            if not one.capabilities.sends:
                raise _core.UsageError(f"{name}: this wire cannot send")
            wires.append(one)
        return wires, all_safe

    @staticmethod
    def _refuse_inputs(paths: list[str], wire: str | Wire | list[str | Wire] | None) -> None:
        """Refuse wires that write to one of the captures: opening such a wire would truncate the file before it is
        read."""
        for one in wire if isinstance(wire, list) else [wire]:
            if isinstance(one, str) and one.startswith("file:"):
                refuse_inputs(one.removeprefix("file:").split(",")[0], paths)

    def _shown(self, on_frame: OnFrame | None) -> OnFrame:
        # A reference to self would form a reference cycle through the player.
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
        self._bar.close()
        for wire in self._opened:
            wire.close()


def _paths(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    return [native(path) for path in paths]


def _check_first(paths: list[str]) -> None:
    """Raise CaptureError for an invalid first capture. Pipes are not checked, since they can be opened only once."""
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
    progress: bool | None = None,
    dry_run: bool = False,
    allow_target: str | Iterable[str] = (),
    **options: Any,
) -> ReplayReport:
    """Replay captures to one or several wires and return the report. Ctrl-C raises KeyboardInterrupt.

    - ``map``: mapping files and assignments such as "qp:0x11=0x777".
    - ``faults``: fault rules (docs/reference/fault-language.md).
    - ``on_frame``: called with each :class:`PlayedFrame` before faults are applied. It returns None to send the frame,
      False to drop it, or bytes or a Frame to replace it.
    - ``on_progress``: called with a dictionary: sent, bytes, loop, position, total, frames_per_second, bits_per_second.
    - ``progress``: True shows a progress bar, False none. Default: a bar on a terminal and in a notebook, if tqdm is
      installed and ``on_progress`` is not given.
    - ``dry_run``: send no frames. ``report.differences`` lists the rewritten fields.
    - ``allow_target``: required for interfaces that lead to other hosts.

    Exceptions of callbacks end the replay and are raised. Raises CaptureError if the first capture is invalid. Later
    errors are in ``report.error``.

    The options are those of the command, with underscores: speed, pps, bps, topspeed, burst, max_gap, spin, preload;
    loops, pause, continue_psns, ip_step, qp_step; limit, max_bytes, seconds, include, exclude, split; unmapped, others,
    crc, icrc_mask, hop_limit, dscp, flow_label; truncated, too_long, mtu, allow_multicast, rate_cap; fault_seed. Times are
    seconds.
    """
    return _Prepared(capture, wire, map, faults, on_frame, on_progress, progress, dry_run, allow_target, options).run()


async def areplay(
    capture: Captures,
    wire: Wires = None,
    *,
    map: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    faults: str | Iterable[str] = (),
    on_frame: OnFrame | None = None,
    on_progress: Callable[[dict[str, Any]], Any] | None = None,
    progress: bool | None = None,
    dry_run: bool = False,
    allow_target: str | Iterable[str] = (),
    **options: Any,
) -> ReplayReport:
    """Run :func:`replay` asynchronously. Callbacks run in a thread. Canceling the task ends the replay."""
    import asyncio  # imported here, because asyncio doubles the time to import the package

    prepared = _Prepared(capture, wire, map, faults, on_frame, on_progress, progress, dry_run, allow_target, options)
    running = asyncio.get_running_loop().run_in_executor(None, prepared.run)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        prepared.player.stop()
        await asyncio.wait([running])
        raise


def learn_map(capture: Captures, map: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = ()) -> str:
    """Return a mapping file inferred from captures, to be completed with live values. ``map`` sets some live values."""
    with files_of(capture) as paths:
        return _core._learn_map(paths, _paths(map))


def replay_reactive(
    capture: Source | Capture,
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
    """Emulate one side of a captured connection and react to a live device (docs/how-to/replay-against-a-live-peer.md).

    ``connection``: number of the connection in the capture, from 1. 0: the one with the most bytes. ``side``: the
    emulated endpoint, "a" or "b". Empty: the endpoint that sent more. ``output``: capture file of the exchange.
    """
    if side not in ("", "a", "b"):
        raise _core.UsageError(f"side={side!r}: expected a or b")
    rules = faults if isinstance(faults, str) else "\n".join(faults)
    target = native(output)
    with files_of(capture) as paths:
        if target:
            refuse_inputs(target, paths)
        return ReactiveReport(
            _core._replay_reactive(
                paths[0], device._core, connection, side, rules, seed, target, retry_after, step_timeout
            )
        )
