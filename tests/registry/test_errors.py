"""Messages of errors, and how what another author's code raises becomes an error of the registry."""

from __future__ import annotations

import pytest

from ccl_registry import (
    InvalidSpec,
    Mistake,
    PluginFailed,
    RegistryError,
    UnknownComponent,
    did_you_mean,
    errors_as_failure,
    errors_as_warning,
    one_line,
)


def test_the_message_of_an_error_is_its_text_without_quotes():
    assert str(UnknownComponent("no kernel 'a'")) == "no kernel 'a'"
    assert str(RegistryError()) == ""
    assert str(RegistryError("a", "b")) == "a"


def test_an_error_in_one_line_has_its_type_unless_it_is_ours():
    assert one_line(InvalidSpec("a b")) == "a b"
    assert one_line(ValueError("a\n   b\tc")) == "ValueError: a b c"
    assert one_line(KeyError("a")) == "KeyError: 'a'"
    assert one_line(Mistake("a\n b")) == "a b"
    assert [one_line(Mistake()), one_line(SystemExit())] == ["Mistake", "SystemExit"]
    assert len(one_line(ValueError("x" * 5000))) == len("ValueError: ") + 2000


@pytest.mark.parametrize("error", [ValueError("a"), SystemExit("a"), GeneratorExit("a")])
def test_what_another_authors_code_raises_has_its_label_and_is_chained(error):
    with pytest.raises(PluginFailed) as raised, errors_as_failure("it cannot be read"):
        raise error
    assert str(raised.value) == f"it cannot be read ({type(error).__name__}: a)"
    assert raised.value.__cause__ is error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), InvalidSpec("mine")])
def test_ctrl_c_and_errors_of_the_registry_pass(error):
    with pytest.raises(type(error)) as raised, errors_as_failure("it cannot be read"):
        raise error
    assert raised.value is error


@pytest.mark.parametrize("error", [RegistryError, *RegistryError.__subclasses__()])
def test_every_error_of_the_registry_is_a_mistake(error):
    assert issubclass(error, Mistake)
    assert issubclass(error, ValueError)


@pytest.mark.parametrize(
    ("word", "known", "given", "hint"),
    [
        ("rgb", ["ring", "rbf", "rgba"], {}, " Did you mean 'rgba'?"),
        ("zzz", ["ring", "rbf"], {}, " There are: ring, rbf."),
        ("zzz", ["ring", "rbf"], {"otherwise": "Known:"}, " Known: ring, rbf."),
        ("zzz", ["ring", "rbf"], {"otherwise": ""}, ""),
        ("zzz", [], {}, " There are: none."),
    ],
)
def test_a_word_that_is_not_known_gets_the_nearest_or_all(word, known, given, hint):
    assert did_you_mean(word, iter(known), **given) == hint


def test_what_is_left_out_is_named_in_a_warning():
    done = []

    def draw(what):
        with errors_as_warning(f"no picture of {what}", then=lambda: done.append(what)):
            raise KeyError(what)

    with pytest.warns(UserWarning, match=r"^no picture of a \(KeyError: 'a'\)$"):
        draw("a")
    assert done == ["a"]
