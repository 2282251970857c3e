"""Programs that never end by themselves, for the tests of Ctrl-C: ``python -m support.stuck_ranks``."""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from ccl_plugins.training.interrupt import Interrupt

WAITING = "waiting"


def wait_in_a_collective(folder: str) -> None:
    """The first of two gloo ranks, the second of which never comes to the collective."""
    import torch
    from torch import distributed

    store = distributed.FileStore(f"{folder}/store", 2)
    which = int((Path(folder) / "second").exists())
    (Path(folder) / "second").touch()
    distributed.init_process_group(
        "gloo", store=store, rank=which, world_size=2, timeout=timedelta(seconds=300)
    )
    if which:
        time.sleep(300)
    with Interrupt():
        print(WAITING, flush=True)
        distributed.all_reduce(torch.zeros(1))


def train_with_a_stuck_rank(folder: str) -> None:
    """Train on two processes that Lightning starts.

    The second one stops in its third batch, and leaves its number; the first waits for its gradient.
    """
    from pytorch_lightning import Callback
    from support.training_fakes import fit, make_parts
    from support.training_ranks import make_method

    from ccl_plugins.objectives import InfoNCE
    from ccl_plugins.training import FitSettings
    from ccl_plugins.training.ranks import rank

    class SecondSleeps(Callback):
        def on_train_batch_start(
            self, trainer: Any, module: Any, batch: Any, batch_idx: int
        ) -> None:
            if rank() == 1 and trainer.global_step == 2:
                Path(folder, "second").write_text(str(os.getpid()))
                print(WAITING, flush=True)
                while True:
                    time.sleep(300)

    parts = make_parts(method=make_method("simclr"), objective=InfoNCE())
    settings = FitSettings(epochs=9, batch_size=4, workers=2, devices=2, checkpoint_every_steps=1)
    fit(parts, settings, Path(folder), {}, callbacks=[SecondSleeps()], progress=False)


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2])
