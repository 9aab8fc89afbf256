"""Opens a page in Chromium from file://, without a network."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("RDMAWIRE", ROOT / "build" / "dev" / "bin" / "rdmawire")).parent
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
SECONDS = 60  # time limit of a page, for a loaded host

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
except ImportError:
    webdriver = None

MISSING = [name for name, found in (
    ("Debian's chromium", CHROMIUM), ("Debian's chromium-driver", DRIVER), ("Python's selenium", webdriver),
    (f"{BIN}/rdmawire", (BIN / "rdmawire").exists()), (f"{BIN}/make_page", (BIN / "make_page").exists()))
    if not found]  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--disable-gpu", "--window-size=1280,900", "--disable-dev-shm-usage",
                     "--disable-background-networking", "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND",
                     f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):  # fmt: skip
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_page_load_timeout(SECONDS)
    driver.set_script_timeout(SECONDS)
    yield driver
    driver.quit()


def run(*arguments, status=0):
    """Run a program that must exit with this status (None: 0 or 1)."""
    done = subprocess.run(list(map(str, arguments)), capture_output=True, timeout=60)
    assert done.returncode == status if status is not None else done.returncode in (0, 1), done.stderr
    return done


def wait_for(condition, name):
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.02)
    raise AssertionError(f"{name}: not within {SECONDS} s")


class Page:
    """An open page. Its URL can contain a fragment."""

    def __init__(self, browser, path):
        self.browser, self.path = browser, path
        browser.get("about:blank")
        for kind in ("browser", "performance"):
            browser.get_log(kind)
        browser.get(path.as_uri())
        self.ready()

    def ready(self):
        state = wait_for(lambda: self.script("return document.documentElement.dataset.ready"), "the page is ready")
        assert state == "yes", self.text("wait")

    def script(self, text, *arguments):
        return self.browser.execute_script(text, *arguments)

    def find(self, css):
        return self.browser.find_element(By.CSS_SELECTOR, css)

    def all(self, css):
        return self.browser.find_elements(By.CSS_SELECTOR, css)

    def text(self, name):
        return self.script("return document.getElementById(arguments[0])?.textContent", name)

    def click(self, css):
        self.script("arguments[0].click()", self.find(css))

    def color_count(self, name):
        """Return the number of colors in a canvas."""
        return self.script("""
            const canvas = document.getElementById("canvas-" + arguments[0]);
            if (!canvas) return 0;
            const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            const colors = new Set(new Uint32Array(data.buffer));
            return colors.size;""", name)

    def rows(self, name):
        return self.script("""return [...document.querySelectorAll("#table-" + arguments[0] + " tbody tr")]
            .map(row => [...row.cells].map(cell => cell.textContent))""", name)

    def type(self, css, text):
        self.script("""arguments[0].value = arguments[1];
            arguments[0].dispatchEvent(new Event("input", {bubbles: true}))""", self.find(css), text)

    def assert_no_requests_or_errors(self):
        """Assert that the page sent no network requests and that the console has no messages."""
        requested = []
        for entry in self.browser.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                requested.append(message["params"]["request"]["url"])
        outside = [url for url in requested if not url.startswith((self.path.as_uri(), "data:", "blob:", "about:"))]
        assert not outside
        assert [entry["message"] for entry in self.browser.get_log("browser")] == []
