"""The page of `rdmawire analyze --html` in Chromium.

Pages of real captures come from the command, large, untrusted and empty ones from synthetic.py and make_page.
"""

import json
import subprocess
import time

import pytest

import synthetic
from browsing import BIN, MISSING, ROOT, Page, browser, run, wait_for  # noqa: F401

SAMPLES = ROOT / "captures" / "samples"
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"requires {', '.join(MISSING)}")

REAL = ["rc-pingpong-loss.pcap.gz", "rc-read-loss.pcap.zst", "siw-write-loss.pcap.gz", "ucmatose.pcap"]


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Return {name: (page, report)} of the real captures."""
    folder = tmp_path_factory.mktemp("real")
    made = {}
    for name in REAL:
        page = folder / f"{name}.html"
        run(BIN / "rdmawire", "analyze", SAMPLES / name, "--html", page)
        made[name] = page, json.loads(run(BIN / "rdmawire", "analyze", SAMPLES / name, "--json").stdout)
    return made


def make(folder, title="made", change=None, **size):
    report, details = synthetic.make(folder, **size)
    if change:
        change(report, details)
        (folder / "report.json").write_text(json.dumps(report, ensure_ascii=False))
        (folder / "details.json").write_text(json.dumps(details, ensure_ascii=False))
    run(BIN / "make_page", folder / "report.json", folder / "details.json", title, folder / "page.html")
    return folder / "page.html", report


@pytest.mark.parametrize("name", REAL)
def test_page_of_real_capture_equals_the_report(browser, real, name):
    path, report = real[name]
    page = Page(browser, path)
    summary = report["summary"]
    assert page.text("title") == name
    shown = page.script("""return Object.fromEntries([...document.querySelectorAll(".card")]
        .map(card => [card.querySelector("dt").textContent, card.querySelector("dd").dataset.value]))""")
    for label, key in (("Packets", "packets"), ("Connections", "connections"), ("Messages", "messages"),
                       ("Retransmitted", "retransmitted_packets"), ("Duration", "duration_ns")):  # fmt: skip
        assert shown[label] == str(summary[key])
    titles = [node.get_attribute("textContent") for node in page.all(".finding .title")]
    assert titles == [finding["title"] for finding in report["findings"]]
    assert bool(titles) == (name != "ucmatose.pcap")
    if not titles:
        assert page.text("verdict") == "No problems found"
    for canvas in ("throughput", "rates", "psn", "connection-rate", "histogram", "percentiles"):
        assert page.color_count(canvas) > 5, f"{canvas} is blank"
    # Each nonempty list of the report has a table with the same number of rows.
    for table in ("connections", "flows", "operations", "latency", "regions", "talkers", "endpoints", "events"):
        if report[table]:
            page.click(f"#tab-{table}")
            count = page.script("return $?.fn.dataTable && $('#table-' + arguments[0]).DataTable().page.info()"
                                ".recordsTotal", table)  # fmt: skip
            assert count == len(report[table])
    for width in (800, 1280):
        browser.set_window_size(width, 900)
        wait_for(lambda: page.script("return document.documentElement.scrollWidth <= innerWidth"), f"width {width}")
    page.assert_no_requests_or_errors()


@pytest.mark.parametrize("name", [name for name in REAL if "loss" in name])
def test_finding_shows_sequence_diagram_and_links_to_connection(browser, real, name):
    path, report = real[name]
    page = Page(browser, path)
    for finding in report["findings"]:
        article = f"#finding-{finding['rank']}"
        if not page.all(f"{article} svg.sequence"):
            page.click(f"{article} h3 button")
        steps = page.script("""return [...document.querySelectorAll(arguments[0] + " .step")].map(step =>
            ({mark: step.classList[1] ?? "", text: step.querySelector(".text").textContent,
              frame: Number(step.querySelector(".number").textContent)}))""", article)
        assert 5 <= len(steps) <= 40
        assert [step["frame"] for step in steps] == sorted({step["frame"] for step in steps})
        here = [step for step in steps if step["mark"] == "event"]
        assert [step["frame"] for step in here] == [finding["first_frame"]]
        first = next(row for row in report["events"] if row["frame"] == finding["first_frame"]
                     and row["kind"] == finding["kind"])  # fmt: skip
        for mark, key in (("cause", "cause_frame"), ("origin", "origin_frame")):
            if first[key]:
                assert [step["frame"] for step in steps if step["mark"] == mark] == [first[key]]
        assert all("+" in step["text"] for step in here)
        page.script("location.hash = arguments[0]", f"connection={finding['connection']}")
        wait_for(lambda: page.find("#any-connection").get_property("value") == str(finding["connection"]), "selection")
        assert page.color_count("psn") > 5
    page.assert_no_requests_or_errors()


def test_plotted_points_equal_packets_csv(real, browser, tmp_path):
    name = "rc-pingpong-loss.pcap.gz"
    path, report = real[name]
    page = Page(browser, path)
    details = json.loads(page.browser.execute_async_script("""
        const done = arguments[0], text = document.getElementById("details-data").textContent.trim();
        const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
        new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text().then(done)"""))
    run(BIN / "rdmawire", "analyze", SAMPLES / name, "--csv", tmp_path, "--csv-packets")
    head, *rows = [line.split(",") for line in (tmp_path / "packets.csv").read_text().splitlines()]
    column = head.index
    expected = [(int(row[column("frame")]), int(row[column("relative_psn")]), row[column("retransmitted")] == "1")
                for row in rows if "RC" in row[column("operation")]]  # fmt: skip
    (plot,) = details["connections"]
    assert not plot["sampled"]
    assert [(point[4], point[3], point[2] == 1) for point in plot["points"]] == sorted(expected)
    sent = report["connections"][0]["sent"]
    for at, end in enumerate("ab"):
        assert sum(plot["series"][f"bytes_{end}"]) == sent[end]["payload_bytes"]
        assert sum(plot["series"][f"messages_{end}"]) == sum(sent[end]["messages"].values())
        assert sum(point[1] == at and point[2] == 1 for point in plot["points"]) == sent[end]["retransmitted_packets"]


def test_multiple_files_give_one_page(browser, tmp_path):
    files = [SAMPLES / name for name in ("rc-send.pcap.gz", "ucmatose.pcap")]
    run(BIN / "rdmawire", "analyze", *files, "--html", tmp_path / "page.html")
    page = Page(browser, tmp_path / "page.html")
    assert page.text("title") == "rc-send.pcap.gz and 1 more"
    options = page.script("return [...document.querySelectorAll('#choose-connection option')].map(o => o.value)")
    for option in filter(None, options):
        page.script("location.hash = arguments[0]", f"connection={option}")
        wait_for(lambda: page.find("#any-connection").get_property("value") == option, "selection")
        assert page.color_count("psn") > 5
    page.assert_no_requests_or_errors()


def test_page_with_10000_connections_is_fast(browser, tmp_path):
    path, report = make(tmp_path, connections=10_000, findings=300)
    page = Page(browser, path)
    ready = page.script("return performance.getEntriesByName('ready')[0].startTime")
    clock = """const begin = performance.now(); {} ; return performance.now() - begin;"""
    header = "document.querySelector('#table-connections th[aria-label*=\"sent.a.packets\"]').click()"
    sort = page.script(clock.format(header))
    packets = sorted((row["sent"]["a"]["packets"] for row in report["connections"]), reverse=True)
    titles = page.script("return [...document.querySelectorAll('#table-connections thead tr:first-child th')]"
                         ".map(cell => cell.textContent)")  # fmt: skip
    at = titles.index("sent.a.packets")
    assert [int(row[at].replace(",", "")) for row in page.rows("connections")] == packets[:25]
    begin = time.monotonic()
    address = report["connections"][4321]["a"]["address"]
    page.type('#table-connections .filters [data-column="a.address"]', f"={address}")
    expected = [row["connection"] for row in report["connections"] if row["a"]["address"] == address]
    info = "return $('#table-connections').DataTable().page.info().recordsDisplay"
    wait_for(lambda: page.script(info) == len(expected), "rows filtered")
    print(f"\n10,000 connections: page {path.stat().st_size / 1e6:.1f} MB, ready after {ready:.0f} ms, "
          f"sorted in {sort:.0f} ms, filtered in {1000 * (time.monotonic() - begin):.0f} ms")  # fmt: skip
    assert ready < 10_000
    assert sort < 2_000
    page.assert_no_requests_or_errors()


UNTRUSTED = ['<script>window.hit = 1</script>', '</script><img src=x onerror="window.hit = 2">', "'\"><b id=injected>",
           "\u2028\u2029 line", "{{report}} {{details}} {{title}}", "<!--<script>", "&lt;i&gt;", "\0\x1b[31m"]  # fmt: skip


def test_untrusted_text_is_escaped(browser, tmp_path):
    def append_untrusted(value):
        if isinstance(value, dict):
            return {key: inner if key in ("severity", "schema", "from", "mark") and isinstance(inner, str)
                    else append_untrusted(inner) for key, inner in value.items()}  # fmt: skip
        if isinstance(value, list):
            return [append_untrusted(inner) for inner in value]
        if isinstance(value, str) and not value.replace(".", "").isdigit():
            return value + " ".join(UNTRUSTED)
        return value

    def change(report, details):
        for part in (report, details):
            changed = append_untrusted(part)
            part.clear()
            part.update(changed)

    path, report = make(tmp_path, title=UNTRUSTED[0] + UNTRUSTED[1], change=change, connections=20, findings=8)
    page = Page(browser, path)
    for button in range(len(page.all(".finding h3 button"))):
        page.script("document.querySelectorAll('.finding h3 button')[arguments[0]].click()", button)
    for tab in page.script("return [...document.querySelectorAll('#tables [role=tab]')].map(tab => tab.id)"):
        page.click(f"#{tab}")
    assert page.script("return document.title") == UNTRUSTED[0] + UNTRUSTED[1]
    assert page.script("return [window.hit ?? null, document.querySelectorAll('#injected, main img, main script').length]"
                       ) == [None, 0]  # fmt: skip
    assert report["findings"][0]["title"] in page.script("return document.querySelector('.finding .title').textContent")
    assert [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_page_of_capture_without_rdma(browser, tmp_path):
    path, _ = make(tmp_path, connections=0, findings=0)
    page = Page(browser, path)
    assert page.text("verdict") == "No RDMA in this capture"
    assert not page.find("#connection").is_displayed()
    assert not page.find("#latency").is_displayed()
    page.assert_no_requests_or_errors()


def test_html_rejects_standard_input_and_unwritable_path(tmp_path):
    sample = SAMPLES / "ucmatose.pcap"
    with sample.open("rb") as stream:
        done = subprocess.run([BIN / "rdmawire", "analyze", "-", "--html", tmp_path / "x.html"], stdin=stream,
                              capture_output=True, timeout=60)  # fmt: skip
    assert done.returncode == 2
    assert b"twice" in done.stderr
    place = tmp_path / "nowhere" / "x.html"
    assert str(place).encode() in run(BIN / "rdmawire", "analyze", sample, "--html", place, status=3).stderr
    page = run(BIN / "rdmawire", "analyze", sample, "--html", "-").stdout
    assert page.startswith(b"<!DOCTYPE html>")
    assert page.rstrip().endswith(b"</html>")
