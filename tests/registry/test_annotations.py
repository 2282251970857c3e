"""Hints whose names are imported for type checkers alone are types like any other."""

from __future__ import annotations

import sys

import pytest
from support.toy_registry import new_registry, write_metadata

from registry import InvalidParameter, InvalidSpec

FORMS = {
    "plain": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from support.toy_registry import Kernel\n"
    ),
    "renamed": (
        "from typing import TYPE_CHECKING as CHECKING\nif CHECKING:\n"
        "    from support.toy_registry import Kernel as Kernel\n"
    ),
    "module": "import typing as t\nif t.TYPE_CHECKING:\n    from support.toy_registry import Kernel\n",
    "negated": (
        "import typing\nif not typing.TYPE_CHECKING:\n    pass\nelse:\n"
        "    from support.toy_registry import Kernel\n"
    ),
    "relative": "import typing\nif typing.TYPE_CHECKING:\n    from .inner import Kernel\n",
    "beside": (
        "import typing\nif typing.TYPE_CHECKING:\n    from . import inner\n    Kernel = inner.Kernel\n"
    ),
    "star": "import typing\nif typing.TYPE_CHECKING:\n    from support.toy_registry import *\n",
    "tried": (
        "import typing\nif typing.TYPE_CHECKING:\n    try:\n"
        "        from support.toy_registry import Kernel\n    except ImportError:\n        pass\n"
    ),
}
"""Ways to import a protocol for type checkers."""

