"""Commands that break one law each."""

from __future__ import annotations

import pytest
from support.broken import broken_laws, names


class Sound:
    """Do nothing."""

    example = "ccl sound --size 3"

    def add_arguments(self, parser):
        parser.add_argument("--size", type=int, help="how large")

    def run(self, arguments):
        return 0


class Bare(Sound):
    """Says nothing of an argument."""

    example = ""

    def add_arguments(self, parser):
        parser.add_argument("file")


class Misled(Sound):
    """Has the example of another command."""


class Refused(Sound):
    """Has an example that its parser refuses."""

    example = "ccl refused --width 3"


class Needy(Sound):
    """Cannot be built by its name alone."""

    EXAMPLE = {"size": 3}  # noqa: RUF012

    def __init__(self, size: int) -> None:
        self.size = size


CALL = "its_example_is_a_call_of_it"
BROKEN = {
    Sound: set(),
    Bare: {"every_argument_has_a_help_text"},
    Misled: {CALL},
    Refused: {CALL},
    Needy: {"is_built_without_parameters", CALL},
}
TORCH = "its_help_waits_for_no_large_library"


@pytest.mark.parametrize("broken", BROKEN, ids=lambda each: each.__name__)
def test_the_law_that_a_command_breaks_is_found(broken):
    assert (broken_laws("command", broken) & names("command")) - {TORCH} == BROKEN[broken]


def test_a_command_whose_module_imports_torch_is_found(monkeypatch, tmp_path):
    source = (
        "import torch\nclass Slow:\n    '''Wait.'''\n    def add_arguments(self, parser): ...\n"
        "    def run(self, arguments): ...\n"
    )
    (tmp_path / "slow_command.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    from slow_command import Slow

    assert broken_laws("command", Slow) & names("command") == {TORCH}
