"""ProtoNCE: InfoNCE, and a contrast of every image with prototypes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from ccl_plugins.numerics import logsumexp, masked
from ccl_plugins.objectives import InfoNCE, Scalar
from ccl_plugins.pairs import Pairs
from ccl_plugins.protocols import ValueType
from torch import Tensor
from torch.nn.functional import normalize

from ccl_prototypes.concentration import concentration


class ProtoNCE(InfoNCE):
    """Prototypical contrastive loss (ProtoNCE): InfoNCE, and attraction to the centroids of clusters.

    ``InfoNCE - weight · mean_k log( exp(v·c_s / φ_s) / Σ_j exp(v·c_j / φ_j) )``, where the
    prototypes c_j are unit centroids, c_s that of v's cluster, and φ_j is the concentration of cluster
    j.  Positives: the own key of another view; the own prototype in each clustering.  Negatives: those
    of InfoNCE; the other prototypes, all or some.  Without centroids, as in the warm-up of ``clusters``,
    the loss is InfoNCE.

    Shape:
        (b, d), (b, d), condition (b,) or (b, number of k) of cluster ids, extras -> ()

    Extras:
        ``centroids_<k>``, ``sizes_<k>`` and ``distances_<k>`` of the condition, for every k, as
        ``clusters`` provides them.

    Args:
        k: Number of clusters, or several such numbers, equal to ``k`` of the condition ``clusters``.
        temperature: τ, above 0; also the mean of φ.
        weight: Weight of the contrast with prototypes, 0 or more.
        alpha: α, 0 or more; keeps φ of small clusters from being small.
        negatives: Number of prototypes drawn as negatives in each step, 1 or more; None: all.
        symmetric: Whether every view is the anchor once, or only the earlier of two.
        on: The name of the condition.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Raises:
        ValueError: For a number out of range; in a call, for a number of columns or of clusters other than
            in ``k``, and for centroids of another dimension than the embeddings.

    Source:
        Li et al., Prototypical Contrastive Learning of Unsupervised Representations (2021), eq. (11);
        the paper clusters momentum features.
    """

    hierarchies = True
    EXAMPLE: ClassVar[Mapping[str, Any]] = {"k": 8}
    EXAMPLE_EXTRAS: ClassVar[Mapping[str, Any]] = {
        "condition/centroids_8": (8, 16),
        "condition/sizes_8": torch.arange(8),
        "condition/distances_8": torch.linspace(0.1, 0.8, 8),
    }

    def __init__(
        self,
        k: int | Sequence[int],
        temperature: Scalar = 0.1,
        weight: float = 1.0,
        alpha: float = 10.0,
        negatives: int | None = None,
        *,
        symmetric: bool = True,
        on: str = "condition",
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(temperature, symmetric=symmetric, gather_distributed=gather_distributed)
        numbers = [k] if isinstance(k, int) else list(k)
        if not numbers or min(numbers) < 2:
            raise ValueError(f"k must be 2 or more, or several such numbers, not {k!r}")
        if not (weight >= 0 and alpha >= 0):
            raise ValueError(f"weight and alpha must be 0 or more, not {weight!r} and {alpha!r}")
        if negatives is not None and negatives < 1:
            raise ValueError(f"negatives must be 1 or more, or None, not {negatives!r}")
        self.numbers = numbers
        self.weight = weight
        self.alpha = alpha
        self.negatives = negatives
        self.on = on

    @property
    def conditions(self) -> Mapping[str, Sequence[ValueType]]:
        """One condition, of cluster ids."""
        return self.and_excluded({self.on: ("categorical",)})

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor and pair of views."""
        values, weights = super().terms(pairs)
        if not self._has_prototypes(pairs):
            return values, weights
        ids = pairs.condition_of(self.on)[pairs.rows]
        columns = ids[:, None] if ids.ndim == 1 else ids
        if columns.shape[1] != len(self.numbers):
            raise ValueError(
                f"k={self.numbers} needs {len(self.numbers)} clusterings, and {self.on!r} has"
                f" {columns.shape[1]} columns: give both the same k"
            )
        levels = list(zip(self.numbers, columns.T, strict=True))
        parts = [
            torch.stack([self._prototypical(pairs, v, k, mine) for k, mine in levels]).mean(0)
            for v in pairs.anchors
        ]
        of_anchors = torch.stack([parts[i] for i, _ in pairs.cross(self.symmetric)])
        return values + self.weight * of_anchors, weights

    def _prototypical(self, pairs: Pairs, anchors: Tensor, k: int, ids: Tensor) -> Tensor:
        """(n,) minus the log-probability of the own prototype among k prototypes."""
        centroids, sizes, distances = (
            pairs.extras[f"{self.on}/{name}_{k}"].to(anchors.dtype)
            for name in ("centroids", "sizes", "distances")
        )
        if centroids.shape[1] != anchors.shape[1]:
            raise ValueError(
                f"the centroids of {self.on!r} have {centroids.shape[1]} columns and embeddings"
                f" {anchors.shape[1]}: prototypes are clusters of='embedding'"
            )
        phi = concentration(distances, sizes, self.alpha, self.temperature)
        logits = anchors @ normalize(centroids, dim=1).T / phi
        own = logits.gather(1, ids[:, None])
        if self.negatives is None:
            return logsumexp(logits) - own[:, 0]
        drawn = torch.rand(k, device=logits.device).topk(min(self.negatives, k)).indices
        others = masked(logits[:, drawn], drawn != ids[:, None])
        return logsumexp(torch.cat([own, others], 1)) - own[:, 0]

    def _has_prototypes(self, pairs: Pairs) -> bool:
        found = [name for name in pairs.extras if name.startswith(f"{self.on}/")]
        if not found:
            raise ValueError(
                f"ProtoNCE reads the prototypes of the condition {self.on!r}, which has none: use"
                f" clusters(k={self.numbers}), or pass extras={{...}} in a call"
            )
        if all(f"{self.on}/centroids_{k}" in found for k in self.numbers):
            return True
        if any("centroids_" in name for name in found):
            raise ValueError(
                f"ProtoNCE has k={self.numbers}, and {self.on!r} has {', '.join(found)}: give both"
                " the same k"
            )
        return False
