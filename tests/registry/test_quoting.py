"""What is quoted from outside is printable, bounded, and no command unless it is one."""

from __future__ import annotations

import pytest

from ccl_registry import RegistryError, escaped, escaped_lines, pip_install, short_repr

OUTSIDE = [
    "\x1b[31mred\x1b[0m",
    "back\b\b\bspace",
    "\x9b2J",
    "over\rwritten",
    "two\nlines",
    "\u202eright to left",
    "zero\u200bwidth",
    "\udcff",
    "\u2028",
    "\0",
]


@pytest.mark.parametrize("text", OUTSIDE)
def test_a_text_from_outside_is_printed_escaped(text):
    assert escaped(text).isprintable()
    assert str(RegistryError(f"no {text}.")).isprintable()
    assert all(line.isprintable() for line in escaped_lines(text).split("\n"))
    assert escaped(escaped(text)) == escaped(text)
    escaped(text).encode("utf-8")


def test_letters_of_any_language_stay_as_they_are():
    assert escaped("Größe π⁺ 数据 'x'") == "Größe π⁺ 数据 'x'"


def test_a_long_text_keeps_its_beginning_and_its_end():
    text = escaped("a" * 5000 + "z" * 5000)
    assert len(text) <= 200
    assert (text[0], text[-1]) == ("a", "z")
    assert len(short_repr("x" * 10**6)) <= 200
    assert len(str(RegistryError("x" * 10**6))) <= 2000


def test_a_value_whose_repr_raises_has_a_line_that_says_so():
    assert short_repr([10**5000]).startswith("<a list whose repr raises ValueError")


def test_of_a_long_text_the_middle_is_left_out_to_the_letter():
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 6000)))
    assert escaped(text[:200]) == text[:200]
    assert escaped(text[:201]) == f"{text[:145]} ... {text[151:201]}"
    assert short_repr(text) == f"'{text[:144]} ... {text[-49:]}'"
    assert escaped(text[:9], 8) == f"{text[0]} ... {text[7:9]}"
    assert len(str(RegistryError(text))) == 2000
    assert len(escaped_lines("x" * 30_000)) == 20_000


def test_what_is_not_printable_is_escaped_and_nothing_else_changes():
    assert escaped("a\x1b[0m\n\u202eb\\") == "a\\x1b[0m\\n\\u202eb\\"
    assert escaped_lines("a\tb\r\nc\n\x1bd") == "a    b\nc\n\\x1bd"


@pytest.mark.parametrize(
    ("name", "version", "command"),
    [
        ("ccl-ring", "1.2.3", "pip install ccl-ring==1.2.3"),
        ("Ccl.Ring_2", "", "pip install Ccl.Ring_2"),
        ("a", "1!2.0rc1.post3.dev4+local.7", "pip install 'a==1!2.0rc1.post3.dev4+local.7'"),
        ("a", "v1.0-1", "pip install a==v1.0-1"),
        ("a", "V1.0RC1.DEV2", "pip install a==V1.0RC1.DEV2"),
        ("a" * 100, "1-post2", f"pip install {'a' * 100}==1-post2"),
    ],
)
def test_a_valid_name_and_version_make_a_command(name, version, command):
    assert pip_install(name, version) == command


def test_options_stand_before_the_name():
    assert pip_install("a", options="--upgrade") == "pip install --upgrade a"


@pytest.mark.parametrize("name", ["", "-r", "a b", "a;b", "$(a)", "a\n", "a==1", "../a", "a[b]", "ä",
    "\u212aernel", "a" * 101, "a" * 200, "https://a", "a\x1b[31m", "--index-url=x", 3, None, "a-",
    "`a`"])  # fmt: skip
def test_what_is_no_name_of_a_distribution_is_never_a_command(name):
    assert pip_install(name, "1.0") == ""


@pytest.mark.parametrize("version", ["1.0 ", "1;a", "1 --pre", "$(a)", "1.0\n", "*", "1.*", ">=1", "x",
    "1\x1b[0m", "1" * 200, "1.0 #", 1.0, None, "\u0661.0", "1@x"])  # fmt: skip
def test_what_is_no_version_is_never_a_command(version):
    assert pip_install("ccl-ring", version) == ""
