"""What supervised objectives compare an anchor with: every view of every sample, and the queue."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from ccl_plugins.pairs import Pairs
from torch import Tensor


@dataclass(frozen=True)
class Candidates:
    """The columns beside anchor view ``i``: the keys view by view, m each, and the q of the queue.

    Args:
        pairs: Where they are from.
        i: The anchor view.
    """

    pairs: Pairs
    i: int

    def sims(self) -> Tensor:
        """(n, v m + q) inner products."""
        blocks = [self.pairs.sim(self.i, j) for j in range(len(self.pairs.key_views))]
        if self.pairs.queue is not None:
            blocks.append(self.pairs.sim_queue(self.i))
        return torch.cat(blocks, 1)

    def distances(self) -> Tensor:
        """(n, v m + q) Euclidean distances."""
        keys = self.pairs.keys.flatten(0, 1)
        keys = keys if self.pairs.queue is None else torch.cat([keys, self.pairs.queue])
        exact = "donot_use_mm_for_euclid_dist"
        return torch.cdist(self.pairs.anchors[self.i], keys, compute_mode=exact)

    def columns(self, samples: Tensor) -> Tensor:
        """What is known of samples, (..., m + q), of each column: (..., v m + q)."""
        m = self.pairs.keys.shape[1]
        return torch.cat([*[samples[..., :m]] * len(self.pairs.key_views), samples[..., m:]], -1)

    def with_own(self, others: Tensor) -> Tensor:
        """(n, v m + q) True at ``others`` (n, m + q), and at the anchor's own other views."""
        m, own = self.pairs.keys.shape[1], self.pairs.own()
        mine = self.pairs.anchor_views[self.i]
        views = [others[:, :m] if k == mine else others[:, :m] | own for k in self.pairs.key_views]
        return torch.cat([*views, others[:, m:]], 1)
