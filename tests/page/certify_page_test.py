"""The page of `rdmawire certify --report` in Chromium: a complete run, and a faulty device with known results."""

import json

import pytest

from browsing import BIN, MISSING, Page, browser, run  # noqa: F401

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"requires {', '.join(MISSING)}")

GAP = "rc.responder.psn.sequence-error"
CASE_COUNT = "return document.querySelectorAll('#cases .finding').length"


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    folder = tmp_path_factory.mktemp("complete")
    run(BIN / "rdmawire", "certify", "--seed", 7, "--strength", 0, "--report", folder, status=None)
    return folder, json.loads((folder / "report.json").read_text())


@pytest.fixture(scope="module")
def broken(tmp_path_factory, complete):
    """A device with a known fault and an expired one, compared with a conforming device."""
    folder = tmp_path_factory.mktemp("broken")
    known = {"RSP-009/as observed": {"verdict": "fail", "reason": "as in the case"},
             "rc.responder.psn.sequence-error": {"verdict": "fail", "reason": "a second <b>NAK</b>", "right": "unclear"},
             "RSP-011": {"verdict": "fail", "reason": "being recomputed", "until": "2020-01-01"}}  # fmt: skip
    (folder / "known.json").write_text(json.dumps({"format": 1, "cases": known}))
    run(BIN / "rdmawire", "certify", "--seed", 7, "--strength", 0, "--only", "RSP-00*", "--only", "RSP-01*", "--fault",
        "naks-every-packet", "--expected", folder / "known.json", "--baseline", complete[0] / "report.json", "--repeat", 2,
        "--report", folder, status=None)  # fmt: skip
    return folder, json.loads((folder / "report.json").read_text())


def test_page_of_complete_run_equals_report(browser, complete):
    folder, report = complete
    path = folder / "index.html"
    assert path.stat().st_size < 4e6
    page = Page(browser, path)
    cards = page.script("""return Object.fromEntries([...document.querySelectorAll("#summary .card")]
        .map(card => [card.dataset.count, Number(card.querySelector("b").textContent.replace(/,/g, ""))]))""")
    assert cards.pop("cases") == len(report["cases"])
    assert {name: count for name, count in cards.items() if count} == report["verdicts"]
    cells = page.script("""return [...document.querySelectorAll("#groups td button")].map(button => Number(button.textContent))""")
    assert sum(cells) == len(report["cases"])
    assert report["note"] in page.text("disclaimer")
    page.assert_no_requests_or_errors()


def test_matrix_button_selects_its_cases(browser, complete):
    folder, report = complete
    page = Page(browser, folder / "index.html")
    page.click("#groups button[data-group=UC][data-verdict=pass]")
    expected = [case["id"] for case in report["cases"] if case["alias"].startswith("UC-") and case["verdict"] == "pass"]
    shown = page.script("return [...document.querySelectorAll('#cases .title')].map(title => title.textContent)")
    assert shown and set(expected) <= set(shown)
    count = page.script(
        "return document.querySelector('#groups button[data-group=UC][data-verdict=pass]').textContent")
    assert len(shown) == int(count)
    page.type("#choose-text", "text of no case")
    assert page.script(CASE_COUNT) == 0
    page.type("#choose-text", "")
    assert page.script(CASE_COUNT) == len(shown)


def test_case_shows_rule_clause_and_frames(browser, broken):
    folder, report = broken
    case = next(case for case in report["cases"] if case["id"] == GAP)
    assert case["verdict"] == "fail" and case["unexpected"] is False
    page = Page(browser, (folder / "index.html"))
    browser.get((folder / "index.html").as_uri() + f"#case={GAP}")
    page.script("location.reload()")
    page.ready()
    text = page.text(f"case-{GAP}")
    for words in (case["sentence"], case["clauses"], case["expected"], case["actual"], "our reading", "RSP-009"):
        assert words in text
    assert "A second <b>NAK</b>" in text  # escaped
    frames = [step for step in case["steps"] if "frame" in step]
    buttons = page.script(
        f"return document.getElementById('case-{GAP}').querySelectorAll('.step button').length")
    assert buttons == len(frames)
    # Clicking the focused button opens the frame with headers and bytes.
    opened = page.script("""
        const button = document.getElementById(arguments[0]).querySelector(".step button");
        button.focus();
        button.click();
        const body = button.closest("li").querySelector(".opened");
        return [document.activeElement === button, body.querySelector(".layers").textContent,
                [...body.querySelectorAll(".hex i")].map(byte => byte.textContent).join("")]""", f"case-{GAP}")
    assert opened[0] and "bth" in opened[1] and "ICRC" in opened[1] and opened[2] == frames[0]["frame"]
    link = page.script(f"return document.querySelector('#body-' + CSS.escape('{GAP}') + ' a').getAttribute('href')")
    assert (folder / link).is_file()
    assert "Known result of this device: " in text  # from the monitors
    page.assert_no_requests_or_errors()


