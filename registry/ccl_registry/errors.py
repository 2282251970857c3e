"""`Mistake`, the base of errors that a user can fix, and the registry's errors."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator

from .quoting import escaped, escaped_lines

LONGEST = 2000
"""The most characters of a message."""


class Mistake(ValueError):
    """An error that the user can fix: the message says what is wrong, and what would be right.

    The command line prints it as one line. Other errors of this project are bugs or accidents.
    """


class RegistryError(Mistake):
    """The base class of all errors of the registry; their messages are printable and on one line."""

    def __str__(self) -> str:
        # KeyError would show the repr of its argument.  The message may quote other authors' text.
        return escaped(self.args[0], LONGEST) if self.args else ""


class UnknownComponent(RegistryError, KeyError):
    """No component, kind or plugin has this name."""


class AmbiguousName(RegistryError):
    """Several plugins offer this name and none of them is the host."""


class InvalidSpec(RegistryError):
    """A plugin declares something that cannot be offered."""


class PluginFailed(RegistryError, ImportError):
    """A plugin or a component cannot be imported; the cause is chained.

    Attributes:
        name: The plugin, if the error belongs to one; else None.
    """


class InvalidParameter(RegistryError, TypeError):
    """A component does not accept this parameter or this value."""


class InvalidConfig(RegistryError):
    """A configuration cannot be read, or a choice cannot be written to one."""


def did_you_mean(
    word: object, words: Iterable[object], otherwise: str = "There are:", most: int = 1
) -> str:
    """The sentence that ends a message about an unknown word: ``" Did you mean 'x'?"``.

    Args:
        word: The unknown word.
        words: The right words.
        otherwise: The beginning of the sentence that lists all words, if none is near; ``""`` for
            no sentence.
        most: The largest number of near words that are named.
    """
    from difflib import get_close_matches  # only an error needs it

    words = list(words)
    by_folded = {str(right).lower(): right for right in words}
    if near := get_close_matches(str(word).lower(), by_folded, n=most):
        return f" Did you mean {' or '.join(repr(by_folded[folded]) for folded in near)}?"
    return f" {otherwise} {', '.join(map(str, words)) or 'none'}." if otherwise else ""


def one_line(error: BaseException) -> str:
    """The message of an error, after its type unless it is a `Mistake`."""
    if isinstance(error, RegistryError):
        return str(error)
    text = " ".join(escaped_lines(error, LONGEST).split())
    if text and isinstance(error, Mistake):
        return text
    return f"{type(error).__name__}: {text}".removesuffix(": ")


@contextlib.contextmanager
def placed(where: str) -> Iterator[None]:
    """Let messages of the registry's errors begin with a place, such as one in a config, or ""."""
    try:
        yield
    except RegistryError as error:
        if where:
            error.args = (f"{where}: {error}",)
        raise


@contextlib.contextmanager
def errors_as_failure(
    label: str, passing: type[Exception] | tuple[()] = RegistryError, plugin: str | None = None
) -> Iterator[None]:
    """Raise errors of another author's code as `PluginFailed`; Ctrl-C passes.

    Args:
        label: The beginning of the message, which names the plug-in or the component.
        passing: Errors that pass too.
        plugin: The name of the plug-in, if it is known.

    Raises:
        PluginFailed: With the error as its cause.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit, a test's skip, a panic of another language
        if isinstance(error, passing):
            raise
        failed = PluginFailed(f"{label} ({one_line(error)})")
        failed.name = plugin
        raise failed from error


@contextlib.contextmanager
def errors_as_warning(lost: str, then: Callable[[], object] | None = None) -> Iterator[None]:
    """Turn errors of another author's code into warnings, and continue.

    Args:
        lost: The sentence that says who raised it and what is missing now.
        then: Called before the warning, for example to leave out the failed part.
    """
    try:
        yield
    except Exception as error:
        if then is not None:
            then()
        # The warning names the caller of the function with the block, past this generator and contextlib.
        warnings.warn(f"{lost} ({one_line(error)})", stacklevel=4)
