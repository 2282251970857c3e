"""KoLeo: embeddings spread out, each away from its nearest neighbor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from ccl_plugins.arguments import DEEPEST, checked, positive, whole, word
from ccl_plugins.objectives.base import ContrastiveObjective
from ccl_plugins.pairs.pairs import Pairs


@dataclass(eq=False, repr=False)
class KoLeo(ContrastiveObjective):
    r"""Spread of embeddings: each is repelled by its nearest neighbor in the same view (KoLeo).

    ``-log(|x - y| + ε)`` of unit vectors, with y the nearest x of another sample: an estimator of minus the
    differential entropy, up to constants (Kozachenko and Leonenko).  Positives: none; negatives: the
    nearest neighbor, among the samples of all processes.  It is a further term of a ``mixture``, as in
    DINOv2: 0.1 times the sum of those of two large views, of the backbone's features, is a weight of 0.2.

    Equation:
        \ell_i = -\log \left( \min_{j \neq i} \lVert x_i - x_j \rVert + \varepsilon \right)

    Shape:
        u times (b, d) -> ()

    Args:
        at: ``"projection"``, or ``"features"`` of the backbone; in a call, give these as ``features=``.
        views: The number of views that are spread, the first ones, 1 to 1024; None: all.
        eps: ε, above 0; it is added to each difference of coordinates too, as in lightly.

    Raises:
        TypeError: For a number of views that is not whole.
        ValueError: For a value out of range, and for a batch of one sample.

    Defaults:
        eps: Code: 1e-8. Here: that of DINOv2 and lightly.

    Source:
        Sablayrolles et al., Spreading Vectors for Similarity Search (2019); on one process the same
        as lightly's ``KoLeoLoss``, which looks for neighbors within each process. The weight: Oquab
        et al., DINOv2: Learning Robust Visual Features without Supervision (2023).
    """

    min_views = 1
    within_view = True
    distributed: Literal["mean", "replicated"] = field(default="replicated", init=False)
    reads_queue = False

    at: Literal["projection", "features"] = word("projection", "features")
    views: int | None = checked(whole, least=1, most=DEEPEST, default=None)
    eps: float = checked(positive, default=1e-8)
    exclude: None = field(default=None, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.reads_features = self.at == "features"

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """The logarithm of the distance to the nearest neighbor, per view."""
        x = pairs.samples.features if self.at == "features" else pairs.anchors
        if x is None:
            raise ValueError("KoLeo reads features, and these pairs have none")
        if x.shape[1] < 2:
            raise ValueError("KoLeo compares samples: a batch needs at least 2")
        values = torch.stack([self._spread(view) for view in x[: self.views]])
        return values, torch.ones_like(values)

    def _spread(self, x: Tensor) -> Tensor:
        """(n,) of vectors (n, d)."""
        x = functional.normalize(x, dim=1, eps=self.eps)
        with torch.no_grad():
            own = torch.eye(len(x), dtype=torch.bool, device=x.device)
            nearest = (x @ x.T).masked_fill(own, -2).argmax(1)
        return -(functional.pairwise_distance(x, x[nearest], eps=self.eps) + self.eps).log()
