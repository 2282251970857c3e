"""What each of two ranks does after a training, as a script that both run."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from support.training_ranks import as_rank
from support.vector_pipeline import make_pipeline
from torch import distributed

from ccl_plugins.files.lock import owning
from ccl_plugins.training.ranks import rank


def measure_together(folder: str) -> Any:
    """What evaluate and validate give on this rank, and what the first one wrote.

    The second measures while the first owns the folder.
    """

    def run() -> Any:
        trained = make_pipeline(devices=2).fit(out=folder, logger=False, progress=False)
        found = {}
        for name in ("evaluate", "validate"):
            distributed.barrier()
            with owning(trained.path) if rank() == 0 else nullcontext():
                distributed.barrier()
                if rank() == 1:
                    found[name] = getattr(trained, name)()
                distributed.barrier()
            if rank() == 0:
                found[name] = getattr(trained, name)()
        distributed.barrier()
        return found, trained.metrics, trained.validation

    return as_rank(run)
