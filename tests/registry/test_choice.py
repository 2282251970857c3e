"""A choice is compared, recorded, built, and checked against its kind's protocol."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Protocol

import pytest
from support.toy_registry import Identity, Kernel

from ccl_registry import InvalidConfig, InvalidParameter, PluginFailed, from_json, to_json


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


def test_a_long_value_is_shown_without_its_middle(toy):
    choice = toy.local("kernel", type("Mine", (Texts,), {}), name="x" * 3000, other="y")
    shown = repr(choice)
    assert shown.startswith("mine(name='xxx")
    assert shown.endswith("xxx', other='y')")
    assert len(shown) == len("mine(name=, other='y')") + 2000


class Texts(Identity):
    """Takes two texts."""

    def __init__(self, name: str = "a", other: str = "b") -> None:
        """Nothing to keep."""


def test_choices_with_equal_records_are_equal_and_no_others(toy):
    def free(value):
        return toy.choose("objective", "composed", free=value)

    same = [
        (Path("a") / "b", "a/b"),
        ([1, (2, None)], (1, [2, None])),
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}),
        (toy.choose("kernel", "rbf"), {"use": "kernel:rbf", "scale": 1}),
        (None, None),
        (10**20, 10**20 + 0),
    ]
    for one, other in same:
        assert free(one) == free(other)
        assert hash(free(one)) == hash(free(other))
    different = [1, True, 1.0, "1", None, "None", 0, "", [1], [[1]], {"1": 1}, {"1": [1]}, {}]
    different += [Fraction(1), Fraction(1), toy.choose("kernel", "rbf"), "rbf", ["a", "b"], "a/b"]
    assert len({free(value) for value in different}) == len(different)
    assert free(1) != 1
    assert toy.choose("kernel", "rbf") != toy.choose("kernel", "toy-a/rbf")


def test_a_mapping_with_other_keys_than_words_cannot_be_written(toy):
    choice = toy.choose("objective", "composed", free={"a": {1: 2}})
    with pytest.raises(InvalidConfig, match=r"^free\.a: a dict cannot be written to a config; in"):
        choice.record()


def test_supplied_names_are_outside_schema_and_record(toy):
    choice = toy.choose("sampler", "shuffle")
    assert choice.record() == {"use": "sampler:toy-host/shuffle", "buffer": 8, "kernel": None}
    with pytest.raises(InvalidParameter, match="'size' is supplied when it is built, not chosen"):
        toy.choose("sampler", "shuffle", size=3)


def test_supplied_values_go_to_those_that_take_them(toy):
    built = toy.choose("sampler", "shuffle", kernel="rbf").build({"size": 9, "batch_size": 4})
    assert (built.size, built.seed, built.kernel.scale) == (9, 0, 1.0)


def test_components_in_lists_and_mappings_get_what_a_pipeline_supplies_once_for_all(toy):
    class Picks:
        """Takes samplers."""

        def __init__(self, free: object = None) -> None:
            self.free = free

    one = {"use": "sampler:shuffle"}
    shuffle = toy.read_unhinted(one)
    choice = toy.local("objective", Picks, free={"a": [shuffle, (shuffle,)], "b": shuffle})
    cache: dict[object, object] = {}
    built = choice.build({"size": 9, "seed": 4}, cache).free
    assert [type(part) for part in (built, built["a"], built["a"][1])] == [dict, list, tuple]
    first, (second,), third = *built["a"], built["b"]
    assert first is second is third
    assert (first.size, first.seed, first.buffer) == (9, 4, 8)
    assert choice.build({"size": 9, "seed": 4}, cache).free["b"] is first
    assert choice.build({"size": 8, "seed": 4}, cache).free["b"].size == 8
    with pytest.raises(InvalidParameter) as raised:
        choice.build()
    assert str(raised.value) == (
        "sampler shuffle cannot be built without size, which a pipeline supplies"
    )


def test_all_supplied_values_that_are_missing_are_named(toy):
    with pytest.raises(InvalidParameter) as raised:
        toy.choose("sampler", "picked").build()
    assert str(raised.value) == (
        "sampler picked cannot be built without base, seed, which a pipeline supplies"
    )


def test_a_choice_says_what_it_takes_from_a_pipeline(toy):
    choice = toy.choose("sampler", "shuffle")
    assert (choice.kind, choice.supplied) == ("sampler", ("size", "seed"))


def test_a_constructor_that_ends_the_program_is_an_error_of_the_component(toy):
    class Leaves(Identity):
        """Ends the program."""

        def __init__(self, by: object) -> None:
            raise by

    choice = toy.local("kernel", Leaves, by=SystemExit(3))
    for where, place in (("", "kernel"), ("run.toml: kernel", "run.toml: kernel")):
        with pytest.raises(PluginFailed) as raised:
            choice.build(where=where)
        assert str(raised.value) == f"{place}: kernel local/leaves (SystemExit: 3)"
        assert isinstance(raised.value.__cause__, SystemExit)
    with pytest.raises(KeyboardInterrupt):
        toy.local("kernel", Leaves, by=KeyboardInterrupt()).build()


def test_members_that_cannot_be_looked_up_are_an_error_of_the_component(toy):
    class Odd:
        """Raises where its members are looked up."""

        def __getattr__(self, name):
            raise SystemExit(name)

    with pytest.raises(PluginFailed) as raised:
        toy.local("kernel", Odd).build()
    assert str(raised.value) == (
        "kernel: the members of kernel local/odd cannot be read (SystemExit: __call__)"
    )


def test_creating_takes_what_a_pipeline_would_supply_among_the_parameters(toy):
    assert toy.create("sampler", "shuffle", size=7, buffer=2).size == 7
    assert toy.create("sampler", "picked", base={"use": "rbf", "scale": 2}, seed=3).base.scale == 2
    with pytest.raises(
        InvalidParameter, match="sampler toy-host/shuffle: size must be int, not 'x'"
    ):
        toy.create("sampler", "shuffle", size="x")


def test_a_supplied_component_gets_the_other_supplied_values(toy):
    class Holding(Identity):
        """Holds a sampler."""

        def __init__(self, free: object = None) -> None:
            self.free = free

    class Both:
        """Takes a kernel and a number from a pipeline."""

        def __init__(self, *, base: Kernel, size: int) -> None:
            self.base = base

    toy.define("kernel", Holding)
    toy.define("sampler", Both)
    base = {"use": "holding", "free": toy.choose("sampler", "shuffle")}
    assert toy.create("sampler", "both", base=base, size=7).base.free.size == 7


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


def wrong(kind, built):
    return [f"{name} of a {kind} is wrong" for name in ("size", "rows") if hasattr(built, name)]


def test_optional_members_are_checked_as_the_kind_says(toy):
    class Wrong(Identity):
        size, rows = 1, 2

    toy.kinds["kernel"] = replace(toy.kinds["kernel"], check=f"{__name__}:wrong")
    assert toy.local("kernel", Identity).build()
    with pytest.raises(
        InvalidParameter, match=r"kernel: Wrong.size of a kernel is wrong; Wrong.rows"
    ):
        toy.local("kernel", Wrong).build()
