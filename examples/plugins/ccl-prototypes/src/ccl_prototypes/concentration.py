"""How concentrated a prototype's samples are: its own temperature."""

from __future__ import annotations

import torch
from torch import Tensor


def concentration(distances: Tensor, sizes: Tensor, alpha: float, mean: float | Tensor) -> Tensor:
    """φ (k,) of clusters: small where many samples are close to their centroid.

    ``φ = Σ |v - c| / (Z log(Z + α))``, brought to a given mean.  What the equation leaves open is done
    as in the authors' code: a cluster of one sample or none, whose distances say nothing, has the
    largest φ of all, and φ is kept between its 10th and 90th percentile.

    Args:
        distances: (k,) mean distance of a cluster's samples to their centroid.
        sizes: (k,) Z, the number of its samples.
        alpha: α, 0 or more, which keeps small clusters from having a small φ.
        mean: Of the result.

    Source:
        Li et al., Prototypical Contrastive Learning of Unsupervised Representations (2021), eq. (12).
    """
    several = sizes > 1
    # Above 0 throughout: where every cluster is a point, all have the given mean.
    smallest = torch.finfo(distances.dtype).tiny
    count = sizes.clamp_min(2).to(distances.dtype)
    phi = (distances / (count + alpha).log()).masked_fill(~several, 0).clamp_min(smallest)
    phi = torch.where(several, phi, phi.amax())
    low, high = torch.quantile(phi, phi.new_tensor([0.1, 0.9])).unbind()
    phi = phi.clamp(low, high)
    return phi / phi.mean() * mean
