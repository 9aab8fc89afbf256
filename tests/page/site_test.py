"""Tests the documentation site in Chromium, from file:// and without a network. scripts/site builds it."""

import json

import pytest

from browsing import CHROMIUM, DRIVER, ROOT, By, browser, wait_for, webdriver  # noqa: F401

SITE = ROOT / "build" / "site"
pytestmark = [
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="requires the site: scripts/site"),
    pytest.mark.skipif(not (CHROMIUM and DRIVER and webdriver), reason="requires chromium, chromium-driver and selenium"),
]


@pytest.fixture
def requests(browser):  # noqa: F811
    """Return the addresses that the browser requested so far."""
    browser.get_log("performance")

    def requested():
        messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
        return [message["params"]["request"]["url"] for message in messages
                if message["method"] == "Network.requestWillBeSent"]  # fmt: skip

    return requested


def test_search_from_the_start_page_finds_a_page_without_network(browser, requests):  # noqa: F811
    browser.get((SITE / "index.html").as_uri())
    field = wait_for(lambda: browser.find_elements(By.CSS_SELECTOR, "input[name=q]"), "the search field")[0]
    field.send_keys("spurious retransmission")
    field.submit()
    result = wait_for(lambda: browser.find_elements(By.PARTIAL_LINK_TEXT, "How packets are correlated"), "a result")
    browser.execute_script("arguments[0].click()", result[-1])
    wait_for(lambda: "how-packets-are-correlated" in browser.current_url, "the page of the result")
    assert not [url for url in requests() if url.startswith(("http", "ws", "ftp"))]


def test_header_reference_fits_into_the_window(browser):  # noqa: F811
    browser.get((SITE / "docs" / "reference" / "headers.html").as_uri() + "#bth")
    position = "return Math.abs(document.querySelector('#bth').getBoundingClientRect().top)"
    wait_for(lambda: browser.execute_script(position) < 200, "the section")
    assert browser.execute_script("return document.documentElement.scrollWidth - innerWidth") <= 0


def test_cpp_reference_has_the_tracker(browser):  # noqa: F811
    browser.get((SITE / "docs" / "reference" / "cpp-api.html").as_uri())
    browser.execute_script("arguments[0].click()", browser.find_element(By.LINK_TEXT, "The C++ reference"))
    wait_for(lambda: browser.current_url.endswith("/cpp/index.html"), "the C++ reference")
    assert (SITE / "cpp" / "classrdmawire_1_1tracking_1_1Tracker.html").exists()
