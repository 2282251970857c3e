"""The built-in components pass the conformance kit."""

from __future__ import annotations

from support.builtin_examples import EXAMPLES
from support.every_objective import VARIANTS

from ccl_plugins.testing import parametrize_with_checks

OF_OBJECTIVES = {f"objective/{name}": variants for name, variants in VARIANTS.items()}
GRADIENT, REACHES = "gradient_is_that_of_the_value", "gradient_reaches_every_view"
FIXED, ALL_DIFFER = "weights carry no gradient", "all values differ, and no other sample is alike"
EXPECTED = {
    ("hucl, fixed weights", GRADIENT): FIXED,
    ("cacr, other view", GRADIENT): FIXED,
    ("cacr_moco_v3, euclidean", GRADIENT): FIXED,
    ("cacr_moco_v3, euclidean", "two_processes_equal_one"): "it is a sum, as released",
    ("fair_cclk, joint", REACHES): ALL_DIFFER,
    ("fair_cclk, joint, class ids", REACHES): ALL_DIFFER,
    ("hardneg_cclk, joint, per view", REACHES): ALL_DIFFER,
}
"""Laws that variants do not keep; objectives/test_every.py holds joint kernels to them on other values."""


@parametrize_with_checks(
    "ccl-plugins",
    examples=EXAMPLES,
    variants={**OF_OBJECTIVES, "method/dual": {"with a queue": {"queue_size": 32}}},
    expected_failures={(f"objective/{name}", law): why for (name, law), why in EXPECTED.items()},
)
def test_conformance(check):
    check()
