"""The page of `rdmawire certify --report` in a real Chromium, from file:// and without a network: of the whole suite, of
a broken device with everything that can be known of it, and of a hostile one."""

import json

import pytest

from browsing import BIN, LACKS, Page, browser, run  # noqa: F401

pytestmark = pytest.mark.skipif(bool(LACKS), reason=f"needs {', '.join(LACKS)}")

GAP = "rc.responder.psn.sequence-error"
LEAVE = "return document.querySelectorAll('#cases .finding').length"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    run(BIN / "rdmawire", "certify", "--seed", 7, "--report", folder, status=None)
    return folder, json.loads((folder / "report.json").read_text())


@pytest.fixture(scope="module")
def broken(tmp_path_factory, whole):
    """A device with a fault that is known and one whose waiver is over; compared with a sound one."""
    folder = tmp_path_factory.mktemp("broken")
    known = {"RSP-009/as observed": {"verdict": "fail", "reason": "as in the case"},
             "rc.responder.psn.sequence-error": {"verdict": "fail", "reason": "a second <b>NAK</b>", "right": "unclear"},
             "RSP-011": {"verdict": "fail", "reason": "being recomputed", "until": "2020-01-01"}}  # fmt: skip
    (folder / "known.json").write_text(json.dumps({"format": 1, "cases": known}))
    run(BIN / "rdmawire", "certify", "--seed", 7, "--only", "RSP-00*", "--only", "RSP-01*", "--fault",
        "naks-every-packet", "--expected", folder / "known.json", "--baseline", whole[0] / "report.json", "--repeat", 2,
        "--report", folder, status=None)  # fmt: skip
    return folder, json.loads((folder / "report.json").read_text())


def test_the_whole_suite_opens_quickly_and_says_what_the_report_says(browser, whole):
    folder, report = whole
    path = folder / "index.html"
    assert path.stat().st_size < 4e6
    page = Page(browser, path)
    took = page.script("return performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    assert took < 5000
    cards = page.script("""return Object.fromEntries([...document.querySelectorAll("#summary .card")]
        .map(card => [card.dataset.count, Number(card.querySelector("b").textContent.replace(/,/g, ""))]))""")
    assert cards.pop("cases") == len(report["cases"])
    assert {name: count for name, count in cards.items() if count} == report["verdicts"]
    cells = page.script("""return [...document.querySelectorAll("#groups td button")].map(button => Number(button.textContent))""")
    assert sum(cells) == len(report["cases"])
    assert report["note"] in page.text("disclaimer")
    page.assert_quiet()


def test_a_number_of_the_matrix_leads_to_its_cases(browser, whole):
    folder, report = whole
    page = Page(browser, folder / "index.html")
    page.click("#groups button[data-group=UC][data-verdict=pass]")
    expected = [case["id"] for case in report["cases"] if case["alias"].startswith("UC-") and case["verdict"] == "pass"]
    shown = page.script("return [...document.querySelectorAll('#cases .title')].map(title => title.textContent)")
    assert shown and set(expected) <= set(shown)
    assert len(shown) == int(page.script("return document.querySelector('#groups button[data-group=UC][data-verdict=pass]').textContent"))
    page.type("#choose-text", "no case says this")
    assert page.script(LEAVE) == 0
    page.type("#choose-text", "")
    assert page.script(LEAVE) == len(shown)


def test_a_case_shows_its_clause_its_ladder_and_its_frames(browser, broken):
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
    assert "A second <b>NAK</b>" in text  # as text, not as HTML
    frames = [step for step in case["steps"] if "frame" in step]
    assert page.script(f"return document.getElementById('case-{GAP}').querySelectorAll('.step button').length") == len(frames)
    # By keyboard: the frame opens, with its headers and its bytes.
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
    assert "Known result of this device: " in text  # what monitors saw
    page.assert_quiet()


def test_what_is_known_what_was_waived_and_what_changed(browser, broken):
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
def test_the_page_fits(browser, broken, width):
    page = Page(browser, broken[0] / "index.html")
    browser.set_window_size(width, 900)
    try:
        page.click("#open-all")
        page.script("document.querySelectorAll('.step button').forEach(button => button.click())")
        assert page.script("return document.documentElement.scrollWidth <= innerWidth"), width
    finally:
        browser.set_window_size(1280, 900)


def test_light_and_dark_differ(browser, broken):
    page = Page(browser, broken[0] / "index.html")
    colors = set()
    for _ in range(3):
        page.click("#theme")
        colors.add(page.script("return getComputedStyle(document.body).backgroundColor"))
    assert len(colors) == 2
