"""ProtoNCE: InfoNCE, and a contrast of every image with prototypes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from ccl_plugins.arguments import non_negative, one_of, whole
from ccl_plugins.numerics import gather, logsumexp, masked
from ccl_plugins.objectives import Exclude, InfoNCE, Scalar, ScalarAttribute
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
    of InfoNCE; the other prototypes of the same clustering, all or some.  Without centroids, as in the
    warm-up of ``clusters``, the loss is InfoNCE.

    Its paper's form is a method ``moco_v2``, the condition ``clusters(of="key")`` and ``negatives`` equal
    to the size of the queue.

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
        negatives: Number of prototypes drawn as negatives in each step, 1 or more, the same for all
            anchors; None: all.
        form: ``"paper"`` draws from all prototypes of a clustering, and an anchor's own is no negative.
            ``"released"`` draws from those of no sample in the batch, and the own prototypes of the other
            samples are negatives too, also where they are the anchor's.

    Raises:
        TypeError: For a number that is not whole.
        ValueError: For a number out of range; in a call, for a number of columns or of clusters other than
            in ``k``, and for centroids of another dimension than the embeddings.

    Defaults:
        temperature: Code: 0.2.
        alpha: Paper: 10. Code: 10.

    Source:
        Li et al., Prototypical Contrastive Learning of Unsupervised Representations (2021), eq. (11),
        (12), algorithm 1.  Of φ the paper leaves open what ``concentration`` says, and so does ours from
        the authors' code; ``form="released"`` is that code's choice of negatives, here over the samples
        of all processes, where theirs takes those of one.
    """

    hierarchies = True
    in_parts = False  # negatives are drawn once for all anchors
    EXAMPLE: ClassVar[Mapping[str, Any]] = {"k": 8}
    EXAMPLE_EXTRAS: ClassVar[Mapping[str, Any]] = {
        "condition/centroids_8": (8, 16),
        "condition/sizes_8": torch.arange(8),
        "condition/distances_8": torch.linspace(0.1, 0.8, 8),
    }
    EXPECTED_FAILURES: ClassVar[Mapping[str, str]] = {
        "reads_the_conditions_of_a_queue": "clusters have prototypes; a queue's keys are of instances"
    }
    weight = ScalarAttribute(non_negative)

    def __init__(
        self,
        k: int | Sequence[int],
        temperature: Scalar = 0.2,
        weight: Scalar = 1.0,
        alpha: float = 10.0,
        negatives: int | None = None,
        form: Literal["paper", "released"] = "paper",
        *,
        symmetric: bool = True,
        on: str = "condition",
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(
            temperature, symmetric=symmetric, exclude=exclude, gather_distributed=gather_distributed
        )
        numbers = [k] if isinstance(k, int) else list(k)
        if not numbers or len(set(numbers)) < len(numbers):
            raise ValueError(f"k must be one number, or several different ones, not {k!r}")
        self.numbers = [whole("k", number, 2) for number in numbers]
        self.weight = weight
        self.alpha = non_negative("alpha", alpha)
        self.negatives = None if negatives is None else whole("negatives", negatives, 1)
        self.form = one_of("form", form, ("paper", "released"))
        self.on = on

    def reads(self) -> Mapping[str, Sequence[ValueType]]:
        """One condition, of cluster ids."""
        return {self.on: ("categorical",)}

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor and pair of views."""
        values, weights = super().terms(pairs)
        if not self._has_prototypes(pairs):
            return values, weights
        ids = pairs.samples.condition_of(self.on)
        columns = ids[:, None] if ids.ndim == 1 else ids
        if columns.shape[1] != len(self.numbers):
            raise ValueError(
                f"k={self.numbers} needs {len(self.numbers)} clusterings, and {self.on!r} has"
                f" {columns.shape[1]} columns: give both the same k"
            )
        of_levels = [self._level(pairs, k, columns[:, i]) for i, k in enumerate(self.numbers)]
        prototypical = torch.stack(of_levels).mean(0)
        of_anchors = torch.stack([prototypical[i] for i, _ in pairs.cross(self.symmetric)])
        # An anchor without negatives in batch and queue still has prototypes.
        return values * weights + self.weight * of_anchors, torch.ones_like(weights)

    def _level(self, pairs: Pairs, k: int, ids: Tensor) -> Tensor:
        """(u, n) minus the log-probability of the own prototype among k; ``ids`` (m,) of all samples."""
        anchors, mine = pairs.anchors, ids[pairs.rows]
        centroids, sizes, distances = (
            pairs.samples.extras[f"{self.on}/{name}_{k}"].to(anchors.dtype)
            for name in ("centroids", "sizes", "distances")
        )
        if centroids.shape[1] != anchors.shape[2]:
            raise ValueError(
                f"the centroids of {self.on!r} have {centroids.shape[1]} columns and embeddings"
                f" {anchors.shape[2]}: prototypes are clusters of='embedding' or of='key'"
            )
        phi = concentration(distances, sizes, self.alpha, self.temperature)
        prototypes = normalize(centroids, dim=1) / phi[:, None]
        own = (anchors * prototypes[mine]).sum(2)
        others, keep = self._negatives(pairs, k, ids, mine)
        scores = anchors @ (prototypes if others is None else prototypes[others]).T
        return logsumexp(torch.cat([own[..., None], masked(scores, keep)], 2)) - own

    def _negatives(
        self, pairs: Pairs, k: int, ids: Tensor, mine: Tensor
    ) -> tuple[Tensor | None, Tensor]:
        """The ids (r,) of the prototypes that anchors are contrasted with, and where (n, r) they count.

        None: all k.
        """
        drawn = torch.arange(k, device=ids.device)
        if self.form == "paper" and self.negatives is None:
            return None, drawn != mine[:, None]
        order = torch.rand(k, device=ids.device)
        if self.form == "released":
            order = order.index_fill(0, ids, -1.0)
        number = k if self.negatives is None else min(self.negatives, k)
        found = order.topk(number)
        drawn, free = found.indices, found.values >= 0
        if pairs.processes > 1:  # the first process draws for all
            drawn, free = gather(drawn)[:number], gather(free)[:number]
        if self.form == "paper":
            return drawn, drawn != mine[:, None]
        present = ~pairs.own()
        if pairs.samples.missing is not None:
            present = present & ~pairs.samples.missing
        return torch.cat([ids, drawn]), torch.cat([present, free.expand(len(mine), -1)], 1)

    def _has_prototypes(self, pairs: Pairs) -> bool:
        found = [name for name in pairs.samples.extras if name.startswith(f"{self.on}/")]
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
