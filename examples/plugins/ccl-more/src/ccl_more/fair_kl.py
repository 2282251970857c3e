"""FairKL: similarities are distributed alike within and across sensitive groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from ccl_plugins.arguments import one_of
from ccl_plugins.numerics import gather
from ccl_plugins.pairs import Pairs
from ccl_plugins.protocols import ValueType
from torch import Tensor

from ccl_more.supervised import ByView, Candidates

SMOOTHING = 1e-6
"""Added to variances, which are 0 where all keys are equal."""


class FairKL(ByView):
    """Regularizer for a ``mixture``: keys of the anchor's group are not nearer than others (FairKL).

    ``D(P_b, P_b') + D(N_b, N_b')``, where ``D`` is the Kullback-Leibler divergence of two normal
    distributions, ``½ ( (σ² + (μ - μ')²) / σ'² - log(σ² / σ'²) - 1 )``, with means and variances of
    similarities to the anchor.  P_b: the anchor's other views, and all views of the other samples of its
    class and its sensitive group.  P_b': those of its class and of other groups.  N_b, N_b': the same
    for other classes.  A divergence counts where both sets have two keys or more; anchors without any
    get weight 0.

    It attracts nothing by itself: mix it with ``eps_sup_infonce``, as the paper does.

    Derived from the paper, whose distances are minus similarities here; D does not change with their
    scale, so there is no temperature.  The authors' code squares differences of means and of standard
    deviations, takes these over the whole batch with zeros for all other pairs, and adds the means
    themselves.  1e-6 is added to each variance.

    Args:
        divergence: ``"kl"``; ``"jeffreys"``: in both directions; ``"mean"``: ``(μ - μ')²`` alone, where one
            key in each set is enough.
        over: The pairs of which means and variances are taken: those of one ``"anchor"``, or all of an
            anchor view in the ``"batch"``, for groups so rare that few anchors have two such keys.
        on: The name of the condition with the target class.
        sensitive: The name of the condition with the sensitive group.

    Source:
        Barbano et al., Unbiased Supervised Contrastive Learning (2023), eq. (9) and (10).
    """

    EXAMPLE_CONDITION: ClassVar[Mapping[str, Any]] = {
        "label": [0, 1, 0, 1, 0, 1, 0, 1],
        "sensitive": [0, 0, 1, 1, 0, 0, 1, 1],
    }

    def __init__(
        self,
        divergence: Literal["kl", "jeffreys", "mean"] = "kl",
        over: Literal["anchor", "batch"] = "anchor",
        *,
        on: str = "label",
        sensitive: str = "sensitive",
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(gather_distributed=gather_distributed)
        self.divergence = one_of("divergence", divergence, ("kl", "jeffreys", "mean"))
        self.over = one_of("over", over, ("anchor", "batch"))
        self.on = on
        self.sensitive = sensitive

    def reads(self) -> Mapping[str, Sequence[ValueType]]:
        """The class and the sensitive group."""
        return {self.on: ("categorical",), self.sensitive: ("categorical",)}

    def row(self, pairs: Pairs, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """One value per anchor."""
        group, sims = pairs.everyone(self.sensitive), candidates.sims()
        same_group, alike = group[pairs.rows, None] == group, pairs.same_class(self.on)
        unlike = pairs.contrasted(alike) & ~alike
        columns = candidates.columns
        positive, counted = self._divergence(
            pairs, sims, candidates.with_own(alike & same_group), columns(alike & ~same_group)
        )
        negative, too = self._divergence(
            pairs, sims, columns(unlike & same_group), columns(unlike & ~same_group)
        )
        n = len(sims)
        return (positive + negative).expand(n), (counted | too).expand(n)

    def _divergence(
        self, pairs: Pairs, sims: Tensor, aligned: Tensor, conflicting: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The divergence of the similarities of two sets (n, k), 0 where it does not count."""
        (a, mean, var), (b, other_mean, other_var) = (
            self._moments(pairs, sims, chosen) for chosen in (aligned, conflicting)
        )
        counted, square = (a > 1) & (b > 1), (mean - other_mean).square()
        if self.divergence == "mean":
            counted, value = (a > 0) & (b > 0), square
        else:
            value = (var + square) / other_var - (var / other_var).log() - 1
            if self.divergence == "jeffreys":
                value = value + (other_var + square) / var - (other_var / var).log() - 1
            value = value / 2
        return value.where(counted, 0), counted

    def _moments(self, pairs: Pairs, sims: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Number, mean and variance of the chosen entries (n, k), of each row or of all."""

        def total(x: Tensor) -> Tensor:
            x = x.sum(1)
            if self.over == "anchor":
                return x
            x = x.sum(0, keepdim=True)
            return gather(x).sum(0, keepdim=True) if pairs.processes > 1 else x

        mask = chosen.to(sims.dtype)
        count = total(mask)
        mean = total(sims * mask) / count.clamp_min(1)
        spread = total((sims - mean[:, None]).square() * mask) / (count - 1).clamp_min(1)
        return count, mean, spread + SMOOTHING
