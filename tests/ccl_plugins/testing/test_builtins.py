"""The built-in components pass the conformance kit."""

from __future__ import annotations

from itertools import groupby

import pytest
from support.builtin_examples import EXAMPLES
from support.every_objective import VARIANTS, variant_of
from support.kernel_cases import KERNEL_VARIANTS

from ccl_plugins.testing import checks
from ccl_plugins.testing.suite import run

OF_OBJECTIVES = {
    f"objective/{name}": {variant: variant_of(name, variant) for variant in variants}
    for name, variants in VARIANTS.items()
}
GRADIENT, ROWS = "gradient_is_that_of_the_value", "rows_belong_to_samples"
FIXED = "weights carry no gradient"
SUM = "it is a sum, as released"
MEDIAN = "its scale is that of the batch"
EXPECTED = {
    ("condition/shuffled", ROWS): "that they do not is what it is for",
    **{
        (f"kernel/{name}", law): MEDIAN
        for name in ("rbf, median", "laplacian, median", "laplacian, L1 median")
        for law in ("a_pair_depends_on_no_other", "is_symmetric")
    },
    ("hucl, fixed weights", GRADIENT): FIXED,
    ("cacr, other view", GRADIENT): FIXED,
    ("cacr_moco_v3, euclidean", GRADIENT): FIXED,
    ("cacr_moco_v3, euclidean", "two_processes_equal_one"): SUM,
    ("cacr_moco_v3, euclidean", "is_a_mean_over_anchors"): SUM,
}
"""Laws that are not kept."""

BATCHED = {"batched": {"batched": True}}
VARIANTS_OF = {
    **OF_OBJECTIVES,
    "evaluator/retrieval": {"across groups": {"across": "group"}},
    "method/dual": {"with a queue": {"queue_size": 32}},
    "sampler/conditional_pair": {
        "by a kernel": {"kernel": "rbf"},
        "among the nearest": {"nearest": 5},
    },
    "sampler/same_condition": {"repeated": {"small": "repeat"}},
    **KERNEL_VARIANTS,
    **{f"transform/{name}": BATCHED for name in ("simclr", "multi", "moco_v2", "byol")},
}
COMPILES = "compiles_without_graph_breaks"
COMPILED = ("fair_cclk, joint", "mixture, unlike")
"""Variants whose compiling is checked always, as that of each objective's example is."""


def is_dear(check):
    """Whether a law takes as long as all others of the component, and its example keeps it too."""
    variant = getattr(check.subject, "variant", "")
    return check.name == COMPILES and bool(variant) and not check.component.endswith(COMPILED)


ALL = checks("ccl-plugins", EXAMPLES, VARIANTS_OF)
CHECKS = [
    (component, [each for each in its if not is_dear(each)])
    for component, its in groupby(ALL, lambda each: each.component)
]


LARGE = ("backbone/small_alexnet", "condition/clip")
"""Components with millions of weights, which each law makes anew; others of their kinds are small."""


def is_slow(component):
    """Whether it is large, or a variant of an objective, whose example keeps the laws as well."""
    of_example = ", " not in component or component.endswith(COMPILED)
    return component in LARGE or (component.startswith("objective/") and not of_example)


@pytest.mark.parametrize(
    ("component", "its"),
    [
        pytest.param(component, its, marks=[pytest.mark.slow] * is_slow(component), id=component)
        for component, its in CHECKS
    ],
)
def test_a_component_keeps_all_laws_but_those_named_above(component, its):
    broken = {each.check.name: each.reason for each in map(run, its) if each.state == "failed"}
    expected = {law for name, law in EXPECTED if component in (name, f"objective/{name}")}
    assert broken.keys() == expected, "\n\n".join(f"{law}: {why}" for law, why in broken.items())


@pytest.mark.slow
@pytest.mark.parametrize("check", [*filter(is_dear, ALL)], ids=str)
def test_a_variant_compiles_too(check):
    outcome = run(check)
    assert outcome.state in ("passed", "skipped"), outcome.reason
