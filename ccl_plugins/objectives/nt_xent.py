"""NT-Xent: SimCLR's loss."""

from __future__ import annotations

from dataclasses import dataclass, field

from ccl_plugins.objectives.infonce import InfoNCE


@dataclass(eq=False, repr=False, kw_only=True)
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

    within_view: bool = field(default=True, init=False)
    symmetric: bool = field(default=True, init=False)
