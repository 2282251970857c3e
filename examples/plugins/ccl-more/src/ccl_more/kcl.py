"""KCL: supervised contrastive learning with the same number of positives for every class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from ccl_plugins.arguments import whole
from ccl_plugins.objectives import Exclude, Scalar, SupCon
from ccl_plugins.pairs import Pairs
from torch import Tensor

DRAWS = "draws some of the positives, by the places of samples in the batch"
"""Why two laws of objectives do not apply."""


class KCL(SupCon):
    """K-positive contrastive loss (KCL): k samples of the anchor's class are positives, however many it has.

    ``-(1 / |P|) Σ_{p in P} log( e_p / Σ_a e_a )``.  Positives P: the anchor's other views, and all views
    of k other samples of its class, drawn at random, or of all of them where there are no more than k.
    The denominator has all views of all samples but the anchor, the other samples of its class too.

    The draw is a shuffle of batch and queue, new in each step of a run, in which each anchor takes the
    next k samples of its class.  So all processes draw alike, and a loss of the same pairs is the same.

    In the paper a sample has one key, from a momentum encoder; with several key views, all views of a
    drawn sample are positives.

    Args:
        k: The number of samples that are drawn for each anchor, 1 or more.

    Defaults:
        temperature: Code: 0.07.
        k: Paper: 6.

    Source:
        Kang et al., Exploring Balanced Feature Spaces for Representation Learning (2021), the
        k-positive contrastive loss.
    """

    EXPECTED_FAILURES: ClassVar[Mapping[str, str]] = {
        "order_of_samples_does_not_matter": DRAWS,
        "samples_without_a_value_are_left_out": DRAWS,
    }
    EXAMPLE: ClassVar[Mapping[str, Any]] = {"k": 1}
    EXAMPLE_CONDITION: ClassVar[Any] = [0, 1]
    EXAMPLE_BATCH = 12
    step: Tensor

    def __init__(
        self,
        temperature: Scalar = 0.07,
        k: int = 6,
        *,
        on: str = "condition",
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(temperature, on=on, exclude=exclude, gather_distributed=gather_distributed)
        self.k = whole("k", k, 1)
        self.register_buffer("step", torch.zeros((), dtype=torch.long))

    def progress(self, step: int, total: int) -> None:
        """Shuffle anew."""
        super().progress(step, total)
        self.step.fill_(step)

    def choose(self, pairs: Pairs, alike: Tensor) -> Tensor:
        """(n, m + q) True at k of the other samples of the anchor's class."""
        return next_in_shuffle(alike, pairs.rows, self.k, self.step)


def next_in_shuffle(chosen: Tensor, rows: slice, k: int, step: Tensor) -> Tensor:
    """(n, m) True at the k chosen entries of each row that come next in a shuffle of the columns.

    Args:
        chosen: (n, m) True at the entries to draw from.
        rows: The columns at which the anchors of the rows stand.
        k: How many are drawn; all, if there are no more.
        step: 0-d, another shuffle for each number.
    """
    m = chosen.shape[1]
    code = torch.arange(1, m + 1, device=chosen.device) * 0x9E3779B1 + step * 0x85EBCA77
    for _ in range(2):  # mix the bits
        code = ((code ^ (code >> 15)) * 0x2C1B3C6D) & 0x7FFFFFFF
    place = code.argsort(stable=True).argsort()
    ahead = ((place - place[rows, None]) % m).to(torch.float32).masked_fill(~chosen, m)
    last = ahead.topk(min(k, m), largest=False).values[:, -1:]
    return chosen & (ahead <= last)
