from __future__ import annotations

import torch
from support.broken import broken_laws, law_tests
from support.broken_methods import BROKEN, Sound

test_the_law_that_is_broken_is_named, test_every_law_is_broken_once = law_tests("method", BROKEN)


class Reading(Sound):
    """Refuses samples without the conditions that it declares, or of other values."""

    conditions = {"age": ("continuous",), "site": ("categorical",)}  # noqa: RUF012
    EXAMPLE_CONDITION = {"age": [20.0, 30.0]}  # noqa: RUF012

    def pairs(self, embedded, samples):
        pairs = super().pairs(embedded, samples)
        age, site = (pairs.everyone(name) for name in ("age", "site"))
        assert {*age.tolist()} == {20.0, 30.0}
        assert site.dtype == torch.long
        return pairs.excluding((age[pairs.rows, None] == age) & (site[pairs.rows, None] != site))


def test_a_method_gets_the_conditions_that_it_reads():
    assert broken_laws("method", Reading) == set()
