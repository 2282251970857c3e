"""The number of directions over which projections spread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from ccl_plugins.arguments import word
from ccl_plugins.evaluators.columns import finite_features
from ccl_plugins.evaluators.projections import projections_of
from ccl_plugins.protocols import Frozen, Measurement, UndefinedMetric


@dataclass(eq=False, repr=False)
class RankMe:
    """Effective rank of projections or features: the number of directions over which they spread.

    With the singular values σ of a matrix X (N, d), RankMe is the exponential of the entropy of
    ``p_k = σ_k / Σ σ + 1e-7``, between 1 and the smaller of N and d: 1 if all rows lie on one line, as in a
    collapse, and d if all directions are alike.  Gives ``"projections/rankme"`` or ``"features/rankme"``.

    Split: measured on the test split; nothing is fitted and nothing selected.

    Args:
        of: ``"projections"``: X are the projections of the first view, not centered, as in the paper;
            ``"features"``: the backbone's features, centered.

    Raises:
        ValueError: If ``of`` is another word; on use, for numbers that are not finite, and for features
            without projections.
        UndefinedMetric: On use, if there are fewer than two samples.

    Source:
        Garrido et al., RankMe: Assessing the Downstream Performance of Pretrained Self-Supervised
        Representations by Their Rank (2023), equations (1) and (2), on training data.  Without ε it is
        the effective rank of Roy and Vetterli, The Effective Rank (2007), section 2.
    """

    of: Literal["projections", "features"] = word("projections", "features")

    @property
    def reads_projections(self) -> bool:
        """Whether it measures projections."""
        return self.of == "projections"

    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """``projections/rankme``."""
        if self.reads_projections:
            x = projections_of(test)[0].double()
        else:
            x = finite_features(test).double()
            if len(x) < 2:
                raise UndefinedMetric("a rank needs two samples or more, there is one")
            x = x - x.mean(dim=0)
        # A Gram matrix has their squares as eigenvalues; the smaller one has all that are not 0.
        gram = x.T @ x if len(x) >= x.shape[1] else x @ x.T
        singular = x.new_zeros(x.shape[1])
        singular[: len(gram)] = torch.linalg.eigvalsh(gram).clamp_min(0).sqrt()
        p = singular / singular.sum().clamp_min(torch.finfo(singular.dtype).tiny) + 1e-7
        return [
            Measurement(
                f"{self.of}/rankme",
                (-(p * p.log()).sum()).exp().item(),
                sentence=f"over how many of {x.shape[1]} directions the {self.of} spread",
                samples=len(x),
                direction="higher",
            )
        ]
