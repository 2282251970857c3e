"""The concentration of a cluster, which is the temperature of its prototype."""

from __future__ import annotations

import torch
from torch import Tensor


def concentration(distances: Tensor, sizes: Tensor, alpha: float, mean: float | Tensor) -> Tensor:
    """φ (k,) of clusters: small if many samples are close to their centroid.

    ``φ = Σ |v - c| / (Z log(Z + α))``, scaled to a given mean.  As in the authors' code, and not in the
    paper: clusters of one sample or none have the largest φ of the others, and φ is clamped between its
    10th and 90th percentile.

    Args:
        distances: (k,) mean distance of a cluster's samples to their centroid.
        sizes: (k,) Z, the number of a cluster's samples.
        alpha: α, 0 or more; keeps φ of small clusters from being small.
        mean: The mean of the result.

    Source:
        Li et al., Prototypical Contrastive Learning of Unsupervised Representations (2021), eq. (12).
    """
    several = sizes > 1
    # Above 0, so that φ is the given mean if every cluster is a single point.
    smallest = torch.finfo(distances.dtype).tiny
    count = sizes.clamp_min(2).to(distances.dtype)
    phi = (distances / (count + alpha).log()).masked_fill(~several, 0).clamp_min(smallest)
    phi = torch.where(several, phi, phi.amax())
    # One at a time: a tensor of both would be copied to the device in every step.
    phi = phi.clamp(torch.quantile(phi, 0.1), torch.quantile(phi, 0.9))
    return phi / phi.mean() * mean
