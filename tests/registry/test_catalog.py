"""Components are found by name, chosen and defined."""

from __future__ import annotations

import pytest
from support.toy_registry import Identity

from registry import AmbiguousName, ComponentSpec, InvalidSpec, Namespace, UnknownComponent
from registry.spec import fold, normalize


@pytest.mark.parametrize("name", ["soft_rbf", "Soft-RBF", " soft-rbf ", "SOFT_RBF"])
def test_case_and_dashes_do_not_count(toy, name):
    assert toy.find("kernel", name).id == "toy-host/soft_rbf"


@pytest.mark.parametrize(
    "name", ["toy-host/rbf", "Toy_Host/RBF", "kernel:toy-host/rbf", "Kernel:toy.host/rbf"]
)
def test_a_qualified_name_finds_the_plugin_it_names(toy, name):
    assert toy.find("kernel", name).id == "toy-host/rbf"


def test_a_built_in_wins_over_others_of_its_name(toy):
    assert toy.find("kernel", "rbf").plugin == "toy-host"
    assert toy.find("kernel", "toy-a/rbf").plugin == "toy-a"


def test_a_name_of_two_strangers_is_ambiguous_when_used_not_when_listed(toy):
    assert [s.id for s in toy.specs("kernel") if s.name == "ring"] == ["toy-a/ring", "toy-b/ring"]
    with pytest.raises(AmbiguousName, match="say which: 'toy-a/ring', 'toy-b/ring'"):
        toy.find("kernel", "ring")
    assert toy.find("kernel", "toy-b/ring").plugin == "toy-b"


def test_the_short_name_is_the_shortest_that_finds_it(toy):
    names = [toy.short_name(spec) for spec in toy.specs("kernel") if spec.name in ("rbf", "ring")]
    assert names == ["rbf", "toy-a/rbf", "toy-a/ring", "toy-b/ring"]


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("kernel", "rgb", "no kernel 'rgb'. Did you mean 'rbf'?"),
        ("kernel", "zzz", "no kernel 'zzz'. There are: many, picky, rbf, ring, soft_rbf."),
        ("kernel", "shuffle", "There is a sampler of that name."),
        ("kernel", "toy-c/rbf", "toy-c is not installed: pip install toy-c"),
        ("kernel", "local/mine", "not defined in this session; local('kernel', ...) defines it"),
        ("kernel", "sampler:toy-host/shuffle", "is of kind 'sampler', and a kernel is wanted"),
        ("kernels", "rbf", "no kind 'kernels'. Did you mean 'kernel'?"),
    ],
)
def test_an_unknown_name_says_what_would_be_right(toy, kind, name, message):
    with pytest.raises(UnknownComponent) as raised:
        toy.find(kind, name)
    assert message in str(raised.value)


def test_an_error_is_also_what_python_would_raise(toy):
    with pytest.raises(KeyError):
        toy.find("kernel", "rgb")


@pytest.mark.parametrize("name", ["RBF", "cl-infonce", "2d", "", "_x", "größe"])
def test_a_declared_name_must_be_plain(name):
    with pytest.raises(InvalidSpec, match="is not valid"):
        ComponentSpec("kernel", name, "m:A")


@pytest.mark.parametrize("target", ["m", "m:", ":A", "m:A b"])
def test_a_target_must_be_module_and_class(target):
    with pytest.raises(InvalidSpec, match="it must be 'module:Class'"):
        ComponentSpec("kernel", "a", target)


def test_names_fold_and_distributions_normalize():
    assert fold("CL-InfoNCE") == "cl_infonce"
    assert normalize("CCL__Foo.bar") == "ccl-foo-bar"


def test_what_is_defined_in_a_session_is_found_and_the_newer_replaces_the_older(toy):
    first, second = type("Mine", (Identity,), {}), type("Mine", (Identity,), {})
    assert toy.local("kernel", first).build().__class__ is first
    toy.define("kernel", second)
    assert toy.choose("kernel", "local/Mine").build().__class__ is second
    assert toy.find("kernel", "mine").id == "local/mine"


def test_an_object_of_a_session_is_given_back_as_it_is(toy):
    thing = object()
    choice = toy.local("sampler", thing)
    assert choice.build() is thing
    assert choice.record() == {"use": "sampler:local/object"}
    assert choice != toy.local("sampler", object())


def test_an_object_given_in_place_is_not_offered_to_others(toy):
    before = toy.specs()
    assert toy.read("kernel", object()).record() == {"use": "kernel:local/object"}
    assert toy.specs() == before


def test_the_summary_of_what_a_session_defines_is_the_first_line_of_its_docstring(toy):
    class Mine(Identity):
        """Mine alone.

        More.
        """

    assert toy.summary(toy.define("kernel", Mine)) == "Mine alone."
    assert toy.summary(toy.define("kernel", type("Silent", (), {"__doc__": None}))) == ""


def test_a_namespace_offers_the_components_of_its_kind_alone(toy):
    kernels = Namespace(toy, "kernel")
    assert kernels.rbf(scale=2.0).build().scale == 2.0
    assert kernels("rbf", scale=2.0) == kernels.rbf(scale=2.0)
    with pytest.raises(AttributeError, match="no kernel 'shuffle'"):
        _ = kernels.shuffle


def test_a_component_of_no_plugin_yet_has_no_version():
    spec = ComponentSpec("kernel", "ring", "module:Ring")
    assert (spec.plugin, spec.version) == ("", "")


def test_objects_of_a_session_are_one_component_if_object_and_kind_are_one(toy):
    thing = object()
    kernel = toy.local("kernel", thing).spec
    assert kernel == toy.local("kernel", thing).spec
    assert kernel != toy.local("sampler", thing).spec
    assert kernel != toy.local("kernel", object()).spec
