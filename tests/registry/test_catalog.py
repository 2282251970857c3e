"""Components are found by name, chosen and defined."""

from __future__ import annotations

import inspect

import pytest
from support.toy_registry import Identity, Kernel, new_registry, write_metadata

from ccl_registry import (
    AmbiguousName,
    ComponentSpec,
    InvalidConfig,
    InvalidParameter,
    InvalidSpec,
    Namespace,
    UnknownComponent,
)


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


KERNELS = "many, picky, rbf, ring, soft_rbf"


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("kernel", "rgb", "no kernel 'rgb'. Did you mean 'rbf'?"),
        ("kernel", "zzz", f"no kernel 'zzz'. There are: {KERNELS}."),
        (
            "kernel",
            "shuffle",
            f"no kernel 'shuffle'. There are: {KERNELS}. There is a sampler of that name.",
        ),
        (
            "sampler",
            "rbf",
            "no sampler 'rbf'. There are: picked, shuffle. There is a kernel of that name.",
        ),
        (
            "sampler",
            "bare",
            "no sampler 'bare'. There are: picked, shuffle. There is an objective of that name.",
        ),
        (
            "kernel",
            "toy-c/rbf",
            "no kernel 'toy-c/rbf'. toy-c is not installed: pip install toy-c",
        ),
        ("kernel", "$(a)/rbf", "no kernel '$(a)/rbf'. '$(a)' is not the name of a plug-in."),
        ("kernel", "toy-b/rbf", "no kernel 'toy-b/rbf'. Did you mean 'rbf'?"),
        (
            "kernel",
            "local/mine",
            "no kernel 'local/mine'. It is not defined in this session; local('kernel', ...)"
            " defines it.",
        ),
        (
            "kernel",
            "sampler:toy-host/shuffle",
            "'sampler:toy-host/shuffle' is of kind 'sampler', but a kernel is needed",
        ),
        (
            "objective",
            "a:b:rbf",
            "'a:b:rbf' is of kind 'a:b', but an objective is needed",
        ),
        ("kernel", 3, "a kernel is found by its name, not by 3"),
        ("kernels", "rbf", "no kind 'kernels'. Did you mean 'kernel'?"),
        ("zzz", "rbf", "no kind 'zzz'. There are: kernel, objective, sampler."),
    ],
)
def test_an_unknown_name_says_what_would_be_right(toy, kind, name, message):
    with pytest.raises(UnknownComponent) as raised:
        toy.find(kind, name)
    assert str(raised.value) == message


def test_a_kind_is_found_in_any_case(toy):
    assert toy.find(" Kernel", "rbf").id == "toy-host/rbf"
    assert toy.kind("SAMPLER").name == "sampler"


def test_components_are_listed_by_kind_and_name_with_the_hosts_first(toy):
    toy.define("kernel", type("Ring", (Identity,), {}))
    toy.define("kernel", type("RBF", (Identity,), {}))
    uses = [spec.use for spec in toy.specs()]
    assert uses == [
        "kernel:toy-host/many",
        "kernel:toy-host/picky",
        "kernel:toy-host/rbf",
        "kernel:local/rbf",
        "kernel:toy-a/rbf",
        "kernel:local/ring",
        "kernel:toy-a/ring",
        "kernel:toy-b/ring",
        "kernel:toy-host/soft_rbf",
        "objective:toy-host/bare",
        "objective:toy-host/composed",
        "objective:toy-host/variadic",
        "sampler:toy-host/picked",
        "sampler:toy-host/shuffle",
    ]
    assert [spec.use for spec in toy.specs("Kernel")] == uses[:9]
    assert [spec.use for spec in toy.specs("sampler")] == uses[12:]
    assert [spec.use for spec in toy.named("ring")] == uses[5:8]
    assert toy.named("ring", "sampler") == toy.named("nosuch") == []


