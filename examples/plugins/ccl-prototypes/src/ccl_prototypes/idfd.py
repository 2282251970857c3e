"""IDFD: every sample is a class of its own, and features are decorrelated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ccl_plugins.arguments import non_negative, positive
from ccl_plugins.numerics import gather, logsumexp
from ccl_plugins.objectives import Exclude, InfoNCE, Scalar, ScalarAttribute
from ccl_plugins.pairs import Pairs
from ccl_plugins.protocols import Sizes, Table
from torch import Tensor
from torch.nn.functional import normalize

from ccl_prototypes.bank import Bank


class IDFD(InfoNCE):
    """Instance discrimination and feature decorrelation (IDFD).

    ``L_I + weight · L_F``.  L_I tells a sample from the others, by default as InfoNCE: positive is the
    own key of another view, negatives are the other samples of batch and queue.  With ``bank`` it is the
    paper's: positive is the sample's own entry in a memory bank, negatives are all other entries.  L_F
    tells a feature, one coordinate of all samples' embeddings, from the others: with unit-norm columns f
    of the batch of a view, ``mean_l -log( exp(f_l·f_l / τ2) / Σ_m exp(f_m·f_l / τ2) )``.

    The batch is that of all processes.  L_F is the same for all anchors, and is a part of each term.

    Args:
        temperature: τ of L_I, above 0.
        feature_temperature: τ2 of L_F, above 0.
        weight: Weight of L_F, 0 or more.
        bank: Whether L_I reads a bank with an entry for each training sample, averaged over its views; it
            exists from ``setup`` on, and each step needs dataset indices.  One view is then enough, and
            there is no queue.
        momentum: Share of the old entry when a bank's entry is averaged, from 0 to below 1.

    Raises:
        ValueError: For a number out of range; with ``bank``, before ``setup`` and without dataset indices.

    Defaults:
        temperature: Paper: 1. Code: 1.
        feature_temperature: Paper: 2. Code: 2.
        weight: Paper: 1. Code: 1.
        momentum: Code: 0.5.

    Source:
        Tao et al., Clustering-friendly Representation Learning via Instance Discrimination and Feature
        Decorrelation (2021), section 3, where both losses are sums; means, as here, are their code's.
        Their code has one view, and a bank whose first entries are random and not normalized; its
        momentum of 0.5 is the default here.  The form without a bank is ours.
    """

    feature_temperature = ScalarAttribute(positive)
    in_parts = False  # features are decorrelated over all anchors
    weight = ScalarAttribute(non_negative)

    def __init__(
        self,
        temperature: Scalar = 1.0,
        feature_temperature: Scalar = 2.0,
        weight: Scalar = 1.0,
        bank: bool = False,
        momentum: float = 0.5,
        *,
        within_view: bool = False,
        symmetric: bool = True,
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(
            temperature,
            within_view=within_view,
            symmetric=symmetric,
            exclude=exclude,
            gather_distributed=gather_distributed,
        )
        self.feature_temperature = feature_temperature
        self.weight = weight
        self.momentum = momentum
        self.bank: Bank | None = None
        self.reads_bank = bank
        if bank:
            if exclude is not None:
                raise ValueError(
                    "exclude leaves out samples of batch and queue, and bank reads neither"
                )
            self.min_views, self.reads_queue = 1, False

    def setup(self, tables: Mapping[str, Table], sizes: Sizes) -> None:
        """Create the bank."""
        if self.reads_bank and self.bank is None:
            self.bank = Bank(sizes.samples, sizes.embedding, self.momentum)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        # A bank that ``setup`` created has the size that was saved.
        entries = state_dict.get(f"{prefix}bank.entries")
        if self.bank is None and entries is not None:
            self.bank = Bank(entries.shape[0], entries.shape[1], self.momentum)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def after_step(self) -> None:
        """Average the last views into the bank."""
        if self.bank is not None:
            self.bank.commit()

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor and pair of views; with a bank, per anchor and view."""
        if not self.reads_bank:
            values, weights = super().terms(pairs)
        elif self.bank is None:
            raise ValueError("IDFD has no bank yet: call setup(tables, sizes)")
        else:
            values = self.bank(pairs, self.temperature)
            weights = values.new_ones(values.shape)
        return values + self.weight * self.correlation(pairs), weights

    def correlation(self, pairs: Pairs) -> Tensor:
        """L_F, the mean over features and views."""
        everyone = pairs.anchors
        if pairs.processes > 1:
            everyone = pairs.keys if pairs.shared else gather(everyone, 1)
        if pairs.samples.missing is not None:
            everyone = everyone.masked_fill(pairs.samples.missing[:, None], 0)
        columns = normalize(everyone, dim=1)
        logits = columns.mT @ columns / self.feature_temperature
        return (logsumexp(logits) - logits.diagonal(dim1=1, dim2=2)).mean()
