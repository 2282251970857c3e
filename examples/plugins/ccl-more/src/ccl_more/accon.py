"""ACCon: angles between embeddings follow the distances of a continuous variable."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from ccl_plugins.arguments import non_negative, positive
from ccl_plugins.numerics import as_vectors, logsumexp, squared_distance
from ccl_plugins.objectives import Scalar
from ccl_plugins.pairs import Pairs
from ccl_plugins.protocols import Sizes, Table
from torch import Tensor

from ccl_more.supervised import Candidates, Supervised, mean_over


class ACCon(Supervised):
    """Angle-compensated contrastive loss for regression (ACCon).

    ``-(1 / |P|) Σ_{p in P} log( e_p / (Σ_{a in P} e_a + Σ_{a in N} exp( cos(θ_a + φ_a) / τ )) )``, where
    θ is the angle of two embeddings, and ``φ = π (1 - |z_i - z_a| / D)`` with D the largest distance of
    two values.  A negative is repelled to the angle ``π |z_i - z_a| / D``.  Positives P: the anchor's
    other views, and all views of the samples with its value.  Negatives N: all views of the others, and
    the queue.  Anchors without positives get weight 0.

    Written from the excerpt of the authors' code in their README, whose equation this is; left out are
    its factor of the temperature and its small constants.  The paper puts values into bins first:
    ``same`` takes that place.

    Args:
        temperature: τ, above 0.
        same: Values at most this far apart count as one value, 0 or more.
        span: D, above 0; None: that of the table, in ``setup``; of several columns, the length of the
            diagonal of the box that holds all values.
        on: The name of the condition, one or more real numbers.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Source:
        Zhao et al., ACCon: Angle-Compensated Contrastive Regularizer for Deep Regression (2025).
    """

    value_types = ("continuous",)
    largest: Tensor

    def __init__(
        self,
        temperature: Scalar = 0.1,
        *,
        same: float = 0.0,
        span: float | None = None,
        on: str = "condition",
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(temperature, on=on, gather_distributed=gather_distributed)
        self.same = non_negative("same", same)
        self.span = span
        given = None if span is None else torch.tensor(float(positive("span", span)))
        self.register_buffer("largest", given)

    def setup(self, tables: Mapping[str, Table], sizes: Sizes) -> None:
        """Find the largest distance of two values of the table."""
        if self.largest is None and self.on in tables:
            z = as_vectors(tables[self.on].values)
            z = z[~z.isnan().any(1)]
            self.largest = (z.amax(0) - z.amin(0)).norm().clamp_min(torch.finfo(z.dtype).tiny)
        self.check_condition({})

    def check_condition(self, condition: Mapping[str, Tensor]) -> None:
        """Refuse values before the largest distance is known."""
        if self.largest is None:
            raise ValueError(
                f"ACCon needs the largest distance of two values of {self.on}: give span=..., or call"
                " setup(tables, sizes) with its table"
            )

    def row(self, pairs: Pairs, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """One value per anchor."""
        self.check_condition({})
        # Twice as exact as float32, since the root of a small square is not; a product is still fast.
        z = pairs.everyone(self.on, candidates.i).double()
        gaps = squared_distance(z[pairs.rows], z).sqrt().to(pairs.anchors.dtype)
        given = pairs.positive
        alike = pairs.counted(gaps <= self.same if given is None else given)
        positives = candidates.with_own(alike)
        negatives = candidates.columns(pairs.contrasted(alike) & ~alike)
        # Of φ = π (1 - share), before the samples' values are repeated for each view.
        angle = (gaps / self.largest).clamp_max(1) * math.pi
        cosine_of, sine_of = candidates.columns(-angle.cos()), candidates.columns(angle.sin())
        cosine = candidates.sims()
        # The derivative of the sine is infinite at equal and opposite embeddings.
        sine = (1 - cosine.square()).clamp_min(torch.finfo(cosine.dtype).eps).sqrt()
        turned = torch.addcmul(cosine * cosine_of, sine, sine_of, value=-1)
        sims = torch.where(positives, cosine, turned)
        total = logsumexp(sims / self.temperature, positives | negatives)
        attraction = mean_over(positives, sims) / self.temperature
        return (total - attraction).where(positives.any(1), 0), positives.any(1)