CLASS = '''
class Taking:
    """Takes a kernel."""
    def __init__(self, kernel: {hint} = "rbf") -> None:
        self.kernel = kernel
'''


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes the module of an objective, and returns the registry that offers it."""

    def written(text, name="Taking", **others):
        package = tmp_path / "toy_hints"
        package.mkdir()
        files = {"__init__": "", "inner": "from support.toy_registry import Kernel\n", **others}
        for each, source in {**files, "late": text}.items():
            (package / f"{each}.py").write_text(source)
        host = "[toy.kernel]\nrbf = support.toy_registry:RBF\n"
        write_metadata(tmp_path, "toy_host", "1", host)
        write_metadata(
            tmp_path, "toy_hints", "1", f"[toy.objective]\nlate = toy_hints.late:{name}\n"
        )
        return new_registry()

    monkeypatch.syspath_prepend(tmp_path)
    yield written
    for module in [m for m in sys.modules if m.partition(".")[0] == "toy_hints"]:
        del sys.modules[module]


@pytest.mark.parametrize("future", ["from __future__ import annotations\n", ""])
@pytest.mark.parametrize("form", FORMS)
def test_a_component_is_taken_by_its_name_however_its_protocol_is_imported(write, form, future):
    text = FORMS[form] + CLASS.format(hint="Kernel" if future else "'Kernel'")
    built = write(future + text).create("objective", "late", kernel={"use": "rbf", "scale": 2.0})
    assert built.kernel.scale == 2.0


@pytest.mark.parametrize(
    ("block", "hint"),
    [
        ("    import support.toy_registry as toys\n", "toys.Kernel"),
        ("    import support.toy_registry\n", "support.toy_registry.Kernel"),
        ("    from support import toy_registry\n", "toy_registry.Kernel"),
        ("    from support.toy_registry import Kernel\n", "typing.Optional[Kernel]"),
        (
            "    from collections.abc import Sequence\n    import support.toy_registry as s\n",
            "s.Kernel",
        ),
    ],
)
def test_names_in_dotted_and_nested_hints_are_found(write, block, hint):
    head = "from __future__ import annotations\nimport typing\nif typing.TYPE_CHECKING:\n"
    found = write(head + block + CLASS.format(hint=hint))
    assert found.create("objective", "late").kernel.scale == 1.0


def test_a_wrong_word_of_a_literal_is_refused_though_literal_is_for_checkers(write):
    head = (
        "from __future__ import annotations\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
        "    from typing import Literal, TypeAlias\n    Mode: TypeAlias = Literal['a', 'b']\n"
    )
    found = write(head + CLASS.format(hint="Mode").replace("rbf", "a"))
    assert found.create("objective", "late", kernel="b").kernel == "b"
    with pytest.raises(InvalidParameter, match=r"kernel must be Literal\['a', 'b'\], not 'c'"):
        found.choose("objective", "late", kernel="c")


def test_a_hint_is_read_in_the_module_of_the_class_that_wrote_it(write):
    base = "from __future__ import annotations\n" + FORMS["plain"] + CLASS.format(hint="Kernel")
    heir = "from .base import Taking\nclass Heir(Taking):\n    '''Inherits.'''\n"
    assert write(heir, "Heir", base=base).create("objective", "late").kernel.scale == 1.0


def test_a_field_of_a_dataclass_is_read_in_the_module_of_its_class(write):
    head = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    base = head + FORMS["plain"] + "@dataclass\nclass Base:\n    kernel: Kernel = 'rbf'\n"
    heir = f"{head}from .base import Base\n@dataclass\nclass Heir(Base):\n    a: int = 1\n"
    assert write(heir, "Heir", base=base).create("objective", "late").kernel.scale == 1.0


@pytest.mark.parametrize(
    ("block", "hint", "reason"),
    [
        ("    from nowhere import Kernel\n", "Kernel", "No module named 'nowhere'"),
        (
            "    from support.toy_registry import Nosuch\n",
            "Nosuch",
            "No module named 'support.toy_reg",
        ),
        ("    pass\n", "Kernel", "name 'Kernel' is not defined"),
        ("    Kernel = Kernel\n", "Kernel", "name 'Kernel' is not defined"),
    ],
)
def test_a_hint_that_cannot_be_resolved_is_refused_with_component_parameter_and_hint(
    write, block, hint, reason
):
    head = "from __future__ import annotations\nimport typing\nif typing.TYPE_CHECKING:\n"
    with pytest.raises(InvalidSpec) as raised:
        write(head + block + CLASS.format(hint=hint)).choose("objective", "late")
    message = str(raised.value)
    assert message.startswith(
        f"objective toy-hints/late 1: the hint of kernel, '{hint}', cannot be"
    )
    assert reason in message


def test_nothing_is_imported_that_no_hint_needs(write):
    head = (
        "from __future__ import annotations\nimport typing\nif typing.TYPE_CHECKING:\n"
        "    import toy_hints.unneeded\n    from support.toy_registry import Kernel\n"
    )
    found = write(head + CLASS.format(hint="Kernel"), unneeded="raise SystemExit\n")
    assert found.create("objective", "late").kernel.scale == 1.0
    assert "toy_hints.unneeded" not in sys.modules


def test_another_name_that_a_module_renames_is_not_taken_for_type_checking(write):
    head = (
        "from .inner import SPEED as MODE\nif MODE:\n    from support.toy_registry import Kernel\n"
    )
    found = write(head + CLASS.format(hint="'Kernel'"), inner="SPEED = False\n")
    with pytest.raises(InvalidSpec, match="the hint of kernel, 'Kernel', cannot be resolved"):
        found.choose("objective", "late")


def test_relative_imports_of_a_deep_module_without_a_package_are_those_of_its_folder(
    write, tmp_path
):
    heir = "from .deep.base import Taking\nclass Heir(Taking):\n    '''Inherits.'''\n"
    found = write(heir, "Heir")
    deep = tmp_path / "toy_hints" / "deep"
    deep.mkdir()
    (deep / "near.py").write_text("from support.toy_registry import Kernel\n")
    block = (
        "import typing\nif typing.TYPE_CHECKING:\n    from .near import Kernel\n__package__ = ''\n"
    )
    (deep / "base.py").write_text(block + CLASS.format(hint="'Kernel'"))
    assert found.create("objective", "late").kernel.scale == 1.0