def test_a_name_is_found_among_its_kind_alone(toy):
    toy.define("sampler", type("RBF", (), {}))
    assert toy.find("sampler", "rbf").use == "sampler:local/rbf"
    assert toy.find("kernel", "rbf").use == "kernel:toy-host/rbf"
    assert toy.short_name(toy.find("sampler", "rbf")) == "rbf"
    assert [spec.use for spec in toy.named("rbf", "kernel")] == [
        "kernel:toy-host/rbf",
        "kernel:toy-a/rbf",
    ]


FAILED = "[toy.kernell]\na = m:A\n"


def test_plugins_that_could_not_be_read_and_those_that_are_disabled_are_named(
    tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(tmp_path)
    write_metadata(tmp_path, "toy_host", "1", "[toy.kernel]\nrbf = m:A\n")
    write_metadata(tmp_path, "toy_x", "1", FAILED)
    reason = (
        "unknown entry-point group 'toy.kernell'. Did you mean 'toy.kernel'? Valid: toy.kernel,"
        " toy.objective, toy.sampler, toy.hooks"
    )

    def message(disable):
        with pytest.raises(UnknownComponent) as raised:
            new_registry(disable).find("kernel", "rgb")
        return str(raised.value)

    start = "no kernel 'rgb'. Did you mean 'rbf'?"
    assert message([]) == f"{start} 1 plugin failed: toy-x ({reason})."
    write_metadata(tmp_path, "toy_y", "1", FAILED)
    assert message([]) == f"{start} 2 plugins failed: toy-x ({reason}); toy-y ({reason})."
    assert message(["toy-x", "toy_y"]) == f"{start} Disabled: toy-x, toy-y."
    assert message(["toy-host", "*"]) == (
        "no kernel 'rgb'. There are: none. Disabled: toy-host, toy-x, toy-y."
    )


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
        """Mine\u2028 alone.

        More.
        """

    assert toy.summary(toy.define("kernel", Mine)) == r"Mine\u2028 alone."
    assert toy.summary(toy.define("kernel", type("Silent", (), {"__doc__": None}))) == ""
    assert toy.summary(toy.define("kernel", type("Odd", (), {"__doc__": 3}))) == ""


def test_a_namespace_offers_the_components_of_its_kind_alone(toy):
    kernels = Namespace(toy, "kernel")
    assert kernels.rbf(scale=2.0).build().scale == 2.0
    assert kernels("rbf", scale=2.0) == kernels.rbf(scale=2.0)
    with pytest.raises(AttributeError, match="no kernel 'shuffle'"):
        _ = kernels.shuffle


def test_a_namespace_prints_what_it_offers(toy):
    kernels = Namespace(toy, "kernel")
    assert repr(kernels) == "<kernel: many, picky, rbf, ring, soft_rbf>"
    assert repr(kernels.rbf) == "rbf(scale: float | Literal['median'] = 1.0)"
    assert repr(Namespace(toy, "sampler").picked) == "picked()"
    assert repr(kernels.many).startswith("many(number: int, flag: bool = False, name: str = 'a', ")
    with pytest.raises(AttributeError, match=r"^_rbf$"):
        _ = kernels._rbf
    with pytest.raises(AttributeError, match=r"^no kernel 'upper'"):
        _ = kernels.upper


def test_an_offer_stands_for_its_choice(toy):
    offered = Namespace(toy, "kernel").rbf
    assert toy.read("kernel", offered) == toy.choose("kernel", "rbf")
    assert toy.read_unhinted(offered) == toy.choose("kernel", "rbf")
    assert toy.choose("objective", "composed", free=offered).params["free"] == offered()


def test_a_value_without_a_hint_is_a_choice_only_where_it_says_its_kind(toy):
    assert toy.read_unhinted({"use": "kernel:rbf", "scale": 2}).params == {"scale": 2.0}
    assert toy.read_unhinted({"use": "Kernel:toy-a/rbf"}).spec.id == "toy-a/rbf"
    for value in ({"use": "rbf"}, {"use": 3}, {"a": 1}, "kernel:rbf", 3, None):
        assert toy.read_unhinted(value) is value
    for use, message in (("kernel:rgb", "here: no kernel 'kernel:rgb'"), ("a:b:c", "no kind 'a'")):
        with pytest.raises(UnknownComponent, match=f"^{message}"):
            toy.read_unhinted({"use": use}, "here")
    with pytest.raises(UnknownComponent, match=r"^no kernel 'kernel:rgb'"):
        toy.read_unhinted({"use": "kernel:rgb"})


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ("rgb", UnknownComponent, "no kernel 'rgb'. Did you mean 'rbf'?"),
        (
            {"use": "rbf", "scal": 1},
            InvalidParameter,
            "kernel toy-host/rbf has no parameter 'scal'. Did you mean 'scale'?",
        ),
        (
            {"use": "many", "number": 1, "options": {"a": "b"}},
            InvalidParameter,
            "kernel toy-host/many: options must be Mapping[str, float] | None, not {'a': 'b'}",
        ),
        ({"use": "many"}, InvalidParameter, "kernel toy-host/many needs 'number'"),
        ({"rbf": 1}, InvalidConfig, 'a kernel needs use = "its name"; it has rbf'),
    ],
)
def test_a_mistake_has_its_place_if_there_is_one(toy, data, error, message):
    for where, place in (("run.toml: a", "run.toml: a: "), ("", "")):
        with pytest.raises(error) as raised:
            toy.read("kernel", data, where)
        assert str(raised.value) == place + message
    with pytest.raises(error) as raised:
        toy.read("kernel", data)
    assert str(raised.value) == message


