"""What every objective makes of its constructor's arguments, and what it declares."""

from __future__ import annotations

import inspect
from typing import Literal, get_args, get_origin

import pytest
from support.every_objective import classes, numbers

import ccl_plugins as ccl
from ccl_plugins.kernels import Cosine, Linear
from ccl_plugins.objectives import CACR, CMC, ClInfoNCE, ContrastiveObjective, InfoNCE, Mixture
from ccl_registry.params import schema

CLASSES = {name: cls for name, cls in classes().items() if name not in ("mixture", "guided")}
NEEDED = {"kernel": Linear(), "dim": 4, "classes": 3, "loss": "BarlowTwinsLoss"}
NUMBERS = [(name, key) for name, cls in CLASSES.items() for key, _, _ in numbers(cls)]


def parameters(cls):
    return inspect.signature(cls).parameters


def hints(cls):
    return {parameter.name: parameter.hint for parameter in schema(cls).parameters}


def build(name, **params):
    """With what it needs, unless it is given."""
    cls = CLASSES[name]
    return cls(**{k: v for k, v in NEEDED.items() if k in parameters(cls)} | params)


def words():
    """The parameters that take one of several words, and these."""
    for name, cls in CLASSES.items():
        for key, hint in hints(cls).items():
            for part in (hint, *get_args(hint)):
                if get_origin(part) is Literal:
                    yield name, key, get_args(part)


OTHER = {
    "iterations": 2,
    "views": 2,
    "positives": 3,
    "nearest": 5,
    "landmarks": 9,
    "dim": 7,
    "classes": 5,
    "kernel": Cosine(),
    "embedding_kernel": Cosine(),
    "on": "color",
    "exclude": (Cosine(), 0.25, "size"),
    "options": {"lambda_param": 0.25},
}
"""Values that are no default, by parameter."""


def another(cls, key):
    default = parameters(cls)[key].default
    if isinstance(default, bool):
        return not default
    if key == "hidden":
        return 7
    if key in OTHER and key not in dict.fromkeys(k for k, _, _ in numbers(cls)):
        hint = hints(cls)[key]
        if get_origin(hint) is not Literal:
            return OTHER[key]
    if key in (chosen := {k: options for n, k, options in WORDS if CLASSES[n] is cls}):
        return next(word for word in chosen[key] if word != default)
    return 0.375


WORDS = list(words())
SETTINGS = [
    (name, key)
    for name, cls in CLASSES.items()
    for key in parameters(cls)
    if key != "loss"  # the method of that name; lightly's loss is its name
]


@pytest.mark.parametrize(("name", "key"), SETTINGS)
def test_an_argument_is_held_as_it_was_given(name, key):
    given = another(CLASSES[name], key)
    assert given != parameters(CLASSES[name])[key].default
    assert getattr(build(name, **{key: given}), key) == given


@pytest.mark.parametrize(("name", "key", "options"), WORDS)
def test_each_word_that_a_type_lists_is_taken(name, key, options):
    for word in options:
        assert getattr(build(name, **{key: word}), key) == word


@pytest.mark.parametrize(
    ("key", "least"),
    [("positives", 1), ("nearest", 1), ("landmarks", 1), ("dim", 1), ("classes", 2)],
)
def test_a_whole_number_may_have_its_least_value(key, least):
    for name, cls in CLASSES.items():
        hint = hints(cls).get(key)
        if hint is not None and int in (hint, *get_args(hint)):
            assert getattr(build(name, **{key: least}), key) == least


FROM_ZERO = (
    "ridge",
    "beta",
    "align_weight",
    "uniform_weight",
    "attraction_weight",
    "repulsion_weight",
    "tau_plus",
)
OPTIONAL = ("threshold", "target_temperature", "base_temperature")


@pytest.mark.parametrize(("name", "key"), NUMBERS)
def test_a_number_is_learned_where_its_class_says_so(name, key):
    learned = {"learn": True, "start": 0.5}
    if inspect.getattr_static(CLASSES[name], key).learnable:
        assert len(list(build(name, **{key: learned}).parameters())) == 1
    else:
        with pytest.raises(ValueError, match=f"^{key} cannot be learned: give a number"):
            build(name, **{key: learned})


@pytest.mark.parametrize(("name", "key"), NUMBERS)
def test_a_number_may_be_0_or_none_where_its_class_says_so(name, key):
    if key in FROM_ZERO:
        assert getattr(build(name, **{key: 0}), key) == 0
    if key in OPTIONAL:
        assert getattr(build(name, **{key: None}), key) is None
    else:
        with pytest.raises(TypeError, match=f"^{key} must be a number"):
            build(name, **{key: None})


ANY_VALUES = ("categorical", "multi_label", "continuous")


def declared(objective):
    keys = ("within_view", "min_views", "embedding", "distributed", "hierarchies", "reads_queue")
    return tuple(getattr(objective, key) for key in keys)


def test_what_cacr_declares_follows_from_its_settings():
    assert declared(CACR(cost="rbf"))[3] == "replicated"
    assert [CACR(negatives=each).within_view for each in ("other_view", "later_view")] == [
        False
    ] * 2
    assert [CACR(positives=k).min_views for k in (None, 1, 4)] == [2, 2, 5]


@pytest.mark.parametrize("name", classes())
def test_the_example_builds_the_objective(name):
    ccl.create("objective", name, **getattr(classes()[name], "EXAMPLE", {}))


def test_the_released_cl_infonce_has_a_base_temperature_of_its_own_unless_one_is_given():
    assert ClInfoNCE(form="released").base_temperature == 0.07
    assert ClInfoNCE(form="released", base_temperature=0.2).base_temperature == 0.2
    assert ClInfoNCE(form="paper").base_temperature is None
    for given in ({"form": "released"}, {"base_temperature": 0.1}):
        with pytest.raises(ValueError, match="a learned temperature would fall"):
            ClInfoNCE({"learn": True, "start": 0.1}, **given)


def test_what_is_excluded_names_its_condition_or_reads_condition():
    named, plain = InfoNCE(exclude=(Linear(), 0.5, "size")), InfoNCE(exclude=[Linear(), 1])
    assert (named.exclude_threshold, plain.exclude_threshold) == (0.5, 1)
    assert {k: tuple(v) for k, v in named.conditions.items()} == {"size": ANY_VALUES}
    assert list(plain.conditions) == ["condition"]
    assert InfoNCE().exclude is None
    assert InfoNCE().exclude_threshold is None
    with pytest.raises(ValueError, match="exclude_threshold must be a finite number, not inf"):
        InfoNCE(exclude=(Linear(), float("inf")))
    with pytest.raises(TypeError, match="exclude must be"):
        InfoNCE(exclude=("linear", 0.5, "size"))


def test_a_mixture_takes_what_it_gathers_from_its_own_argument():
    assert Mixture([CMC()], gather_distributed=True).gather_distributed
    assert not Mixture([CMC(gather_distributed=True)]).gather_distributed
    assert ContrastiveObjective(gather_distributed=True).gather_distributed
