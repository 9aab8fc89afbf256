"""The page of `python3 -m rdmawire.fuzz --report` in a real Chromium: of a device with faults of its own, of a sound one,
and of findings whose words are hostile."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from browsing import LACKS, ROOT, Page, browser  # noqa: F401

PYTHON = Path(os.environ.get("RDMAWIRE_PYTHON", ROOT / "build" / "dev" / "python"))
MISSING = LACKS + ([] if (PYTHON / "rdmawire").exists() else [f"the Python module, built at {PYTHON}"])
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}")
HOSTILE = "</script><img src=x onerror=alert(1)>"


def python(folder, *arguments, status):
    """Runs Python with the package under test; what it wrote to the folder."""
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
def sound(tmp_path_factory):
    return fuzz(tmp_path_factory.mktemp("sound"), "--target", "reference:iwarp", "--executions", "500", "--feedback",
                "answers", status=0)  # fmt: skip


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Signatures are words of an oracle, here of the user's own."""
    folder = tmp_path_factory.mktemp("hostile")
    return python(folder, "-c", f"""
from rdmawire import fuzz
with fuzz.Session(seed=1, oracle=lambda step, frames, states: {HOSTILE!r}, stop_at_first=True) as session:
    session.run(10)
    session.write({str(folder)!r})
""", status=0)  # fmt: skip


def cards(page):
    return page.script("""return Object.fromEntries([...document.querySelectorAll("#summary .card")].map(card =>
        [card.querySelector("dt").textContent, card.querySelector("dd").textContent]))""")


def test_the_cards_say_what_the_report_says(browser, broken):
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
    page.assert_quiet()


def test_a_finding_names_its_rules_and_its_steps(browser, broken):
    folder, report = broken
    page = Page(browser, folder / "index.html")
    articles = page.script("return [...document.querySelectorAll('#findings article')].map(article => article.textContent)")
    assert any(finding["rules"] for finding in report["findings"])
    for finding, text in zip(report["findings"], articles, strict=True):
        for words in (finding["signature"], finding["oracle"], finding["expected"], finding["actual"], *finding["steps"]):
            assert words in text
        for rule in finding["rules"]:
            about = report["rules"][rule]
            assert rule in text and (about.get("alias") or "") in text and about["sentence"] in text
        assert (folder / finding["directory"] / "capture.pcapng").is_file()


def test_nothing_found_and_nothing_counted(browser, sound):
    folder, report = sound
    page = Page(browser, folder / "index.html")
    assert report["findings"] == [] and not page.all("#findings article")
    assert "no findings" in page.text("summary") and "No alarms" in page.text("findings")
    shown = cards(page)
    assert shown["code edges"] == "–" and shown["monitor edges"] == "–" and shown["response edges"] != "–"
    page.assert_quiet()


def test_hostile_words_stay_words(browser, hostile):
    folder, report = hostile
    assert report["findings"][0]["actual"] == HOSTILE
    page = Page(browser, folder / "index.html")
    assert HOSTILE in page.text("findings") and not page.all("#findings img")
    page.assert_quiet()


@pytest.mark.parametrize("width", [420, 800, 1600])
def test_the_page_fits(browser, broken, width):
    page = Page(browser, broken[0] / "index.html")
    browser.set_window_size(width, 900)
    try:
        assert page.script("return document.documentElement.scrollWidth <= innerWidth"), width
        rows = page.script("""const tops = [...document.querySelectorAll("#summary .card")].map(card => card.offsetTop);
            return tops.reduce((rows, top) => ({...rows, [top]: (rows[top] || 0) + 1}), {})""")
        assert len(set(rows.values())) == 1, "a row with a card left over"
    finally:
        browser.set_window_size(1280, 900)
