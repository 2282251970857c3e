"""Every component of this package keeps the laws of its kind."""

import ccl_plugins as ccl
import pytest
from ccl_plugins.testing import checks, parametrize_with_checks


@parametrize_with_checks("ccl-prototypes")
def test_conformance(check):
    check()


OTHER_FORMS = [ccl.objective("proto_nce", k=8, form="released", negatives=8)]


@pytest.mark.parametrize("check", [c for form in OTHER_FORMS for c in checks(form)], ids=str)
def test_other_forms_keep_the_laws_too(check):
    check()
