"""Objectives that break one law each."""

from __future__ import annotations

import torch
from support.broken import broken_laws, law_tests
from support.broken_objectives import BROKEN

from ccl_plugins.objectives import ContrastiveObjective

COMPILES = "compiles_without_graph_breaks"
"""A law that takes as long as all others: of objectives that break another it is not asked."""


class Centers(ContrastiveObjective):
    """Attraction to a learned center for each class."""

    value_types = ("categorical",)
    min_views = 1
    reads_queue = False

    def __init__(self) -> None:
        super().__init__()
        self.on = "condition"
        self.register_parameter("centers", None)

    def setup(self, tables, sizes):
        classes = int(tables[self.on].values.max()) + 1
        self.centers = torch.nn.Parameter(torch.randn(classes, sizes.embedding))

    def terms(self, pairs):
        ids = pairs.everyone(self.on)[pairs.rows]
        values = (pairs.anchors - self.centers[ids]).square().sum(-1)
        return values, torch.ones_like(values)


def without_compiling(kind, objective):
    return broken_laws(kind, objective, {COMPILES} - BROKEN[objective])


test_the_law_that_is_broken_is_named, test_every_law_is_broken_once = law_tests(
    "objective", BROKEN, without_compiling
)


def test_an_objective_gets_no_class_that_its_tables_lack():
    """As in training, so parameters for the classes of the tables need no check in ``terms``."""
    assert broken_laws("objective", Centers) == set()