def test_page_shows_changes_and_expired_known_results(browser, broken):
    folder, report = broken
    page = Page(browser, folder / "index.html")
    assert [change["kind"] for change in report["changes"]].count("worse") >= 1
    assert "pass → fail" in page.text("changes")
    waived = next(case for case in report["cases"] if "expired" in case)
    page.script("document.getElementById('choose-only').value = ''; choose = document.getElementById('choose-only');"
                "choose.dispatchEvent(new Event('change'))")  # fmt: skip
    page.click("#open-all")
    assert "Expired known result" in page.text(f"case-{waived['id']}")
    assert all(len(case["attempts"]) == 2 for case in report["cases"])


@pytest.mark.parametrize("width", [420, 800, 1600])
def test_page_fits_the_window_width(browser, broken, width):
    page = Page(browser, broken[0] / "index.html")
    browser.set_window_size(width, 900)
    try:
        page.click("#open-all")
        page.script("document.querySelectorAll('.step button').forEach(button => button.click())")
        assert page.script("return document.documentElement.scrollWidth <= innerWidth"), width
    finally:
        browser.set_window_size(1280, 900)


def test_theme_button_changes_the_colors(browser, broken):
    page = Page(browser, broken[0] / "index.html")
    colors = set()
    for _ in range(3):
        page.click("#theme")
        colors.add(page.script("return getComputedStyle(document.body).backgroundColor"))
    assert len(colors) == 2


@pytest.fixture(scope="module")
def declared(tmp_path_factory):
    """A report with a conformance statement, and rows of parameters of which some are changed to failures."""
    folder = tmp_path_factory.mktemp("declared")
    ics = {"format": 1, "transport": "roce", "capabilities": {"uc": True, "xrc": False, "ud": None}, "limits": {"max_qp": 1}}
    (folder / "ics.json").write_text(json.dumps(ics))
    run(BIN / "rdmawire", "certify", "--seed", 7, "--strength", 0, "--only", "UC-00*", "--only", "rc.responder.msn.in-read-response", "--ics",
        folder / "ics.json", "--report", folder, status=None)  # fmt: skip
    return folder, json.loads((folder / "report.json").read_text())


def test_conformance_statement_is_a_table(browser, declared):
    folder, report = declared
    page = Page(browser, folder / "index.html")
    rows = page.script("""return [...document.querySelectorAll("#ics tbody tr")]
        .map(row => [...row.children].slice(0, 4).map(cell => cell.textContent))""")
    assert sorted(rows) == sorted([one["member"], one["claimed"], one.get("reported", "unknown"), one["status"]] for one in report["ics"])
    assert page.script("return document.getElementById('ics').open")  # the device has more than declared
    assert page.script("return document.getElementById('conditions')") is None
    page.assert_no_requests_or_errors()


def test_parameter_values_of_failures_are_a_table(browser, tmp_path):
    run(BIN / "rdmawire", "certify", "--seed", 7, "--strength", 0, "--only", "rc.responder.ack.asked-for-once", "--fault", "psn-does-not-wrap",
        "--report", tmp_path, status=None)  # fmt: skip
    page = Page(browser, tmp_path / "index.html")
    assert "RSP-003" in page.text("conditions") and "no combination separates the rows" in page.text("conditions")
    page.assert_no_requests_or_errors()
