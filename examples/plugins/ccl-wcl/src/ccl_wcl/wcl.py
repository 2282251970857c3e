"""WCL: instance discrimination, and supervised contrast with classes from nearest neighbors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from ccl_plugins.numerics import gather, logsumexp, masked
from ccl_plugins.objectives import NTXent, Scalar
from ccl_plugins.pairs import Pairs
from ccl_plugins.protocols import ValueType
from torch import Tensor, nn
from torch.nn.functional import normalize

from ccl_wcl.graph import weak_labels


class WCL(NTXent):
    """Weakly supervised contrastive loss (WCL): NT-Xent, and SupCon with classes from nearest neighbors.

    ``NT-Xent + weight · mean_ij L(V_i, y_j)`` over views i != j, with SupCon's
    ``L(V, y) = -(1 / |P|) Σ_{p in P} log( exp(v·v_p / τ) / Σ_{a not v} exp(v·v_a / τ) )`` within one
    view.  V is the output of a second head on the backbone's features, or, without one, the projections.
    The weak labels y_j are the connected components of the nearest-neighbor graph of V_j, another view,
    so that a view does not confirm its own neighbors.  Positives P: the other samples of the anchor's
    class in the view; anchors without any have NT-Xent only.  The denominator has all other samples of
    the view.  NT-Xent alone reads a queue and a user's masks.

    Shape:
        (b, d), (b, d) -> (); with ``head`` on pairs that have features (u, n, f)

    Args:
        temperature: τ of both losses, above 0.
        weight: Weight of the second loss, 0 or more.
        head: Widths of the second head: the backbone's features, hidden layers, and V; None: no second
            head.  It has no batch normalization.
        on: The name of a condition with classes (n,), or per view (u, n, 1), such as
            ``neighbor_graph``, in place of y; None: y.
        gather_distributed: In a call on raw embeddings, compare with the samples of all processes.

    Raises:
        ValueError: For a number out of range; in a call, for a second head without features, and for a
            condition of several columns.

    Source:
        Zheng et al., Weakly Supervised Contrastive Learning (2021), without its multi-crops; the
        paper's heads have batch normalization.
    """

    # The graph of weak labels, and the views within which they are contrasted, are of all anchors.
    in_parts = False

    def __init__(
        self,
        temperature: Scalar = 0.1,
        weight: float = 0.5,
        head: Sequence[int] | None = None,
        *,
        on: str | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(temperature, gather_distributed=gather_distributed)
        if not weight >= 0:
            raise ValueError(f"weight must be 0 or more, not {weight!r}")
        if head is not None and (len(head) < 2 or min(head) < 1):
            raise ValueError(
                f"head must be two or more widths, from features to V, not {list(head)}"
            )
        self.weight = weight
        self.head = None if head is None else _perceptron(head)
        self.on = on

    def reads(self) -> Mapping[str, Sequence[ValueType]]:
        """The condition ``on``, if given."""
        return {} if self.on is None else {self.on: ("categorical",)}

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor and pair of views."""
        values, weights = super().terms(pairs)
        return values + self.weight * self.weakly_supervised(pairs), weights

    def weakly_supervised(self, pairs: Pairs) -> Tensor:
        """(n,) mean of L(V_i, y_j) over views; 0 for an anchor without positives."""
        v = self._second_projections(pairs)
        everyone = v if pairs.processes == 1 else gather(v, 1)
        labels = weak_labels(everyone) if self.on is None else self._classes(pairs, self.on)
        others, views, missing = ~pairs.own(), range(len(v)), pairs.samples.missing
        if missing is not None:  # without a value of the condition ``on``
            others = others & ~missing & ~missing[pairs.rows, None]
        rows = []
        for i in views:
            sims = v[i] @ everyone[i].T / self.temperature
            log_total = logsumexp(masked(sims, others))
            for j in views:
                if j == i and len(v) > 1:
                    continue
                positives = (labels[j, pairs.rows, None] == labels[j]) & others
                count = positives.sum(1)
                value = log_total - (sims * positives).sum(1) / count.clamp_min(1)
                rows.append(torch.where(count > 0, value, 0))
        return torch.stack(rows).mean(0)

    def _second_projections(self, pairs: Pairs) -> Tensor:
        """V, (u, n, d)."""
        if self.head is None:
            return pairs.anchors
        if pairs.samples.features is None:
            raise ValueError(
                "the second head of WCL reads the backbone's features, which a call on embeddings does"
                " not have: leave head=None, or call loss(pairs) with features"
            )
        return normalize(self.head(pairs.samples.features), dim=-1)

    def _classes(self, pairs: Pairs, on: str) -> Tensor:
        """(u, m) class ids of the condition for each view."""
        views = range(len(pairs.anchors))
        each = torch.stack([pairs.samples.condition_of(on, i) for i in views])
        if each.ndim == 3 and each.shape[2] > 1:
            raise ValueError(
                f"{on} must be one class id per sample and view, not {each.shape[2]}: give one column"
                " of a hierarchy"
            )
        return each.flatten(1)


def _perceptron(widths: Sequence[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inner, outer in pairwise(widths):
        layers += [nn.Linear(inner, outer), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
