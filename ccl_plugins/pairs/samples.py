"""Samples: who is an anchor's own, who counts beside it, and who is of its class.

Everything here is about samples and not about views or embeddings.  Masks over "batch and queue"
are (n, m + q): the batch's m samples first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from ccl_plugins.numerics.logsumexp import fill_by_turns


@dataclass(frozen=True, eq=False, kw_only=True)
class Samples:
    """What is known of each sample of the batch and of the queue.

    Args:
        offset: Position of the first anchor among the keys.
        processes: How many processes share these keys; their anchors together are all samples.
        condition: By name (m,), (m, c) or, where it differs per view, (u, m, c).
        index: (m,) dataset index of each sample.
        partner: (m,) dataset index of the image that views after the first show, where that is another.
        partner_condition: By name (m,) or (m, c), that image's values of conditions that have a table.
        queue_valid: (q,) False where the queue is not filled yet.
        queue_condition: By name (q,) or (q, c).
        queue_index: (q,) dataset indices; None keeps entries of the anchor's own image as negatives.
        batch_candidates: 0-d bool, whether the batch's other keys count beside the queue; None: yes.
        draws: (n, k) explicit negatives as key positions, repeats allowed; they take the place of all
            others, the queue's too.
        positive: (n, m + q) bool, which other samples are positives where a user brings them; None:
            the objective decides.
        negative: (n, m + q) bool, which other samples may be negatives; None: all.  With
            ``positive``, samples that are neither are left out.
    """

    offset: int = 0
    processes: int = 1
    condition: Mapping[str, Tensor] = field(default_factory=dict)
    index: Tensor | None = None
    partner: Tensor | None = None
    partner_condition: Mapping[str, Tensor] = field(default_factory=dict)
    queue_valid: Tensor | None = None
    queue_condition: Mapping[str, Tensor] = field(default_factory=dict)
    queue_index: Tensor | None = None
    batch_candidates: Tensor | None = None
    draws: Tensor | None = None
    positive: Tensor | None = None
    negative: Tensor | None = None

    @property
    def rows(self) -> slice:
        """Where the anchors stand among the key samples."""
        raise NotImplementedError("how many anchors there are is for Pairs to say")

    def own(self) -> Tensor:
        """(n, m) True at each anchor sample's own position."""
        raise NotImplementedError("how many samples there are is for Pairs to say")

    def candidates(self) -> Tensor | None:
        """(n, m) True at the batch's keys that count, own ones included; None where all do."""
        if self.batch_candidates is None and self.positive is None:
            return None
        return self.others() | self.own()

    def others(self, only: Tensor | None = None) -> Tensor:
        """(n, m) True at the other samples of the batch that count, of those in ``only`` (n, m + q)."""
        others = ~self.own()
        if self.batch_candidates is not None:
            others = others & self.batch_candidates
        for mask in (self._brought(), only):
            others = others if mask is None else others & mask[:, : others.shape[1]]
        return others

    def in_queue(self, only: Tensor | None = None) -> Tensor:
        """(n, q) or (1, q) True at the queue's entries that count, of those in ``only`` (n, m + q).

        Those are filled, not of the anchor's own image, and among the samples a user brought.
        """
        if self.queue_valid is None:
            raise ValueError("these pairs have no queue")
        valid = self.queue_valid[None, :]
        if self.queue_index is not None and self.index is not None:
            for shown in (self.index, self.partner):
                if shown is not None:
                    valid = valid & (shown[self.rows, None] != self.queue_index)
        for mask in (self._brought(), only):
            valid = valid if mask is None else valid & mask[:, -valid.shape[1] :]
        return valid

    def counted(self, only: Tensor | None = None) -> Tensor:
        """(n, m + q) True at the other samples that count, of those in ``only`` (n, m + q)."""
        others = self.others(only)
        if self.queue_valid is None:
            return others
        return torch.cat([others, self.in_queue(only).expand(len(others), -1)], 1)

    def alike(self, on: str) -> Tensor:
        """(n, m + q) True at the other samples that share the anchor's class.

        Where a user brought positives, these.

        Args:
            on: The name of a categorical condition.

        Raises:
            ValueError: For a condition of several columns, as a hierarchy has.
        """
        if self.positive is not None:
            return self.counted(self.positive)
        if (ids := self.condition[on]).ndim != 1:
            raise ValueError(
                f"{on} must be one class id per sample, (b,), not {tuple(ids.shape)}: give one column"
                " of a hierarchy"
            )
        mine, everyone = self.condition[on][self.rows], self.everyone(on)
        return self.counted(mine[:, None] == everyone)

    def contrasted(self, positives: Tensor) -> Tensor:
        """(n, m + q) True at the other samples that are negatives or among ``positives``."""
        return self.counted() if self.negative is None else self.counted(self.negative) | positives

    def everyone(self, on: str, i: int = 0) -> Tensor:
        """(m + q, ...) values of a condition, of the batch as view ``i`` has them and of the queue.

        In empty places of the queue stand values of the batch, whatever the queue holds there.
        """
        values = self.condition_of(on, i)
        there = self.there(len(values))
        if there is None:
            return values
        return fill_by_turns(torch.cat([values, self.queue_condition[on]]), there, len(values))

    def there(self, m: int) -> Tensor | None:
        """(m + q,) False at the queue's empty places, after the batch's m; None without a queue."""
        if self.queue_valid is None:
            return None
        return torch.cat([self.queue_valid.new_ones(m), self.queue_valid])

    def condition_of(self, name: str, i: int = 0) -> Tensor:
        """(m,) or (m, c) values of a condition as anchor view ``i`` has them."""
        values = self.condition[name]
        return values[i] if values.ndim == 3 else values

    def excluding(self, mask: Tensor) -> Self:
        """The same with no negatives where ``mask`` (n, m + q) holds."""
        return replace(self, negative=~mask if self.negative is None else self.negative & ~mask)

    def _brought(self) -> Tensor | None:
        """(n, m + q) True at the samples a user brought in some role; None where none were brought."""
        if self.positive is None or self.negative is None:
            return None
        return self.positive | self.negative
