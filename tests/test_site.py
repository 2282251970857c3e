"""The built site, in a real Chromium: `make site` builds it."""

from __future__ import annotations

import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from support.browser import CHROMIUM, DRIVER, chromium
from support.imports import ROOT

from ccl_plugins.kinds import registry

SITE = ROOT / "build" / "site"
PAGES = (
    "index.html",
    "README.html",
    "tutorial/first-pipeline.html",
    "how-to/choose-a-method.html",
    "reference/components.html",
    "reference/components/objective/fair_cclk.html",
    "reference/components/objective/supcon.html",
    "reference/components/kernel/rbf.html",
    "reference/api/pairs.html",
    "reference/configuration.html",
    "reference/notation.html",
    "reproduction/claims.html",
    "source/ccl_plugins/objectives/cclk.py.html",
)
LOADED = re.compile(
    r"<(?:script|img|iframe|link|source)\b[^>]*(?:src|href)=\"((?:https?:)?//[^\"]*)\""
)

pytestmark = pytest.mark.skipif(
    not (SITE / "index.html").exists(), reason="there is no built site: run make site"
)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def address():
    handler = partial(_Quiet, directory=str(SITE))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser():
    pytest.importorskip("selenium", reason="needs selenium")
    if not (CHROMIUM and DRIVER):
        pytest.skip("needs chromium and chromedriver")
    with chromium() as opened:
        yield opened


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_pages_are_whole_on_a_desktop_and_on_a_phone(browser, address, width, scheme):
    for page in PAGES:
        browser.requests()
        browser.open(f"{address}{page}", width=width, scheme=scheme)
        assert browser.complaints() == [], page
        assert [u for u in browser.requests() if not u.startswith(address)] == [], page
        assert browser.js("return document.documentElement.scrollWidth <= innerWidth"), page


def test_light_and_dark_pages_have_other_colors(browser, address):
    colors = set()
    for scheme in ("light", "dark"):
        browser.open(f"{address}{PAGES[5]}", scheme=scheme)
        colors.add(browser.js("return getComputedStyle(document.body).backgroundColor"))
    assert len(colors) == 2


def test_an_objective_has_its_formula_and_its_matrices(browser, address):
    browser.open(f"{address}reference/components/objective/fair_cclk.html")
    assert browser.js("return document.querySelectorAll('math mfrac').length") >= 1
    assert browser.js("return document.querySelectorAll('.matrices svg').length") == 3
    own = "document.querySelectorAll('.matrices svg')[0].querySelectorAll('rect.pull').length"
    assert browser.js(f"return {own}") == 4


def test_the_search_finds_a_component(browser, address):
    from selenium.webdriver.support.ui import WebDriverWait

    browser.open(f"{address}search.html?q=fair_cclk")
    links = "return [...document.querySelectorAll('ul.search li a')].map(a => a.href).join(' ')"
    found = WebDriverWait(browser.driver, 30).until(lambda _: browser.js(links))
    assert "reference/components/objective/fair_cclk.html" in found
    assert browser.complaints() == []


def test_no_page_loads_anything_from_another_host():
    for page in SITE.rglob("*.html"):
        assert LOADED.findall(page.read_text("utf-8")) == [], page


def test_every_built_in_component_has_its_page():
    reg = registry()
    for spec in reg.specs():
        if spec.plugin == reg.host:
            assert (SITE / f"reference/components/{spec.kind}/{spec.name}.html").is_file()
