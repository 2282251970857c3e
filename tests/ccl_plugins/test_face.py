"""What `import ccl_plugins as ccl` gives."""

from __future__ import annotations

import ast
import copy
import inspect
import json
import pickle
from pathlib import Path

import pytest

import ccl_plugins as ccl
from ccl_plugins.kinds import KINDS
from ccl_plugins.objectives import FairCCLK


def test_a_choice_reads_the_same_as_a_call_and_as_an_attribute():
    assert ccl.kernel("rbf", scale=0.1) == ccl.kernel.rbf(scale=0.1)
    assert ccl.kernel("RBF", scale=0.1) == ccl.kernel("ccl-plugins/rbf", scale=0.1)
    assert repr(ccl.kernel.rbf(scale=0.1)) == "rbf(scale=0.1)"


def test_every_kind_has_its_name_in_the_face():
    for kind in KINDS:
        assert dir(getattr(ccl, kind.name)) == [row["name"] for row in ccl.list(kind.name)]


def test_what_is_not_there_is_an_attribute_error_with_a_suggestion():
    with pytest.raises(AttributeError, match="Did you mean 'rbf'"):
        ccl.kernel.rgb  # noqa: B018  the access is the test
    with pytest.raises(AttributeError, match="'ccl_plugins' has no attribute 'kernels_'"):
        ccl.kernels_  # noqa: B018  likewise


def test_a_component_not_called_shows_its_parameters_and_stands_for_its_defaults():
    assert repr(ccl.kernel.rbf).startswith("rbf(scale: ")
    assert ccl.objective("fair_cclk", kernel=ccl.kernel.rbf) == ccl.objective(
        "fair_cclk", kernel="rbf"
    )


def test_create_builds():
    kernel = ccl.create("kernel", "rbf", scale=2)
    assert type(kernel).__name__ == "RBF"
    objective = ccl.create("objective", "fair_cclk", kernel=kernel, temperature=0.5)
    assert objective.kernel is kernel


def test_a_choice_survives_copying_and_pickling():
    choice = ccl.objective("fair_cclk", kernel=ccl.kernel("rbf", scale=0.1))
    assert copy.deepcopy(choice) == choice
    assert pickle.loads(pickle.dumps(choice)) == choice


def test_a_class_of_ones_own_is_a_component():
    @ccl.local("kernel")
    class Mine:
        """A kernel of the session."""

        positive_definite = False

        def __init__(self, width: float = 1.0) -> None:
            self.width = width

        def __call__(self, a, b):
            return a @ b.T / self.width

    assert Mine(2.0).width == 2.0
    assert ccl.create("kernel", "local/mine", width=3).width == 3.0
    assert ccl.local("kernel", Mine, width=3).record() == {"use": "kernel:local/mine", "width": 3.0}
    (row,) = [
        row for row in ccl.list("kernel") if (row["plugin"], row["name"]) == ("local", "mine")
    ]
    assert row["summary"] == "A kernel of the session."


def test_a_nested_component_that_lacks_members_is_named():
    class Unsigned:
        def __call__(self, a, b):
            return a @ b.T

    for kernel in (Unsigned, Unsigned()):
        with pytest.raises(ccl.InvalidParameter) as raised:
            ccl.create("objective", "fair_cclk", kernel=kernel)
        assert str(raised.value) == (
            "objective.kernel: Unsigned has no positive_definite, which"
            " ccl_plugins.protocols.kernel.Kernel asks for: declare positive_definite = True or"
            " positive_definite = False (whether all eigenvalues of k(z, z) are 0 or more)"
        )


def test_the_listing_is_a_table_in_text_html_and_json():
    table = ccl.list("kernel")
    lines = str(table).splitlines()
    assert lines[0].split()[:5] == ["KIND", "NAME", "PLUGIN", "VERSION", "SUMMARY"]
    assert any(line.split()[:3] == ["kernel", "rbf", "ccl-plugins"] for line in lines)
    assert "<th>NAME</th>" in table._repr_html_()
    assert json.loads(table.json()) == list(table)


def test_info_says_all_there_is():
    text = str(ccl.info("objective", "fair_cclk"))
    for part in (
        "ccl-plugins",
        "cclk.py:",
        "kernel: Kernel",
        "temperature: Scalar =",
        "Args:",
    ):
        assert part in text
    assert ccl.info("kernel", "rbf").declares["positive_definite"] is True
    assert "conditions" in ccl.info("objective", "fair_cclk").declares
    assert ccl.info("method", "simclr").supplied == ("backbone",)


def test_info_says_for_which_parameters_a_measure_holds():
    said = str(ccl.info("condition", "column")).splitlines()
    assert "refresh: never" in said
    assert "value_type: categorical, with name='label', value_type='categorical'" in said
    assert "value_type" not in ccl.info("condition", "saved").declares  # its file says it


def test_errors_share_a_tree():
    for error in (ccl.UnknownComponent, ccl.PluginFailed, ccl.InvalidParameter, ccl.InvalidConfig):
        assert issubclass(error, ccl.RegistryError)
    with pytest.raises(TypeError):
        ccl.kernel("rbf", scael=1.0)


def test_an_attribute_has_the_signature_and_the_documentation_of_its_component():
    shown, real = inspect.signature(ccl.objective.fair_cclk), inspect.signature(FairCCLK)
    assert shown.parameters.keys() == real.parameters.keys()
    for name, parameter in shown.parameters.items():
        assert parameter.default == real.parameters[name].default
        assert parameter.annotation == real.parameters[name].annotation
    assert inspect.getdoc(ccl.objective.fair_cclk) == inspect.getdoc(FairCCLK)
    assert ccl.objective.fair_cclk.__name__ == "fair_cclk"
    assert "backbone" not in inspect.signature(ccl.method.simclr).parameters


def test_the_face_shows_what_is_public_alone(installed_plugins):
    code = """
import ccl_plugins as ccl
import ccl_plugins.objectives, ccl_plugins.cli
assert dir(ccl) == sorted([*ccl.__all__, "__version__"]), dir(ccl)
assert all(hasattr(ccl, name) for name in dir(ccl))
assert not [name for name in dir(ccl) if name.startswith("_") and name != "__version__"]
"""
    installed_plugins.python(code)


def test_type_checkers_know_every_kind():
    names = ast.walk(ast.parse(Path(ccl.__file__).read_text("utf-8")))
    assigned = {each.id for each in names if isinstance(each, ast.Name)}
    assert {kind.name for kind in KINDS} <= assigned


def test_other_attributes_of_the_package_can_be_set(monkeypatch):
    monkeypatch.setattr(ccl, "kernel", "replaced")
    assert ccl.kernel == "replaced"
