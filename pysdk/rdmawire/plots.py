"""Plots of a report, by matplotlib: each function draws into axes, its own ones or those that are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rdmawire._core import UsageError
from rdmawire._loading import optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rdmawire.report import Report, Row


class Plots:
    """What ``report.plot`` is: a function for each plot, which gives matplotlib's axes."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def throughput(self, ax: Axes | None = None) -> Axes:
        """Payload of the whole capture over time, and where packets were sent again or marked by ECN."""
        axes = _axes(ax)
        series = self._report["series"]
        seconds = series.step_ns / 1e9
        times = [i * seconds for i in range(len(series.payload_bytes))]
        axes.step(times, [8 * data / seconds / 1e9 for data in series.payload_bytes], where="post", label="payload")
        for name, label, color in (("retransmitted", "retransmitted", "tab:red"), ("ecn_marked", "ECN marked", "tab:orange")):
            marks = [time for time, count in zip(times, series[name]) if count]
            axes.plot(marks, [0] * len(marks), "|", color=color, markersize=12, label=label if marks else None)
        axes.set(xlabel="seconds since the capture began", ylabel="Gbit/s", title="Payload")
        axes.legend()
        return axes

    def psn(self, connection: int | None = None, ax: Axes | None = None) -> Axes:
        """PSNs of a connection's packets over time, by end; packets that were sent again stand out.

        `connection` is the number of its first frame; without it, the connection with most bytes.
        """
        axes = _axes(ax)
        one = self._connection(connection)
        columns = self._report.packets.columns(partial=True)
        mine = columns["connection"] == one.connection
        if not mine.any():
            raise UsageError(f"connection {one.connection} has no packets with PSNs")
        time = columns["time"][mine].astype("int64")
        seconds = (time - time.min()) / 1e9
        psn, end, again = columns["relative_psn"][mine], columns["end"][mine], columns["retransmitted"][mine]
        for which in ("a", "b"):
            address = one[which].address
            peer = one["b" if which == "a" else "a"]
            sent = (end == which) & ~again
            if sent.any():
                axes.plot(seconds[sent], psn[sent], ".", markersize=3, label=f"{which}: {address}, to QP {peer.qp}")
        if again.any():
            axes.plot(seconds[again], psn[again], "x", color="tab:red", markersize=5, label="retransmitted")
        axes.set(xlabel="seconds since its first packet", ylabel="PSN from the first", title=f"Connection {one.connection}")
        axes.legend()
        return axes

    def latency(self, ax: Axes | None = None) -> Axes:
        """Which part of the messages was answered within which time, by operation and phase."""
        axes = _axes(ax)
        for label, rows in self._latencies().items():
            buckets: dict[float, int] = {}
            for row in rows:
                for _low, high, count in row["buckets"]:
                    buckets[high / 1e3] = buckets.get(high / 1e3, 0) + count
            total, so_far, shares = sum(buckets.values()), 0, []
            for bound in sorted(buckets):
                so_far += buckets[bound]
                shares.append(100 * so_far / total)
            axes.step(sorted(buckets), shares, where="post", label=f"{label} ({total})")
        axes.set(xscale="log", xlabel="µs", ylabel="% of messages", title="Latency")
        axes.legend()
        return axes

    def percentiles(self, ax: Axes | None = None) -> Axes:
        """Percentiles of latency by operation, size and phase: a group of bars each."""
        axes = _axes(ax)
        rows = self._report["latency"]
        if not rows:
            raise UsageError("no message in this report has an answer, so there are no latencies")
        names = {"p50_ns": "50 %", "p90_ns": "90 %", "p99_ns": "99 %", "p999_ns": "99.9 %", "max_ns": "most"}
        width = 0.8 / len(names)
        for i, (key, label) in enumerate(names.items()):
            places = [place + (i - (len(names) - 1) / 2) * width for place in range(len(rows))]
            axes.bar(places, [row[key] / 1e3 for row in rows], width, label=label)
        axes.set_xticks(
            range(len(rows)),
            [f"{row.operation} of {row.size_from}–{row.size_to}\n{_spoken(row.phase)}" for row in rows],
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
            by_label.setdefault(f"{row.operation}, {_spoken(row.phase)}", []).append(row)
        if not by_label:
            raise UsageError("no message in this report has an answer, so there are no latencies")
        return by_label

    def _connection(self, connection: int | None) -> Row:
        rows: list[Row] = self._report["connections"]
        for row in rows:
            if connection is None or row.connection == connection:
                return row
        if not rows:
            raise UsageError("this report has no connections")
        raise UsageError(f"there is no connection {connection}: connections are named by their first frame")


def _spoken(phase: str) -> str:
    return phase.replace("_", " ")


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    pyplot = optional("plots", "plots", "matplotlib.pyplot")
    axes: Axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")[1]
    return axes
