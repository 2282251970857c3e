"""Composing: what goes together, what does not, and that a record says everything."""

from __future__ import annotations

import json
import re
import warnings

import pytest
import torch

import ccl_plugins as ccl
from ccl_plugins.kernels import RBF

PARTS = {
    "dataset": "color_digits",
    "backbone": "lenet5",
    "method": {"use": "simclr", "hidden": 16, "dim": 8},
    "transform": {"use": "simclr", "size": 32, "jitter": 0.0, "gray": 0.0, "blur": 0.0},
    "objective": {"use": "fair_cclk", "kernel": "rbf"},
    "condition": {"use": "column", "name": "color"},
}


def compose(**changes):
    return ccl.Pipeline(**{**PARTS, **changes})


def test_a_record_is_read_back_to_an_equal_pipeline():
    pipeline = compose(fit={"epochs": 3})
    record = json.loads(pipeline.to_json())
    assert ccl.Pipeline.from_dict(record) == pipeline
    assert record["objective"]["use"] == "objective:ccl-plugins/fair_cclk"
    assert record["objective"]["ridge"] == 0.01, "defaults are in the record"
    assert record["fit"]["batch_size"] == 256
    assert record["versions"] == {"ccl-plugins": ccl.__version__}


def test_names_tables_and_choices_are_the_same_pipeline(tmp_path):
    file = tmp_path / "fair.toml"
    file.write_text(
        """
        dataset = "color_digits"
        backbone = "lenet5"
        method = {use = "simclr", hidden = 16, dim = 8}
        transform = {use = "simclr", size = 32, jitter = 0.0, gray = 0.0, blur = 0.0}
        condition = {use = "column", name = "color"}
        [objective]
        use = "fair_cclk"
        kernel = "rbf"
        """
    )
    choices = compose(
        objective=ccl.objective.fair_cclk(kernel=ccl.kernel.rbf()),
        condition=ccl.condition("column", name="color"),
    )
    assert ccl.Pipeline.from_toml(file) == choices == compose()


def test_an_object_of_one_s_own_is_accepted_and_recorded_as_local():
    pipeline = compose(objective=ccl.objective("fair_cclk", kernel=RBF(0.5)))
    assert pipeline.to_dict()["objective"]["kernel"]["use"] == "kernel:local/rbf"
    assert pipeline.build().objective.kernel.scale == 0.5


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"condition": None}, ValueError, "FairCCLK reads the condition 'condition' .* has none"),
        ({"condition": None, "conditions": {"color": "label"}}, ValueError, "on='color'"),
        ({"transform": {"use": "multi", "count": 1, "size": 32}}, ValueError, "count|2 views"),
        ({"objective": "fare_cclk"}, ccl.UnknownComponent, "Did you mean 'fair_cclk'"),
        ({"fit": {"epoch": 3}}, ccl.InvalidConfig, "fit: unknown key 'epoch'.*'epochs'"),
        ({"fit": {"epochs": 0}}, ValueError, "epochs must be 1 or more, not 0"),
        (
            {"fit": {"optimizer": "adamv"}},
            ccl.UnknownComponent,
            "fit.optimizer: .*Did you mean 'adam'",
        ),
        ({"condition": {"use": "column", "name": "hue"}}, ValueError, "no column 'hue'"),
        ({"backbone": {"use": "lenet5", "channels": 1}}, ccl.InvalidParameter, "channels"),
        ({"conditions": {}}, ValueError, "not both"),
    ],
)
def test_what_does_not_go_together_is_named(changes, error, words):
    with pytest.raises(error, match=words):
        compose(**changes)


def test_a_condition_of_the_wrong_measure_names_the_way_out():
    with pytest.raises(ValueError, match=r"categorical condition.*is continuous.*clusters"):
        compose(objective="supcon")


def test_a_plugin_for_a_later_version_says_so(install_plugin):
    info, kernel = "ccl_late-1.dist-info/METADATA", {"use": "fair_cclk", "kernel": "late"}
    files = {
        info: "Name: ccl-late\nVersion: 1\nRequires-Dist: ccl-plugins>=9\n",
        "late.py": "from ccl_plugins.kernels import RBF",
        "later.py": "from ccl_plugins.kernels import Tomorrow",
    }
    points = {"late": "late:RBF", "later": "later:Tomorrow"}
    install_plugin("ccl-late", {"ccl_plugins.kernel": points}, files, version="1")
    says = "the plug-in ccl-late needs ccl-plugins>=9, and .* is installed"
    with pytest.warns(UserWarning, match=says):
        compose(objective=kernel)
    with pytest.raises(ccl.PluginFailed, match="cannot import later") as error:
        compose(objective={**kernel, "kernel": "later"})
    assert re.match(says, error.value.__notes__[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compose()


def test_a_condition_that_nothing_reads_is_a_warning():
    with pytest.warns(UserWarning, match="nothing in this pipeline reads the condition"):
        compose(objective="infonce")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compose(objective="infonce", condition=None)


def test_toml_mistakes_are_quoted_with_their_place(tmp_path):
    file = tmp_path / "bad.toml"
    file.write_text('dataset = "color_digits"\nbackbone = "lenet5"\nobjectiv = "infonce"\n')
    with pytest.raises(ccl.InvalidConfig, match=r"bad.toml: unknown key 'objectiv'.*'objective'"):
        ccl.Pipeline.from_toml(file)
    file.write_text("dataset = color_digits\n")
    with pytest.raises(ccl.InvalidConfig, match=r"bad.toml: .*line 1"):
        ccl.Pipeline.from_toml(file)
    file.write_text('dataset = "color_digits"\nobjective = "infonce"\n')
    with pytest.raises(ccl.InvalidConfig, match="'backbone' is missing"):
        ccl.Pipeline.from_toml(file)


def test_composing_leaves_torch_s_generator_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    compose()
    assert torch.equal(torch.get_rng_state(), before)


def test_built_weights_depend_on_the_seed_alone():
    pipeline = compose()
    states = []
    for _ in range(2):
        torch.manual_seed(7)
        states.append(pipeline.build().method.state_dict())
    torch.testing.assert_close(states[0], states[1])
