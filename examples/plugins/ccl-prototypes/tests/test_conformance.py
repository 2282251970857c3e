"""Every component of this package keeps the laws of its kind."""

import ccl_plugins as ccl
import pytest
from ccl_plugins.testing import checks, parametrize_with_checks


@parametrize_with_checks("ccl-prototypes")
def test_conformance(check):
    check()


NOT_OF_A_BANK = (
    "is_called_on_embeddings",
    "half_precision_is_computed_in_float32",
    "order_of_samples_does_not_matter",
)
"""The laws of calls without dataset indices, and one that gives samples other indices."""


def of_other_forms():
    released = checks(ccl.objective("proto_nce", k=8, form="released", negatives=8))
    bank = checks(ccl.objective("idfd", bank=True))
    return [*released, *(each for each in bank if not str(each).endswith(NOT_OF_A_BANK))]


@pytest.mark.parametrize("check", of_other_forms(), ids=str)
def test_other_forms_keep_the_laws_too(check):
    check()
