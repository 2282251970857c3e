"""A choice is compared, recorded, built, and checked against its kind's protocol."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest
from support.toy_registry import Identity

from registry import InvalidConfig, InvalidParameter, from_json, to_json


def test_a_record_holds_every_parameter_as_json_has_it(toy):
    choice = toy.choose(
        "kernel", "many", number=3, path=Path("a") / "b", pair=(1, 2), free={"a": (1, None)}
    )
    assert choice.record() == {
        "use": "kernel:toy-host/many",
        "number": 3,
        "flag": False,
        "name": "a",
        "rate": None,
        "mode": None,
        "path": "a/b",
        "sizes": [1, 2],
        "pair": [1.0, 2.0],
        "options": None,
        "either": 1,
        "free": {"a": [1, None]},
        "unhinted": None,
        "late": None,
    }


def test_a_record_read_again_is_an_equal_choice(toy):
    choice = toy.choose(
        "objective",
        "composed",
        kernel=toy.choose("kernel", "rbf", scale=0.1),
        several=["rbf", {"use": "many", "number": 2, "path": "x"}],
        named={"a": "toy-a/rbf"},
        free={"use": "kernel:toy-b/ring"},
    )
    text = to_json(choice.record())
    again = toy.read("objective", from_json(text, "text"))
    assert again == choice
    assert hash(again) == hash(choice)
    assert again.record() == choice.record()
    assert choice != toy.choose("objective", "composed")


def test_a_value_that_is_no_data_is_an_error_that_names_its_path(toy):
    inner = toy.choose("kernel", "many", number=1, free={"f": [1, len]})
    choice = toy.choose("objective", "composed", several=["rbf", inner])
    with pytest.raises(InvalidConfig) as raised:
        choice.record()
    assert str(raised.value) == (
        "several[1].free.f[1]: a builtin_function_or_method cannot be written to a config; in Python,"
        " give the built component in place of a choice"
    )


def test_a_choice_reads_as_it_would_be_written(toy):
    kernel = toy.choose("kernel", "toy-a/rbf", scale=0.1)
    assert repr(kernel) == "toy-a/rbf(scale=0.1)"
    assert repr(toy.choose("kernel", "rbf")) == "rbf(scale=1.0)"


def test_supplied_names_are_outside_schema_and_record(toy):
    choice = toy.choose("sampler", "shuffle")
    assert choice.record() == {"use": "sampler:toy-host/shuffle", "buffer": 8, "kernel": None}
    with pytest.raises(InvalidParameter, match="'size' is supplied when it is built, not chosen"):
        toy.choose("sampler", "shuffle", size=3)


def test_supplied_values_go_to_those_that_take_them(toy):
    built = toy.choose("sampler", "shuffle", kernel="rbf").build({"size": 9, "batch_size": 4})
    assert (built.size, built.seed, built.kernel.scale) == (9, 0, 1.0)


def test_creating_takes_what_a_pipeline_would_supply_among_the_parameters(toy):
    assert toy.create("sampler", "shuffle", size=7, buffer=2).size == 7
    assert toy.create("sampler", "picked", base={"use": "rbf", "scale": 2}, seed=3).base.scale == 2
    with pytest.raises(
        InvalidParameter, match="sampler toy-host/shuffle: size must be int, not 'x'"
    ):
        toy.create("sampler", "shuffle", size="x")


def test_a_supplied_value_that_is_missing_is_named(toy):
    with pytest.raises(InvalidParameter, match="sampler shuffle cannot be built without size"):
        toy.choose("sampler", "shuffle").build({"seed": 1})


def test_what_a_constructor_raises_says_what_was_being_built(toy):
    with pytest.raises(ValueError, match=r"scale must be above 0, not -1\.0") as raised:
        toy.create("kernel", "picky", scale=-1)
    assert raised.value.__notes__ == ["while building picky(scale=-1.0)"]


def test_equal_choices_are_built_once_in_a_cache(toy):
    cache = {}
    choice = toy.choose("objective", "composed", kernel={"use": "rbf", "scale": 2}, other="rbf")
    again = toy.choose("objective", "composed", kernel={"use": "rbf", "scale": 2.0})
    first, second = choice.build(cache=cache), again.build(cache=cache)
    assert first is choice.build(cache=cache)
    assert first is not second
    assert first.kernel is second.kernel
    assert first.kernel is not first.other
    assert choice.build() is not choice.build()


def test_objects_of_one_class_are_not_built_as_one(toy):
    class Mine(Identity):
        pass

    one, two = Mine(), Mine()
    built = toy.create("objective", "composed", kernel=one, other=two, several=[one])
    assert (built.kernel, built.other, built.several) == (one, two, (one,))


class Silent:
    """A kernel that cannot be called."""


PROTOCOL = "support.toy_registry.Kernel asks for"


@pytest.mark.parametrize("given", [Silent, Silent()])
@pytest.mark.parametrize(
    ("params", "place"),
    [
        (lambda given: {"kernel": given}, "objective.kernel"),
        (lambda given: {"several": ["rbf", given]}, r"objective.several\[1\]"),
        (lambda given: {"named": {"a": given}}, "objective.named.a"),
        (lambda given: {"scale": given}, "objective.scale"),
    ],
)
def test_a_nested_component_is_checked_against_its_protocol_when_built(toy, given, params, place):
    choice = toy.choose("objective", "composed", **params(given))
    with pytest.raises(
        InvalidParameter, match=f"^{place}: Silent has no __call__, which {PROTOCOL}"
    ):
        choice.build()


def test_a_component_of_the_session_is_checked_too(toy):
    for given in (Silent, Silent()):
        with pytest.raises(
            InvalidParameter, match=f"^kernel: Silent has no __call__, which {PROTOCOL}"
        ):
            toy.local("kernel", given).build()


def test_a_supplied_component_is_checked_too(toy):
    with pytest.raises(InvalidParameter, match=r"^sampler\.base: Silent has no __call__"):
        toy.create("sampler", "picked", base=Silent(), seed=1)


def test_a_component_that_was_refused_is_not_kept(toy):
    cache, choice = {}, toy.local("kernel", Silent)
    for _ in range(2):
        with pytest.raises(InvalidParameter, match="Silent has no __call__"):
            choice.build(cache=cache)


def test_members_may_be_attributes_of_the_instance_and_properties_are_not_read(toy):
    class Late(Identity):
        """Its members appear in the constructor, or read a file."""

        def __init__(self) -> None:
            self.loss = 1

        @property
        def size(self):
            raise AssertionError("read")

    kind = replace(toy.kinds["kernel"], protocol=f"{__name__}:Measured")
    assert kind.members() == ["__call__", "loss", "size"]
    assert kind.missing_members(Late()) == []
    assert kind.missing_members(Silent()) == ["__call__", "loss", "size"]


class Measured(Protocol):
    """Declares members in three ways."""

    loss: float

    @property
    def size(self) -> int:
        """A property."""
        ...

    def __call__(self) -> None:
        """A method."""
