"""The page of `python3 -m rdmawire.fuzz --report` in Chromium: faulty device, conforming device, untrusted texts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from browsing import MISSING as MISSING_PROGRAMS, ROOT, Page, browser  # noqa: F401

PYTHON = Path(os.environ.get("RDMAWIRE_PYTHON", ROOT / "build" / "dev" / "python"))
MISSING = MISSING_PROGRAMS + ([] if (PYTHON / "rdmawire").exists() else [f"the Python module, built at {PYTHON}"])
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"requires {', '.join(MISSING)}")
UNTRUSTED = "</script><img src=x onerror=alert(1)>"


def python(folder, *arguments, status):
    """Run Python with the package under test. Return the folder and its report."""
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=120,
                          env=os.environ | {"PYTHONPATH": str(PYTHON)})  # fmt: skip
    assert done.returncode == status, done.stderr
    return folder, json.loads((folder / "report.json").read_text())


def fuzz(folder, *arguments, status):
    return python(folder, "-m", "rdmawire.fuzz", "--seed", 7, "--report", folder, *arguments, status=status)


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    return fuzz(tmp_path_factory.mktemp("broken"), "--target", "reference:bounds-off-by-one,naks-every-packet",
                "--executions", "3000", status=1)  # fmt: skip


@pytest.fixture(scope="module")
def conforming(tmp_path_factory):
    return fuzz(tmp_path_factory.mktemp("conforming"), "--target", "reference:iwarp", "--executions", "500", "--feedback",
                "answers", status=0)  # fmt: skip


@pytest.fixture(scope="module")
def untrusted(tmp_path_factory):
    """An oracle in Python can return any text as the signature."""
    folder = tmp_path_factory.mktemp("untrusted")
    return python(folder, "-c", f"""
from rdmawire import fuzz
with fuzz.Session(seed=1, oracle=lambda step, frames, states: {UNTRUSTED!r}, stop_at_first=True) as session:
    session.run(10)
    session.write({str(folder)!r})
""", status=0)  # fmt: skip


def cards(page):
    return page.script("""return Object.fromEntries([...document.querySelectorAll("#summary .card")].map(card =>
        [card.querySelector("dt").textContent, card.querySelector("dd").textContent]))""")


def test_cards_equal_the_report(browser, broken):
    folder, report = broken
    page = Page(browser, folder / "index.html")
    counts = report["statistics"]
    number = "{:,}".format
    shown = cards(page)
    assert shown["executions"] == number(counts["executions"]) and shown["connections"] == number(counts["connections"])
    for kind, name in (("response", "edges"), ("code", "code_edges"), ("monitor", "monitor_edges")):
        assert shown[f"{kind} edges"] == ("–" if counts[name] is None else number(counts[name]))
    assert shown["corpus"] == number(counts["corpus"])
    assert len(page.all("#findings article")) == len(report["findings"]) >= 2
    page.assert_no_requests_or_errors()


def test_finding_shows_rules_and_steps(browser, broken):
    folder, report = broken
    page = Page(browser, folder / "index.html")
    articles = page.script("return [...document.querySelectorAll('#findings article')].map(article => article.textContent)")
    assert any(finding["rules"] for finding in report["findings"])
    order = [index for group in report["groups"] for index in group["findings"]]
    for finding, text in zip([report["findings"][index] for index in order], articles, strict=True):
        for words in (finding["signature"], finding["oracle"], finding["expected"], finding["actual"], *finding["steps"]):
            assert words in text
        for rule in finding["rules"]:
            about = report["rules"][rule]
            assert rule in text and (about.get("alias") or "") in text and about["sentence"] in text
        assert (folder / finding["directory"] / "capture.pcapng").is_file()


def test_findings_are_in_groups_with_their_cause(browser, broken):
    folder, report = broken
    page = Page(browser, folder / "index.html")
    shown = page.script("""return [...document.querySelectorAll("#findings .group")].map(group =>
        [group.querySelector("h3").textContent, [...group.querySelectorAll("article")].map(one => one.id)])""")
    assert len(report["groups"]) >= 2
    for group, (heading, ids) in zip(report["groups"], shown, strict=True):
        number = len(group["findings"])
        assert heading == f"{group['cause']} {number} finding{'' if number == 1 else 's'}"
        assert ids == [f"finding-{index + 1}" for index in group["findings"]]
    cause = "cause" if len(report["groups"]) == 1 else "causes"
    assert f"probably of {len(report['groups'])} {cause}" in page.text("findings")


def test_page_of_jobs_names_their_seeds(browser, tmp_path):
    folder, report = python(tmp_path / "jobs", "-m", "rdmawire.fuzz", "--jobs", 2, "--seed", 7, "--report", tmp_path / "jobs",
                            "--target", "reference:bounds-off-by-one", "--executions", "3000", status=1)  # fmt: skip
    page = Page(browser, folder / "index.html")
    assert "2 jobs with the seeds 7, 8" in page.text("summary")
    assert len(page.all("#findings article")) == len(report["findings"]) >= 1
    assert cards(page)["executions"] == "3,000"
    page.assert_no_requests_or_errors()


def test_page_without_findings_and_coverage(browser, conforming):
    folder, report = conforming
    page = Page(browser, folder / "index.html")
    assert report["findings"] == [] and not page.all("#findings article")
    assert "no findings" in page.text("summary") and "No alarms" in page.text("findings")
    shown = cards(page)
    assert shown["code edges"] == "–" and shown["monitor edges"] == "–" and shown["response edges"] != "–"
    page.assert_no_requests_or_errors()


def test_untrusted_text_is_escaped(browser, untrusted):
    folder, report = untrusted
    assert report["findings"][0]["actual"] == UNTRUSTED
    page = Page(browser, folder / "index.html")
    assert UNTRUSTED in page.text("findings") and not page.all("#findings img")
    page.assert_no_requests_or_errors()


@pytest.mark.parametrize("width", [420, 800, 1600])
def test_page_fits_the_window_width(browser, broken, width):
    page = Page(browser, broken[0] / "index.html")
    browser.set_window_size(width, 900)
    try:
        assert page.script("return document.documentElement.scrollWidth <= innerWidth"), width
        rows = page.script("""const tops = [...document.querySelectorAll("#summary .card")].map(card => card.offsetTop);
            return tops.reduce((rows, top) => ({...rows, [top]: (rows[top] || 0) + 1}), {})""")
        assert len(set(rows.values())) == 1, "cards do not fill the last row"
    finally:
        browser.set_window_size(1280, 900)
