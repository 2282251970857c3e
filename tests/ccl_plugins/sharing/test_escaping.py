"""Words of others stay words wherever Markdown has them."""

from __future__ import annotations

import html
import re

import pytest

from ccl_plugins.files.messages import printable
from ccl_plugins.sharing.card import block, code, plain

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "<!-- c",
    "</code><b>",
    "&lt;b&gt;",
    "[click](http://evil)",
    "![i](http://t/x.png)",
    "http://evil.com",
    "WWW.evil.com",
    "<https://e.com>",
    "a|b|c",
    "x\\|y",
    "|",
    "\\",
    "`code`",
    "```\nfence",
    "*b* _i_ ~~s~~ $$x$$",
    "n\n\n# A heading\n",
    "# head",
    "- item",
    "1. item",
    "---\nlicense: evil\n---",
    "\x1b[2J\u202eabc",
    "",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_plain_text_has_no_mark_that_markdown_reads(text):
    found = plain(text)
    assert not re.search(r"[<>`*\[\]~$|\\\n\x1b]|://|^[-+=#]|^\d+[.)]|(?i:www)\.", found)
    assert html.unescape(found) == printable(text)


def test_a_name_that_is_none_of_markdown_s_stays_readable():
    assert plain("of knn_top1, 0.35 (0.22 to 0.5): 95 % (a)") == (
        "of knn_top1, 0.35 (0.22 to 0.5): 95 % (a)"
    )
    assert code("has_*") == "`has_*`"


@pytest.mark.parametrize("text", HOSTILE)
def test_code_ends_where_the_text_does(text):
    found, shown = code(text), printable(text)
    if "|" in text or not text:  # a cell of a table ends there, in code as well
        assert found == f"<code>{plain(text)}</code>"
        return
    ticks = re.match("`+", found)[0]
    inside = found.removeprefix(ticks).removesuffix(ticks)
    assert ticks not in re.findall("`+", inside)
    assert (inside[1:-1] if "`" in shown[:1] + shown[-1:] else inside) == shown


def test_a_block_of_code_has_longer_marks_than_its_text():
    assert block("toml", "x = 1") == "```toml\nx = 1\n```"
    assert block("", "a\n````\nb").splitlines() == ["`````", "a", "````", "b", "`````"]


@pytest.mark.parametrize("place", ["| {} | end |", "- {} end", "# {}"])
@pytest.mark.parametrize("shown", [plain, code])
def test_a_reader_of_markdown_sees_the_words_alone(place, shown):
    reader = pytest.importorskip("markdown_it", reason="it comes with the extra 'docs'")
    table = "| a | b |\n|---|---|\n" if place.startswith("|") else ""
    for text in HOSTILE:
        rendered = reader.MarkdownIt("commonmark").enable("table").enable("strikethrough")
        out = rendered.render(table + place.format(shown(text)))
        names = {*re.findall(r"</?(\w+)", out)}
        assert names <= {"table", "thead", "tbody", "tr", "th", "td", "ul", "li", "h1", "code"}
        words = " ".join(html.unescape(re.sub(r"<[^>]*>", " ", out)).split())
        assert printable(text) in words, text