def test_a_choice_of_another_kind_is_refused_with_its_place(toy):
    shuffle = toy.choose("sampler", "shuffle")
    for where, place in (("a", "a: "), ("", "")):
        with pytest.raises(InvalidParameter) as raised:
            toy.read("objective", shuffle, where)
        assert str(raised.value) == f"{place}must be an objective, not the sampler {shuffle!r}"


@pytest.mark.parametrize(("where", "place"), [("a", "a: "), ("", "")])
def test_a_component_that_cannot_be_read_has_the_place_too(toy, where, place):
    message = f"{place}objective toy-host/variadic 1.0: the constructor of Variadic takes"
    with pytest.raises(InvalidSpec, match=f"^{message}"):
        toy.read("objective", "variadic", where)


def test_a_component_without_a_signature_says_why(toy):
    with pytest.raises(InvalidSpec) as raised:
        toy.local("kernel", int)
    assert str(raised.value).startswith(
        "kernel local/int: it has no signature to read: no signature"
    )
    assert isinstance(raised.value.__cause__, ValueError)


def test_the_schema_of_a_component_says_what_a_pipeline_supplies(toy):
    found = toy.schema(toy.find("sampler", "shuffle"))
    assert [each.name for each in found.parameters] == ["buffer", "kernel"]
    assert [each.name for each in found.supplied] == ["size", "seed"]
    assert toy.schema(toy.define("kernel", Identity())).parameters == ()


def test_the_kind_of_a_hint_is_that_of_its_protocol(toy):
    heir = type("Heir", (Kernel,), {})
    assert [toy.kind_of(hint) for hint in (Kernel, heir, int, None, "Kernel")] == [
        "kernel",
        "kernel",
        None,
        None,
        None,
    ]


@pytest.fixture
def renamed(tmp_path, monkeypatch):
    """A host and two plug-ins that gave components other names."""
    monkeypatch.syspath_prepend(tmp_path)
    kernel = f"{Kernel.__module__}:RBF"
    for name, entries in (
        (
            "toy_host",
            f"[toy.kernel]\nball = {kernel}\n[toy.kernel.old]\nrbf = {kernel}\ndisk = {kernel}",
        ),
        (
            "toy_a",
            f"[toy.kernel]\nring = {kernel}\n[toy.kernel.old]\nrings = {kernel}\ndisk = {kernel}",
        ),
        ("toy_b", f"[toy.kernel]\nrings = {kernel}\nrbf = {kernel}"),
    ):
        write_metadata(tmp_path, name, "1", entries + "\n")
    return new_registry()


