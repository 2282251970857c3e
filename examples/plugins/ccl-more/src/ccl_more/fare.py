"""FARE: fair contrastive learning with attention over a sensitive attribute."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from ccl_plugins.arguments import positive, whole
from ccl_plugins.numerics import as_vectors, logsumexp, masked
from ccl_plugins.numerics.numbers import log
from ccl_plugins.objectives import ContrastiveObjective, Exclude, Scalar, ScalarAttribute
from ccl_plugins.pairs import Pairs
from ccl_plugins.protocols import Sizes, Table
from torch import Tensor, nn
from torch.nn.functional import softplus


class FARE(ContrastiveObjective):
    """Fair contrastive loss with learned attention over a sensitive attribute (FARE, SparseFARE).

    ``-log( e_ii / (e_ii + o Σ_j p_ij e_ij) )``, ``p_i = softmax_j( (W_Q z_i) · (W_K z_j) / ρ )``.
    Positive: the own sample's other view.  Negatives: the samples' keys of that view and the queue,
    weighted by the attention p of their sensitive attributes z; W_Q and W_K are learned with the
    encoder, by the same loss.  Anchors without another sample to attend to get weight 0.

    With ``buckets`` it is SparseFARE: an anchor attends only to samples whose attribute has the same
    hash, ``argmax [zR, -zR]`` with a normal random matrix R.

    Written from the paper's equations (12) and (13) and definition 2; no code was released.  Ours: R is
    drawn once, and not for every batch; an anchor does not attend to adjacent buckets.

    Args:
        rho: ρ, the temperature of the attention, above 0; None: the square root of ``width``.
        width: The number of columns of W_Q and W_K, 1 or more.
        columns: The number of columns of the condition, for a loop of your own; None: that of the table,
            in ``setup``.
        buckets: The number of hashes, even, 2 or more; None: no hashing.
        own: Whether the anchor's own key is among the attended, as in equation (12).
        o: The factor of the attended mean, above 0: 1, as in equation (13); with the number of negatives,
            the mean stands for their sum, as in Fair-InfoNCE.

    Source:
        Nielsen and Nguyen, An Attention-based Framework for Fair Contrastive Learning (2024).
    """

    value_types = ("continuous", "multi_label")
    hides = True
    temperature = ScalarAttribute(positive, learnable=True)
    rho = ScalarAttribute(positive, default=None)
    o = ScalarAttribute(positive)
    queries: nn.Parameter
    keys: nn.Parameter
    planes: Tensor

    def __init__(
        self,
        temperature: Scalar = 0.1,
        *,
        rho: Scalar | None = None,
        width: int = 32,
        columns: int | None = None,
        buckets: int | None = None,
        own: bool = True,
        o: Scalar = 1.0,
        symmetric: bool = True,
        on: str = "condition",
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(exclude=exclude, gather_distributed=gather_distributed)
        self.temperature = temperature
        self.width = whole("width", width, 1)
        self.rho = math.sqrt(self.width) if rho is None else rho
        self.buckets = None if buckets is None else whole("buckets", buckets, 2)
        if self.buckets is not None and self.buckets % 2:
            raise ValueError(f"buckets must be even, not {buckets!r}")
        self.own = own
        self.o = o
        self.symmetric = symmetric
        self.on = on
        self.register_parameter("queries", None)
        self.register_parameter("keys", None)
        self.register_buffer("planes", None)
        if columns is not None:
            self._create(whole("columns", columns, 1))

    def setup(self, tables: Mapping[str, Table], sizes: Sizes) -> None:
        """Create W_Q, W_K and R for the columns of the table; call it before the optimizer exists."""
        if self.on in tables:
            width = as_vectors(tables[self.on].values).shape[1]
            if self.queries is None:
                self._create(width)
            self._require(width)
        self._require(None)

    def _create(self, columns: int) -> None:
        size = columns, self.width
        self.queries = nn.Parameter(torch.randn(size) / math.sqrt(columns))
        self.keys = nn.Parameter(torch.randn(size) / math.sqrt(columns))
        if self.buckets is not None:
            self.planes = torch.randn(columns, self.buckets // 2)

    def check_condition(self, condition: Mapping[str, Tensor]) -> None:
        """Refuse values of another width than that of the attention."""
        self._require(as_vectors(condition[self.on]).shape[-1])

    def _require(self, width: int | None) -> None:
        made = None if self.queries is None else len(self.queries)
        if made is None or width not in (None, made):
            raise ValueError(
                f"{self.on} has {width or 'unknown'} columns, and the attention {made or 'none yet'}:"
                f" give columns={width or '...'}, or call setup(tables, sizes) with its table"
            )

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """One value per anchor and pair of views."""
        self.refuse_draws(pairs)
        per_view = pairs.samples.condition[self.on].ndim == 3
        attention, some = self.attention(pairs, 0)
        values, weights = [], []
        for i, j in pairs.cross(self.symmetric):
            if per_view:
                attention, some = self.attention(pairs, i)
            sims = pairs.sim(i, j)
            if pairs.queue is not None:
                sims = torch.cat([sims, pairs.sim_queue(i)], 1)
            negative = logsumexp(sims / self.temperature + attention) + log(self.o)
            own = pairs.own_sim(i, j) / self.temperature
            values.append(softplus(negative - own, threshold=50))
            weights.append(some.to(own.dtype))
        return torch.stack(values), torch.stack(weights)

    def attention(self, pairs: Pairs, i: int = 0) -> tuple[Tensor, Tensor]:
        """(n, m + q) log p by the condition in view ``i``, and (n,) True at anchors that attend."""
        z = as_vectors(pairs.everyone(self.on, i)).to(pairs.anchors)
        self._require(z.shape[1])
        keep = pairs.counted(pairs.negative)
        if self.buckets is not None:
            hashes = z @ self.planes.to(z)
            bucket = torch.cat([hashes, -hashes], 1).argmax(1)
            keep = keep & (bucket[pairs.rows, None] == bucket)
        some = keep.any(1)
        if self.own:
            m = pairs.keys.shape[1]
            keep = torch.cat([keep[:, :m] | pairs.own(), keep[:, m:]], 1)
        logits = (z[pairs.rows] @ self.queries) @ (z @ self.keys).T / self.rho
        return masked(masked(logits, keep).log_softmax(1), keep), some
