"""The results of ``Pairs.replicated`` and of a call on embeddings, on each of two ranks."""

from __future__ import annotations

from torch import distributed

from ccl_plugins.pairs import Pairs, Samples, in_batch


def replicated_parts(parts):
    """Call ``replicated`` on a rank that has half of each tensor's rows."""
    rank, n = distributed.get_rank(), parts["anchors"].shape[1] // distributed.get_world_size()
    mine = slice(rank * n, (rank + 1) * n)
    if set(parts) == {"anchors"}:
        pairs = in_batch(parts["anchors"][:, mine], gather_distributed=True).replicated()
    else:
        here = {
            name: part[:, mine] if part.ndim == 3 else part[mine] for name, part in parts.items()
        }
        here["keys"] = parts["keys"]
        samples = Samples(features=here.pop("features"))
        numbers = {"anchor_views": (0, 1), "key_views": (0, 1), "offset": rank * n}
        pairs = Pairs(**numbers, processes=2, samples=samples, **here).replicated()
    found = {name: getattr(pairs.samples if name == "features" else pairs, name) for name in parts}
    return {**found, "keys_are_anchors": pairs.keys is pairs.anchors}


def mean_of_calls(build, views):
    """The mean over the ranks of the loss of each rank's rows of ``views`` (u, n, d)."""
    rank, n = distributed.get_rank(), views.shape[1] // distributed.get_world_size()
    loss = build()(*views[:, rank * n : (rank + 1) * n]).detach().clone()
    distributed.all_reduce(loss)
    return loss / distributed.get_world_size()
