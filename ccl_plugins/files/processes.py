"""The rank of this process in its run."""

from __future__ import annotations

import os
import sys

NUMBERS = ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID")
"""The variables in which launchers number processes and machines."""


def is_first() -> bool:
    """Whether this is the first or only process of a run: the one that writes and prints.

    The process group decides while processes are connected; before, the launcher's variables.
    """
    distributed = sys.modules.get("torch.distributed")  # which this does not import
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        first: bool = distributed.get_rank() == 0
        return first
    return all(os.environ.get(name, "0") in ("", "0") for name in NUMBERS)
