"""What `import ccl_plugins as ccl` gives."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

import ccl_plugins as ccl
from ccl_plugins.kinds import KINDS


def test_a_choice_reads_the_same_as_a_call_and_as_an_attribute():
    assert ccl.kernel("rbf", scale=0.1) == ccl.kernel.rbf(scale=0.1)
    assert ccl.kernel("RBF", scale=0.1) == ccl.kernel("ccl-plugins/rbf", scale=0.1)
    assert repr(ccl.kernel.rbf(scale=0.1)) == "rbf(scale=0.1)"


def test_every_kind_has_its_name_in_the_face():
    for kind in KINDS:
        assert dir(getattr(ccl, kind.name)) == sorted(
            # Classes of the session, which other tests define, have their names there too.
            {r["name"] for r in ccl.list(kind.name) if r["plugin"] in ("ccl-plugins", "local")}
        )


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
    assert [row["summary"] for row in ccl.list("kernel") if row["plugin"] == "local"] == [
        "A kernel of the session."
    ]


def test_a_nested_component_that_lacks_members_is_named():
    class Unsigned:
        def __call__(self, a, b):
            return a @ b.T

    for kernel in (Unsigned, Unsigned()):
        with pytest.raises(ccl.InvalidParameter) as raised:
            ccl.create("objective", "fair_cclk", kernel=kernel)
        assert str(raised.value) == (
            "objective.kernel: Unsigned has no positive_definite, which"
            " ccl_plugins.protocols.Kernel asks for"
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
        "fair_cclk.py:",
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


@pytest.mark.parametrize(
    "order",
    [
        "import ccl_plugins as ccl; import ccl_plugins.transforms",
        "import ccl_plugins.transforms; import ccl_plugins as ccl",
        "from ccl_plugins.transforms import SimCLRTransform; import ccl_plugins as ccl",
        "import ccl_plugins as ccl; ccl.create('views', 'simclr', size=32)",
        "import importlib; importlib.import_module('ccl_plugins.transforms'); import ccl_plugins as ccl",
    ],
)
def test_the_kind_views_and_the_folder_views_live_together(installed_plugins, order):
    code = f"""
{order}
import sys
from ccl_plugins import views
from ccl_plugins.transforms import SimCLRTransform
import ccl_plugins.transforms as module
assert views is ccl.transform is module
assert ccl.transform("simclr", size=32) == ccl.transform.simclr(size=32)
assert ccl.create("transform", "simclr", size=32).__class__ is SimCLRTransform
assert module.SimCLRTransform is ccl.transform.SimCLRTransform is SimCLRTransform
assert sys.modules["ccl_plugins.transforms"].SimCLRTransform is SimCLRTransform
"""
    installed_plugins.python(code)


def test_other_attributes_of_the_package_can_be_set(monkeypatch):
    monkeypatch.setattr(ccl, "kernel", "replaced")
    assert ccl.kernel == "replaced"
