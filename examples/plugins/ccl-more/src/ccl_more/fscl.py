"""FSCL: supervised contrastive learning without a sensitive attribute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from ccl_plugins.numerics import logsumexp, masked
from ccl_plugins.objectives import Exclude, Scalar
from ccl_plugins.pairs import Pairs
from ccl_plugins.protocols import ValueType
from torch import Tensor
from torch.nn import functional

from ccl_more.supervised import Candidates, Supervised, mean_over


class FSCL(Supervised):
    """Fair supervised contrastive loss (FSCL), with negatives from the anchor's sensitive group.

    ``-(1 / |P|) Σ_{p in P} log( e_p / Σ_{a in N} e_a )``.  Positives P: the anchor's other views, and
    all views of the other samples of its class, of any group.  Negatives N: all views of the samples of
    other classes with the anchor's sensitive attribute.  Anchors without positives or without negatives
    get weight 0.

    With ``group_normalization`` (FSCL+), each positive p is divided by ``P_g(p)``, the number of other
    keys of its class and group, instead of ``|P|``, and an anchor a has the weight ``1 / (P_g(a) + 1)``,
    so that all groups of a class count alike.  This is what the authors' code computes, but for its
    constant factor, in place of which the weights sum to 1, and for anchors without negatives.

    Args:
        group_normalization: Whether groups count alike (FSCL+).
        on: The name of the condition with the target class.
        sensitive: The name of the condition with the sensitive attribute.

    Defaults:
        temperature: Code: 0.1 (script); 0.07 (class).

    Source:
        Park et al., Fair Contrastive Learning for Facial Attribute Classification (2022).
    """

    def __init__(
        self,
        temperature: Scalar = 0.1,
        *,
        group_normalization: bool = False,
        on: str = "label",
        sensitive: str = "sensitive",
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(temperature, on=on, exclude=exclude, gather_distributed=gather_distributed)
        self.group_normalization = group_normalization
        self.sensitive = sensitive

    def reads(self) -> Mapping[str, Sequence[ValueType]]:
        """The class and the sensitive attribute."""
        return {self.on: ("categorical",), self.sensitive: ("categorical",)}

    def row(self, pairs: Pairs, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """One value per anchor."""
        label, group = pairs.everyone(self.on), pairs.everyone(self.sensitive)
        same_group, alike = group[pairs.rows, None] == group, pairs.same_class(self.on)
        other = (label[pairs.rows, None] != label) & same_group
        positives = candidates.with_own(alike)
        negatives = candidates.columns(pairs.counted(pairs.negative) & other)
        counted = positives.any(1) & negatives.any(1)
        logits = candidates.sims() / self.temperature
        total = logsumexp(masked(logits, negatives))
        if self.group_normalization:
            alone = (
                pairs.within(candidates.i) is not None
            )  # an anchor is a key that it is not compared with
            peers = peers_of(pairs, label, group).to(logits.dtype) - int(alone)
            share = positives / candidates.columns(peers).clamp_min(1)
            value = total * share.sum(1) - (share * logits).sum(1)
            return value.where(counted, 0), counted / (peers[pairs.rows] + 1)
        value = total - mean_over(positives, logits)
        return value.where(counted, 0), counted


def peers_of(pairs: Pairs, label: Tensor, group: Tensor) -> Tensor:
    """(m + q,) the number of keys, in all views and the queue, of each sample's class and group."""
    ids = label * (group.amax() + 1) + group
    keys = torch.ones_like(ids)
    keys[: pairs.keys.shape[1]] = len(pairs.key_views)
    if (valid := pairs.valid()) is not None:
        keys = keys * valid
    ordered, order = ids.sort()
    until = functional.pad(keys[order].cumsum(0), (1, 0))
    first, last = torch.searchsorted(ordered, ids), torch.searchsorted(ordered, ids, right=True)
    return until[last] - until[first]
