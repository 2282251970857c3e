"""Which of a run's processes this is."""

from __future__ import annotations

import os
import sys

NUMBERS = ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID")
"""The variables in which launchers number processes and machines."""


def is_first() -> bool:
    """Whether this is the first of the processes of a run, or the only one: the one that writes and prints.

    Their group says so while they are connected; before, the variables of the launcher.
    """
    distributed = sys.modules.get("torch.distributed")  # which this does not import
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        first: bool = distributed.get_rank() == 0
        return first
    return all(os.environ.get(name, "0") in ("", "0") for name in NUMBERS)