@pytest.mark.parametrize(
    ("name", "plugin", "found"),
    [
        ("rbf", "toy-host", "ball"),  # the host's once, and a stranger's now: the host's
        ("disk", "toy-host", "ball"),
        ("toy-a/disk", "toy-a", "ring"),
        ("kernel:toy-a/Rings", "toy-a", "ring"),
    ],
)
def test_an_old_name_finds_its_component_with_a_warning(renamed, name, plugin, found):
    with pytest.warns(FutureWarning) as warned:
        spec = renamed.find("kernel", name)
    assert (spec.plugin, spec.name) == (plugin, found)
    old = name.rpartition("/")[2].lower()
    assert [str(w.message) for w in warned] == [f"the kernel {old!r} is called {found!r} now"]
    with pytest.warns(FutureWarning, match=f"^here: the kernel {old!r} is called"):
        record = renamed.read("kernel", {"use": name}, "here").record()
    assert record == {"use": f"kernel:{plugin}/{found}", "scale": 1.0}


def test_a_name_that_was_ones_and_is_anothers_is_ambiguous(renamed):
    with pytest.raises(AmbiguousName, match="say which: 'toy-a/rings', 'toy-b/rings'"):
        renamed.find("kernel", "rings")
    assert renamed.find("kernel", "toy-b/rings").name == "rings"  # without a warning
    assert renamed.short_name(renamed.find("kernel", "toy-b/rings")) == "toy-b/rings"


def test_old_names_are_not_listed(renamed):
    assert [spec.id for spec in renamed.specs()] == [
        "toy-host/ball", "toy-b/rbf", "toy-a/ring", "toy-b/rings"]  # fmt: skip
    assert dir(Namespace(renamed, "kernel")) == ["ball", "rbf", "ring", "rings"]
    assert renamed.find("kernel", "ball").old_names == ("disk", "rbf")


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ("b = m:C", "'b' in toy.kernel.old must point to one component; 0 are m:C"),
        ("a = m:A", "'a' in toy.kernel.old is also the name of another component"),
        ("b = m:A\nb = m:A", "'b' in toy.kernel.old is also the name of another component"),
        ("b = m:D", "'b' in toy.kernel.old must point to one component; 2 are m:D"),
        ("B = m:A", "kernel name 'B' is not valid: it must be lower-case letters, digits and"),
    ],
)
def test_an_old_name_that_leads_nowhere_costs_itself(tmp_path, monkeypatch, entries, reason):
    monkeypatch.syspath_prepend(tmp_path)
    now = "a = m:A\nd = m:D\ne = m:D"
    write_metadata(tmp_path, "toy_x", "2", f"[toy.kernel]\n{now}\n[toy.kernel.old]\n{entries}\n")
    found = new_registry()
    assert [spec.name for spec in found.specs()] == ["a", "d", "e"]
    (failure,) = found.failures
    assert failure.reason.startswith(reason)


def test_an_old_name_in_an_unknown_group_is_named(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    write_metadata(tmp_path, "toy_x", "2", "[toy.kernal.old]\na = m:A\n[other.old]\na = m:A\n")
    (failure,) = new_registry().failures
    assert failure.reason.startswith("unknown entry-point group 'toy.kernal'. Did you mean")


def test_an_offer_shows_the_signature_and_the_documentation_of_its_component(toy):
    kernels = Namespace(toy, "kernel")
    assert str(inspect.signature(kernels.rbf)) == "(*, scale: \"float | Literal['median']\" = 1.0)"
    assert inspect.getdoc(kernels.rbf) == "A kernel of one parameter."
    assert kernels.rbf.__name__ == "rbf"
    assert list(inspect.signature(Namespace(toy, "sampler").shuffle).parameters) == [
        "buffer",
        "kernel",
    ]
    assert str(inspect.signature(Namespace(toy, "sampler").picked)) == "()"
    toy.define("kernel", ComponentSpec)
    assert inspect.signature(kernels.componentspec).parameters["plugin"].default == ""
