"""Several variables of one condition: one pass, a table and a name for each."""

from __future__ import annotations

import pytest
import torch
from support.training_fakes import FakeDataset, FakeTransform
from torchvision.transforms.v2.functional import to_image

import ccl_plugins as ccl
from ccl_plugins.metadata import fitted
from ccl_plugins.metadata.fitted import variables
from ccl_plugins.protocols import Embedded, Table
from ccl_plugins.testing import check
from ccl_plugins.training.tables import Tables

SPLIT = FakeDataset(6)("train")


class Scene:
    """What one pass over the images says of each."""

    refresh = "epoch"
    value_type = {"scene": "categorical", "people": "continuous"}  # noqa: RUF012  # as an author writes it
    missing = {"people": "ignore"}  # noqa: RUF012

    def __init__(self) -> None:
        self.calls: list = []
        self.found = {
            "scene": lambda n: torch.arange(n) % 2,
            "people": lambda n: torch.arange(n) / n,
        }

    def fit(self, split, embed, previous):
        self.calls.append(previous)
        found = {name: make(len(split)) for name, make in self.found.items()}
        if "people" in found:
            found["people"] = Table(found["people"], {"count": torch.tensor(len(self.calls))})
        return found


def compose(condition, **rest):
    on = rest.pop("on", "clip/scene")
    objective = rest.pop("objective", {"use": "supcon", "on": on})
    parts = {"dataset": "color_digits", "backbone": "lenet5", "objective": objective}
    return ccl.Pipeline(**{**parts, **rest}, conditions={"clip": condition})


def test_one_pass_gives_several_variables_by_name():
    condition = Scene()
    tables = Tables({"clip": condition, "label": Plain()}, 6)
    assert tables.refresh(0, SPLIT, torch.zeros) == ["clip/scene", "clip/people", "label"]
    assert len(condition.calls) == 1
    assert tables["clip/scene"].values.dtype == torch.long
    assert tables["clip/people"].values.dtype == torch.float32
    assert set(tables.look_up(torch.arange(2))) == {"clip/scene", "clip/people", "label"}
    assert set(tables.extras_on(torch.device("cpu"))) == {"clip/people/count"}


class Plain:
    refresh, value_type = "never", "categorical"

    def fit(self, split, embed, previous):
        return torch.arange(len(split))


def test_a_refresh_gives_all_previous_tables_and_fits_once():
    condition = Scene()
    tables = Tables({"clip": condition}, 6)
    for epoch in (0, 0, 1):
        tables.refresh(epoch, SPLIT, torch.zeros)
    first, second = condition.calls
    assert first is None
    assert {name: type(each) for name, each in second.items()} == {"scene": Table, "people": Table}


@pytest.mark.filterwarnings("ignore:condition .* is missing:UserWarning")
def test_each_variable_has_its_own_policy_and_survives_its_state():
    condition = Scene()
    condition.found["people"] = lambda n: (torch.arange(n) / n).index_fill(
        0, torch.tensor([1]), torch.nan
    )
    tables = Tables({"clip": condition}, 6)
    tables.refresh(0, SPLIT, torch.zeros)
    assert tables.ignored == ("clip/people",)
    again = Tables({"clip": condition}, 6)
    again.load_state_dict(tables.state_dict())
    assert again.ignored == ("clip/people",)
    torch.testing.assert_close(again["clip/scene"].values, tables["clip/scene"].values)
    condition.found["scene"] = lambda n: torch.arange(n) - 1
    with pytest.raises(ValueError, match="'clip/scene' has missing"):
        tables.refresh(1, SPLIT, torch.zeros)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"scene": torch.zeros}, "declares the variables 'scene', 'people' .* returned 'scene'"),
        ({"scene": torch.zeros, "people": lambda n: torch.zeros(2)}, "'clip/people' has shape"),
    ],
)
def test_what_fit_returns_is_compared_with_what_is_declared(found, message):
    condition = Scene()
    condition.found = found
    with pytest.raises(ValueError, match=message):
        Tables({"clip": condition}, 6).refresh(0, SPLIT, torch.zeros)


def test_a_tensor_in_place_of_several_variables_is_refused():
    condition = Scene()
    condition.fit = lambda split, embed, previous: torch.zeros(6)
    with pytest.raises(TypeError, match="must return a mapping of these names, not Tensor"):
        Tables({"clip": condition}, 6).refresh(0, SPLIT, torch.zeros)


