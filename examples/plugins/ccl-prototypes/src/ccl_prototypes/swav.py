"""SwAV: predict from one view of an image to which prototypes another view is assigned."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from ccl_plugins.arguments import positive, whole
from ccl_plugins.numerics import sinkhorn
from ccl_plugins.objectives import ContrastiveObjective, Scalar, ScalarAttribute
from ccl_plugins.pairs import Pairs
from ccl_plugins.protocols import Sizes, Table
from torch import Tensor, nn
from torch.nn.functional import log_softmax, normalize


class SwAV(ContrastiveObjective):
    """Swapped prediction of assignments to learned prototypes (SwAV).

    ``-Σ_c q_c log p_c`` of an anchor, with ``p = softmax(v·c / τ)`` over the k prototypes c, and q the
    code of the same sample in another view: Sinkhorn-Knopp assigns the batch, of all processes, and the
    queue to the prototypes, towards equal parts.  Codes have no gradient.  Positives and negatives: none;
    samples meet in these parts alone.  Its value on two views is that of lightly's ``SwaVLoss``.

    The prototypes are a parameter of this objective, on the unit sphere, without weight decay.  They
    exist from construction if ``dim`` is given, as your own loop needs it, otherwise from ``setup``.  In
    your own loop call ``after_step()`` after each optimizer step, which puts them back on the sphere;
    and ``progress(step, total)`` before it, with ``frozen`` or ``queue_after``.

    Args:
        k: Number of prototypes, 2 or more.
        temperature: τ, above 0.
        epsilon: ε of Sinkhorn-Knopp, above 0; the smaller, the nearer codes are to one prototype each.
        iterations: Of Sinkhorn-Knopp, 1 or more.
        code_views: The number of views, the first ones, that have codes, 1 or more; the others only
            predict, as the paper's small crops.
        frozen: Optimizer steps from the start in which prototypes have no gradient; the paper's is an
            epoch.
        queue_after: Optimizer steps from the start in which codes do not read the queue.
        dim: Width of the embeddings; None: that of the run.

    Raises:
        TypeError: For a number that is not whole.
        ValueError: For a number out of range, embeddings of another width than the prototypes, masks or
            draws of a user, views without codes, and use before the prototypes exist.

    Defaults:
        k: Paper: 3000. Code: 3000.
        temperature: Paper: 0.1. Code: 0.1.
        epsilon: Paper: 0.05. Code: 0.05.
        iterations: Paper: 3. Code: 3.

    Source:
        Caron et al., Unsupervised Learning of Visual Features by Contrasting Cluster Assignments (2020),
        eqs. (1) to (5).  From the authors' code are the normalized prototypes and the steps in which they
        are frozen.  Theirs decays the prototypes, reads a queue only once it is full, and has a queue for
        each of the views with codes.
    """

    stops_gradient = True
    temperature = ScalarAttribute(positive, learnable=True)
    epsilon = ScalarAttribute(positive)
    prototypes: nn.Parameter
    is_frozen: Tensor

    def __init__(
        self,
        k: int = 3000,
        temperature: Scalar = 0.1,
        epsilon: Scalar = 0.05,
        *,
        iterations: int = 3,
        code_views: int = 2,
        frozen: int = 0,
        queue_after: int = 0,
        dim: int | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(gather_distributed=gather_distributed)
        self.k = whole("k", k, 2)
        self.temperature = temperature
        self.epsilon = epsilon
        self.iterations = whole("iterations", iterations, 1)
        self.code_views = whole("code_views", code_views, 1)
        self.frozen = whole("frozen", frozen, 0)
        self.queue_after = whole("queue_after", queue_after, 0)
        self.register_buffer("is_frozen", torch.tensor(frozen > 0))
        self.register_parameter("prototypes", None)
        if dim is not None:
            self._create(whole("dim", dim, 1))

    def setup(self, tables: Mapping[str, Table], sizes: Sizes) -> None:
        """Draw the prototypes, unless ``dim`` was given."""
        if self.prototypes is None:
            self._create(sizes.embedding)

    def _create(self, dim: int) -> None:
        self.prototypes = nn.Parameter(normalize(torch.randn(self.k, dim), dim=1))

    def progress(self, step: int, total: int) -> None:
        """Set the scheduled numbers, and whether prototypes are learned and the queue is read."""
        super().progress(step, total)
        self.is_frozen.fill_(step < self.frozen)
        self.reads_queue = step >= self.queue_after  # compiled code is compiled anew, once

    @torch.no_grad()
    def after_step(self) -> None:
        """Put the prototypes back on the sphere."""
        self.prototypes.copy_(normalize(self.prototypes, dim=1))

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """The cross-entropy of prediction and code, per anchor view and view with a code."""
        prototypes = self._prototypes(pairs)
        coded = [(i, j) for i, j in pairs.cross() if pairs.key_views[j] < self.code_views]
        if not coded:
            raise ValueError(f"no other view has a code with code_views={self.code_views}")
        codes = {j: self._codes(pairs, j, prototypes.detach()) for j in {j for _, j in coded}}
        predicted = log_softmax(pairs.anchors @ prototypes.T / self.temperature, dim=2)
        values = torch.stack([-(codes[j] * predicted[i]).sum(1) for i, j in coded])
        return values, torch.ones_like(values)

    def _codes(self, pairs: Pairs, j: int, prototypes: Tensor) -> Tensor:
        """(n, k) the codes of the anchors' own keys of view ``j``."""
        keys, valid = pairs.keys[j], pairs.valid()
        if pairs.queue is not None and self.reads_queue:
            keys = torch.cat([keys, pairs.queue.keys])
        elif valid is not None:
            valid = valid[: len(keys)]
        found = sinkhorn(keys.detach() @ prototypes.T, self.epsilon, self.iterations, valid)
        return found[pairs.rows]

    def _prototypes(self, pairs: Pairs) -> Tensor:
        given = (pairs.positive, pairs.negative, pairs.draws)
        if any(each is not None for each in given):
            raise ValueError(
                "SwAV compares with prototypes, not with samples: it takes no masks or draws"
            )
        if self.prototypes is None:
            raise ValueError(
                "SwAV has no prototypes yet: give dim=..., or call setup(tables, sizes)"
            )
        if self.prototypes.shape[1] != pairs.anchors.shape[2]:
            raise ValueError(
                f"the prototypes have {self.prototypes.shape[1]} columns and embeddings"
                f" {pairs.anchors.shape[2]}: dim must be the embeddings' width"
            )
        # A gradient of zero, and not none, so that every process has one.
        learned = torch.where(self.is_frozen, self.prototypes.detach(), self.prototypes)
        return learned.to(pairs.anchors.dtype)
