"""The built site, in a real Chromium: `make site` builds it."""

from __future__ import annotations

import re
import threading
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from posixpath import dirname, join, normpath
from urllib.parse import quote

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
    "evidence/reproduction/claims.html",
    "source/ccl_plugins/objectives/cclk.py.html",
)
QUESTIONS = {
    "how do I keep plates out?": "how-to/keep-and-suppress",
    "does it run on two GPUs?": "how-to/train-at-scale",
    "what is a condition?": "how-to/bring-your-own-condition|reference/glossary",
    "where are my numbers?": "how-to/measure",
    "can I use my own loss?": "how-to/write-a-component",
    "how do I resume?": "how-to/resume",
    "which objective?": "how-to/which-objective",
    "how do I add a kernel?": "how-to/write-a-component",
    "how do I use my own images?": "how-to/datasets",
    "what does it cost?": r"(?:evidence/)?(?:benchmarks/)?(?:objectives|light|training)",
}
"""What users ask, and the page that answers it, as a pattern."""
FIRST = 3
"""The results of a search that a user looks at."""
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


@pytest.mark.parametrize("question", QUESTIONS)
def test_one_search_finds_the_page_that_answers_a_question(browser, address, question):
    from selenium.webdriver.support.ui import WebDriverWait

    browser.open(f"{address}search.html?q={quote(question)}")
    found = WebDriverWait(browser.driver, 60).until(lambda _: results(browser))
    assert any(re.fullmatch(QUESTIONS[question], page) for page in found[:FIRST]), found[:8]


def results(browser):
    """The pages that a search found, best first; none while it goes on."""
    if browser.js("return !!document.querySelector('#search-progress:not(:empty)')"):
        return []
    links = "return [...document.querySelectorAll('ul.search > li > a')].map(a => a.pathname)"
    return [*dict.fromkeys(path.strip("/").removesuffix(".html") for path in browser.js(links))]


class _Links(HTMLParser):
    """The pages that the article of a page links to, and that its sidebar does."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.page, self.found = page, set()
        self.feed((SITE / f"{page}.html").read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        target = dict(attrs).get("href", "").partition("#")[0]
        if tag == "a" and target.endswith(".html") and ":" not in target:
            path = normpath(join(dirname(self.page), target)).removesuffix(".html")
            if (SITE / f"{path}.html").is_file():
                self.found.add(path)


@pytest.mark.parametrize("question", QUESTIONS)
def test_two_clicks_lead_to_the_page_that_answers_a_question(question):
    once = _Links("index").found
    reached = once.union(*(_Links(page).found for page in once if not page.startswith("source/")))
    assert any(re.fullmatch(QUESTIONS[question], page) for page in reached)


CONTRAST = """
const channels = text => (text.match(/[\\d.]+/g) || []).map(Number);
const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
  .map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const over = (top, below) => top.slice(0, 3)
  .map((c, i) => c * (top[3] ?? 1) + below[i] * (1 - (top[3] ?? 1)));
const ground = each => {
  const own = each ? channels(getComputedStyle(each).backgroundColor) : [255, 255, 255];
  return (own[3] ?? 1) === 1 || !each ? own : over(own, ground(each.parentElement));
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const found = [];
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const each = node.parentElement, style = getComputedStyle(each);
  const shown = each.checkVisibility({checkOpacity: true, checkVisibilityCSS: true});
  if (!node.textContent.trim() || !shown) continue;
  if (["SCRIPT", "STYLE", "NOSCRIPT"].includes(each.tagName) || each.closest("svg")) continue;
  const back = ground(each), front = over(channels(style.color), back);
  const [low, high] = [light(back), light(front)].sort((a, b) => a - b);
  const size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  const ratio = (high + 0.05) / (low + 0.05);
  if (ratio < (large ? 3 : 4.5)) found.push([node.textContent.trim().slice(0, 40), ratio.toFixed(2)]);
}
return found;
"""
"""The texts of a page whose color is too near to that of their ground, by WCAG 2.1, level AA."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_front_page_can_be_read(browser, address, scheme):
    browser.open(f"{address}index.html", width=390, scheme=scheme)
    assert browser.js(CONTRAST) == []
    assert browser.js("return document.documentElement.scrollWidth <= innerWidth")


def test_the_front_page_has_headings_in_order_and_names_for_all_that_it_shows(browser, address):
    browser.open(f"{address}index.html")
    levels = browser.js(
        "return [...document.querySelectorAll('h1, h2, h3, h4')].map(h => +h.tagName[1])"
    )
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip([0, *levels], levels, strict=False))
    assert browser.js("return document.documentElement.lang") == "en"
    assert browser.js("return !!document.querySelector('meta[name=viewport]')")
    images = (
        "[...document.images].filter(i => i.checkVisibility() && !i.alt.trim()).map(i => i.src)"
    )
    assert browser.js(f"return {images}") == []
    unnamed = (
        "[...document.querySelectorAll('a[href], button, input:not([type=hidden])')]"
        ".filter(e => e.checkVisibility())"
        ".filter(e => !(e.textContent + (e.getAttribute('aria-label') || '') + (e.title || '')"
        " + (e.placeholder || '') + [...e.querySelectorAll('img')].map(i => i.alt).join('')).trim())"
        ".map(e => e.outerHTML)"
    )
    assert browser.js(f"return {unnamed}") == []


def test_no_page_loads_anything_from_another_host():
    for page in SITE.rglob("*.html"):
        assert LOADED.findall(page.read_text("utf-8")) == [], page


def test_every_built_in_component_has_its_page():
    reg = registry()
    for spec in reg.specs():
        if spec.plugin == reg.host:
            assert (SITE / f"reference/components/{spec.kind}/{spec.name}.html").is_file()