def test_a_pipeline_reads_a_variable_by_name_and_names_the_right_ones():
    assert set(compose(Scene()).built_conditions) == {"clip/scene", "clip/people"}
    for on in ("scene", "clip/scnee", "condition"):
        with pytest.raises(ValueError, match=r"has 'clip/scene', 'clip/people': .*on='clip/scene'"):
            compose(Scene(), on=on)
    with pytest.raises(ValueError, match="'clip/people', Scene, is continuous"):
        compose(Scene(), on="clip/people")
    compose(Scene(), sampler={"use": "same_condition", "on": "clip/scene"})
    with pytest.raises(ValueError, match=r"sampler same_condition .* on='clip/scene'"):
        compose(Scene(), sampler={"use": "same_condition", "on": "scene"})


def test_only_a_condition_of_which_nothing_is_read_is_a_warning():
    with pytest.warns(UserWarning, match="reads the condition clip$"):
        compose(Scene(), objective="infonce")


@pytest.mark.parametrize("value_type", [{}, {"": "categorical"}, {"a": "words"}, "words"])
def test_illegal_value_types_are_refused_when_composed(value_type):
    condition = Scene()
    condition.value_type = value_type
    with pytest.raises(ValueError, match="value_type of"):
        compose(condition)


def test_two_variables_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two conditions are called 'clip/scene'"):
        variables({"clip": Scene(), "clip/scene": Plain()})


def test_outside_of_training_one_variable_is_fitted():
    split = ccl.create("dataset", "color_digits")("train")
    with pytest.raises(ValueError, match="gives the variables scene, people"):
        fitted.fit(Scene(), split)
    found = fitted.fit(variables({"clip": Scene()})["clip/people"], split)
    assert found.values.shape == (len(split),)
    with pytest.raises(ValueError, match="Scene gives the variables scene, people"):
        ccl.create("condition", "clusters", k=3, of=Scene())


def test_two_conditions_with_equal_records_keep_their_own_variables():
    shared = Scene()
    tables = Tables({"a": shared, "b": shared}, 6)
    tables.refresh(0, SPLIT, torch.zeros)
    assert list(tables) == ["a/scene", "a/people", "b/scene", "b/people"]


def test_a_condition_of_the_batch_gives_several_variables_too():
    class OfTheBatch:
        refresh = "batch"
        value_type = {"a": "continuous", "b": "categorical"}  # noqa: RUF012

        def __call__(self, embedded):
            return {"b": torch.zeros(3, dtype=torch.long), "a": embedded.features[0, :, 0]}

    embedded = Embedded(torch.ones(2, 3, 4), torch.ones(2, 3, 4))
    found = Tables({"z": OfTheBatch()}, 6).observe(embedded)
    expected = {"z/a": torch.ones(3), "z/b": torch.zeros(3, dtype=torch.long)}
    torch.testing.assert_close(found, expected)


class Sized:
    """The class, and how bright an image is."""

    refresh = "never"
    value_type = {"label": "categorical", "bright": "continuous"}  # noqa: RUF012

    def fit(self, split, embed, previous):
        bright = torch.stack([to_image(image).float().mean() for image, _ in split])
        return {"label": torch.as_tensor(split.metadata["label"]), "bright": bright}


def test_the_kit_checks_every_variable():
    check(ccl.local("condition", Sized))

    class Shifted(Sized):
        """Belongs to other rows."""

        def fit(self, split, embed, previous):
            return {k: z.roll(1) for k, z in super().fit(split, embed, previous).items()}

    with pytest.raises(AssertionError, match=r"rows_belong_to_samples: .*\n  label: "):
        check(ccl.local("condition", Shifted))


def test_a_run_trains_on_several_variables_and_is_resumed(tmp_path):
    mixture = {
        "use": "mixture",
        "objectives": [
            {"use": "supcon", "on": "clip/label"},
            {"use": "fair_cclk", "kernel": {"use": "rbf", "scale": "median"}, "on": "clip/bright"},
        ],
    }
    pipeline = compose(
        Sized(),
        objective=mixture,
        dataset=FakeDataset(24),
        backbone={"use": "mlp", "in_features": 48, "hidden": [8]},
        transform=FakeTransform(),
        method={"use": "moco_v2", "hidden": 8, "dim": 4, "queue_size": 16},
        evaluate=[],
    )
    settings = {"batch_size": 8, "progress": False, "workers": 0}
    pipeline.fit(epochs=1, out=tmp_path / "run", **settings)
    pipeline.fit(epochs=2, out=tmp_path / "run", resume=True, **settings)
