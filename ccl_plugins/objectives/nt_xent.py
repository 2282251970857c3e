"""NT-Xent: SimCLR's loss."""

from __future__ import annotations

from ccl_plugins.objectives.base import Exclude
from ccl_plugins.objectives.infonce import InfoNCE
from ccl_plugins.objectives.scalars import Scalar


class NTXent(InfoNCE):
    r"""NT-Xent, SimCLR's loss: InfoNCE with negatives of both views.

    ``-log( e_ii / Σ_j e_ij )``.  Positive: the own sample's other view.  Negatives: the other samples'
    keys of both views, and the queue; all of equal weight.

    Equation:
        \ell_i = -\log \frac{e^{s_{ii}}}{e^{s_{ii}} + \sum_{j \in \mathcal{N}_i} e^{s_{ij}}}
        \mathcal{N}_i = \{ \text{the keys of both views of the samples } j \neq i \}

    Defaults:
        temperature: Paper: 0.1 on ImageNet; 0.5 on CIFAR-10.

    Source:
        Chen et al., A Simple Framework for Contrastive Learning of Visual Representations (2020),
        eq. (1).
    """

    def __init__(
        self,
        temperature: Scalar = 0.1,
        *,
        exclude: Exclude | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(
            temperature, within_view=True, exclude=exclude, gather_distributed=gather_distributed
        )
