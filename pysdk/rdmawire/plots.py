"""Plots of a report with matplotlib. Each function draws into the given axes or creates them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rdmawire._core import UsageError
from rdmawire._loading import optional
from rdmawire.json_report import JsonReport, Row
from rdmawire.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Plots:
    """The plots of ``report.plot``. Each function returns matplotlib axes."""

    def __init__(self, report: JsonReport, packets: Callable[[], Table]) -> None:
        self._report = report
        self._packets = packets

    def throughput(self, ax: Axes | None = None) -> Axes:
        """Plot the payload rate of the capture over time, with retransmissions and ECN marks."""
        axes = _axes(ax)
        series = self._report["series"]
        seconds = series.step_ns / 1e9
        times = [i * seconds for i in range(len(series.payload_bytes))]
        axes.step(times, [8 * data / seconds / 1e9 for data in series.payload_bytes], where="post", label="payload")
        for name, label, color in (
            ("retransmitted", "retransmitted", "tab:red"),
            ("ecn_marked", "ECN-marked", "tab:orange"),
        ):
            marks = [time for time, count in zip(times, series[name]) if count]
            axes.plot(marks, [0] * len(marks), "|", color=color, markersize=12, label=label if marks else None)
        axes.set(xlabel="seconds since the start of the capture", ylabel="Gbit/s", title="Payload")
        axes.legend()
        return axes

    def psn(self, connection: int | None = None, ax: Axes | None = None) -> Axes:
        """Plot the PSNs of a connection over time for both endpoints, with retransmissions.

        `connection` is the number of the first frame. Default: the connection with the most bytes.
        """
        axes = _axes(ax)
        one = self._connection(connection)
        columns = self._packets().columns(partial=True)
        mine = columns["connection"] == one.connection
        if not mine.any():
            raise UsageError(f"connection {one.connection} has no packets with PSNs")
        time = columns["time"][mine].astype("int64")
        seconds = (time - time.min()) / 1e9
        psn, end, retransmitted = columns["relative_psn"][mine], columns["end"][mine], columns["retransmitted"][mine]
        for which in ("a", "b"):
            address = one[which].address
            peer = one["b" if which == "a" else "a"]
            sent = (end == which) & ~retransmitted
            if sent.any():
                axes.plot(seconds[sent], psn[sent], ".", markersize=3, label=f"{which}: {address}, to QP {peer.qp}")
        if retransmitted.any():
            axes.plot(
                seconds[retransmitted], psn[retransmitted], "x", color="tab:red", markersize=5, label="retransmitted"
            )
        axes.set(
            xlabel="seconds since the first packet", ylabel="relative PSN", title=f"Connection {one.connection}"
        )
        axes.legend()
        return axes

    def latency(self, ax: Axes | None = None) -> Axes:
        """Plot the cumulative latency distribution of messages by operation and phase."""
        axes = _axes(ax)
        for label, rows in self._latencies().items():
            buckets: dict[float, int] = {}
            for row in rows:
                for _low, high, count in row["buckets"]:
                    buckets[high / 1e3] = buckets.get(high / 1e3, 0) + count
            total, count_so_far, shares = sum(buckets.values()), 0, []
            for bound in sorted(buckets):
                count_so_far += buckets[bound]
                shares.append(100 * count_so_far / total)
            axes.step(sorted(buckets), shares, where="post", label=f"{label} ({total})")
        axes.set(xscale="log", xlabel="µs", ylabel="% of messages", title="Latency")
        axes.legend()
        return axes

    def percentiles(self, ax: Axes | None = None) -> Axes:
        """Plot latency percentiles as bars, grouped by operation, size and phase."""
        axes = _axes(ax)
        rows = self._report["latency"]
        if not rows:
            raise UsageError(_NO_LATENCIES)
        names = {"p50_ns": "50 %", "p90_ns": "90 %", "p99_ns": "99 %", "p999_ns": "99.9 %", "max_ns": "maximum"}
        width = 0.8 / len(names)
        for i, (key, label) in enumerate(names.items()):
            places = [place + (i - (len(names) - 1) / 2) * width for place in range(len(rows))]
            axes.bar(places, [row[key] / 1e3 for row in rows], width, label=label)
        axes.set_xticks(
            range(len(rows)),
            [f"{row.operation} of {row.size_from}–{row.size_to}\n{_phase_text(row.phase)}" for row in rows],
            rotation=30,
            horizontalalignment="right",
            fontsize="small",
        )
        axes.set(yscale="log", ylabel="µs", title="Latency")
        axes.legend()
        return axes

    def _latencies(self) -> dict[str, list[Row]]:
        by_label: dict[str, list[Row]] = {}
        for row in self._report["latency"]:
            by_label.setdefault(f"{row.operation}, {_phase_text(row.phase)}", []).append(row)
        if not by_label:
            raise UsageError(_NO_LATENCIES)
        return by_label

    def _connection(self, connection: int | None) -> Row:
        rows: list[Row] = self._report["connections"]
        for row in rows:
            if connection is None or row.connection == connection:
                return row
        if not rows:
            raise UsageError("the report has no connections")
        raise UsageError(f"unknown connection {connection}; connections are identified by their first frame")


_NO_LATENCIES = "the report has no latencies, since all messages lack a response"


def _phase_text(phase: str) -> str:
    return phase.replace("_", " ")


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    pyplot = optional("plots", "plots", "matplotlib.pyplot")
    axes: Axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")[1]
    return axes
