"""What each rank does in a test on two processes, which import it by name."""

import torch
from ccl_plugins.pairs import Samples, in_batch
from lightly.utils import dist
from torch.nn.functional import normalize

from ccl_more import ISogCLR


def after_two_steps(views):
    """The temperatures and averages of all samples after two steps, with a part of the batch each."""
    objective = ISogCLR(size=12).double()
    world, n = dist.world_size(), views.shape[2]
    part = slice(dist.rank() * n // world, (dist.rank() + 1) * n // world)
    for step in views:
        pairs = in_batch(
            normalize(step[:, part], dim=-1),
            Samples(index=torch.arange(n)[part] + 2),
            gather_distributed=world > 1,
        )
        objective.loss(pairs)
        objective.after_step()
    return objective.temperatures, objective.averages.logs
