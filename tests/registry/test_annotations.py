"""Hints whose names are imported for type checkers alone are types like any other."""

from __future__ import annotations

import functools
import sys
import types
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

import pytest
from support.toy_registry import new_registry, write_metadata

from ccl_registry import InvalidParameter, InvalidSpec
from ccl_registry.annotations import resolve
from ccl_registry.params import schema

CHECKING = "import typing\nif typing.TYPE_CHECKING:\n"
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
    "relative star": f"{CHECKING}    from .inner import *\n",
    "after others": (
        f"{CHECKING}    import decimal, fractions as Fractions\n    from json import dumps as written\n"
        "    from .deep.empty import *\n    from support.toy_registry import RBF, Kernel\n"
    ),
    "another name": f"{CHECKING}    from support.toy_registry import Kernel as K\n    Kernel = K\n",
    "after other values": (
        f"{CHECKING}    from support import toy_registry as t\n    Other: type\n    t.mine = Other = int\n"
        "    Kernel = t.Kernel\n"
    ),
    "two sources": (
        "import typing\nfrom typing import TYPE_CHECKING as A\nfrom typing import Any as B\n"
        "if typing.TYPE_CHECKING:\n    from support.toy_registry import Kernel\n"
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
        (package / "deep").mkdir()
        (package / "deep" / "empty.py").write_text("")
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
        ("    import xml.etree.ElementTree\n", "xml.etree.ElementTree.Element | str"),
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
    kernel = found.create("objective", "late").kernel
    assert kernel == "rbf" if "xml" in hint else kernel.scale == 1.0


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
        ("    Kernel = Kernel\n", "Kernel", "(NameError: name 'Kernel' is not defined)"),
        ("    Kernel: type\n", "Kernel", "(NameError: name 'Kernel' is not defined)"),
        ("    import decimal\n    from json import *\n", "Kernel", "name 'Kernel' is not defined"),
        ("    import toy_hints.raising as a\n", "a.T", "(NameError: mine)"),
    ],
)
def test_a_hint_that_cannot_be_resolved_is_refused_with_component_parameter_and_hint(
    write, block, hint, reason
):
    head = "from __future__ import annotations\nimport typing\nif typing.TYPE_CHECKING:\n"
    raising = "def __getattr__(name):\n    raise NameError('mine')\n"
    found = write(head + block + CLASS.format(hint=hint), raising=raising)
    with pytest.raises(InvalidSpec) as raised:
        found.choose("objective", "late")
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
    (deep / "near.py").write_text("from support.toy_registry import Kernel\n")
    block = (
        "import typing\nif typing.TYPE_CHECKING:\n    from .near import Kernel\n__package__ = ''\n"
    )
    (deep / "base.py").write_text(block + CLASS.format(hint="'Kernel'"))
    assert found.create("objective", "late").kernel.scale == 1.0


def test_a_hint_means_what_the_first_module_says_that_knows_it():
    assert resolve("a", "T", [{"T": int}, {"T": str}]) is int
    assert resolve("a", "T", [{}, {"T": str}]) is str


def test_the_same_text_means_another_type_in_another_module():
    hint = Optional["T"]  # noqa: F821  one object wherever it is written, which remembers its type
    assert resolve("a", hint, [{"T": int}]) == int | None
    assert resolve("a", hint, [{"T": str}]) == str | None


@pytest.mark.parametrize(
    ("written", "namespaces", "reason"),
    [
        ("T", [], "its module is unknown"),
        ("T", [{}], "NameError: name 'T' is not defined"),
        ("T", [{"__name__": "no_such_module"}], "NameError: name 'T' is not defined"),
        # Other names than those of the module, whose source therefore says nothing of them.
        (
            "Precise",
            [{"__name__": "support.toy_registry"}],
            "NameError: name 'Precise' is not defined",
        ),
        ("T.x", [{"T": int}, {}], "AttributeError: type object 'int' has no attribute 'x'"),
    ],
)
def test_why_a_hint_cannot_be_resolved_is_what_the_likeliest_module_says(
    written, namespaces, reason
):
    with pytest.raises(InvalidSpec) as raised:
        resolve("a", written, namespaces)
    assert str(raised.value) == f"the hint of a, {written!r}, cannot be resolved ({reason})"


def types_of(target):
    return {each.name: each.hint for each in schema(target).parameters}


def module(monkeypatch, name, **names):
    """A module in which ``T`` is a type."""
    made = types.ModuleType(name)
    vars(made).update(names)
    monkeypatch.setitem(sys.modules, name, made)
    return made


def defined(module, source):
    exec(f"from __future__ import annotations\n{source}", vars(module))
    return module


def test_the_hint_of_a_field_means_what_it_does_where_the_field_is_written(monkeypatch):
    base = defined(
        module(monkeypatch, "toy_base", T=int, dataclass=dataclass),
        "@dataclass\nclass Base:\n    a: T\n",
    )
    heir = defined(
        module(monkeypatch, "toy_heir", T=str, dataclass=dataclass, Base=base.Base),
        "@dataclass\nclass Heir(Base):\n    b: T\n",
    )
    assert types_of(heir.Heir) == {"a": int, "b": str}


def test_the_hint_of_a_constructor_means_what_it_does_where_that_is_written(monkeypatch):
    base = defined(module(monkeypatch, "toy_base", T=int), "class Base:\n    a: T\n")
    heir = defined(
        module(monkeypatch, "toy_heir", T=str, Base=base.Base),
        "class Heir(Base):\n    a: T\n    def __init__(self, a: T): pass\n",
    )
    assert types_of(heir.Heir) == {"a": str}
    heir.Heir.__init__ = base.Base.__init__ = None
    lent = defined(module(monkeypatch, "toy_lent", T=bytes), "def new(cls, a: T): pass\n")
    made = type("Made", (), {"__new__": lent.new, "__module__": "toy_base"})
    assert types_of(made) == {"a": bytes}


def test_a_wrapped_constructor_and_a_named_tuple_have_their_hints(monkeypatch):
    from support import toy_registry

    class Pair(NamedTuple):
        a: Kernel = None  # noqa: F821  which the module says that the class claims to be of

    Pair.__module__ = "support.toy_registry"
    assert types_of(Pair) == {"a": toy_registry.Kernel}
    first = module(monkeypatch, "toy_wraps", functools=functools)
    source = """
def passing(f):
    @functools.wraps(f)
    def g(*given):
        return f(*given)
    return g
"""
    defined(first, source)
    second = defined(
        module(monkeypatch, "toy_wrapped", T=int, passing=first.passing),
        "class C:\n    @passing\n    def __init__(self, a: T): pass\n@passing\ndef f(b: T): pass\n",
    )
    second.C.__module__ = "builtins"
    assert types_of(second.C) == {"a": int}
    assert types_of(second.f) == {"b": int}


def test_a_class_of_a_module_that_is_gone_is_read_as_far_as_it_can_be():
    @dataclass
    class Gone:
        a: int

    Gone.__module__ = "no_such_module"
    assert types_of(Gone) == {"a": int}

    class Lost:
        def __new__(cls, a: Nosuch):  # noqa: F821
            return super().__new__(cls)

    def f(a: Nosuch) -> Any:  # noqa: F821
        return a

    for target in (Lost, functools.partial(f)):
        with pytest.raises(InvalidSpec, match=r"resolved \(NameError: name 'Nosuch' is not"):
            schema(target)
