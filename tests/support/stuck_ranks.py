"""Programs that never end by themselves, for the tests of Ctrl-C: ``python -m support.stuck_ranks``."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

WAITING = "waiting"


class Forked(subprocess.Popen[bytes]):
    """A process that waits until it is started: it has the libraries, which take seconds to import.

    Args:
        begin: What it does when it is started, with the environment that it is given.
    """

    def __init__(self, begin: Callable[[], None]) -> None:
        read, self._told = os.pipe()
        self._number = os.fork()
        if self._number:
            os.close(read)
            return
        os.close(self._told)
        with open(read) as told:
            env = told.read()
        os.environ.clear()
        os.environ.update(json.loads(env))
        begin()
        os._exit(0)

    def start(self, command: list[str], env: Mapping[str, str], cwd: None) -> Forked:
        """Start it, with the arguments of ``subprocess.Popen``; its command is that of this process."""
        super().__init__(command)
        with open(self._told, "w") as told:
            json.dump(dict(env), told)
        return self

    def _execute_child(self, *_: Any) -> None:
        self.pid = self._number
        self._child_created = True


def train_with_a_stuck_rank(folder: str) -> None:
    """Train on two processes that Lightning starts.

    The second one stops in its third batch, in what catches Ctrl-C, and leaves its number; the first waits
    for its gradient.
    """
    from pytorch_lightning import Callback
    from pytorch_lightning.strategies.launchers import subprocess_script
    from support.training_fakes import fit, make_parts
    from support.training_ranks import make_method

    from ccl_plugins.objectives import InfoNCE
    from ccl_plugins.training.ranks import rank
    from ccl_plugins.training.settings import FitSettings

    class SecondSleeps(Callback):
        def on_train_batch_start(
            self, trainer: Any, module: Any, batch: Any, batch_idx: int
        ) -> None:
            if rank() == 1 and trainer.global_step == 2:
                Path(folder, "second").write_text(str(os.getpid()))
                print(WAITING, flush=True)
                while True:
                    with contextlib.suppress(KeyboardInterrupt):
                        time.sleep(300)

    def train() -> None:
        parts = make_parts(method=make_method("simclr"), objective=InfoNCE())
        settings = FitSettings(9, batch_size=4, workers=1, devices=2, checkpoint_every_steps=1)
        fit(parts, settings, Path(folder), {}, callbacks=[SecondSleeps()], progress=False)

    # Before there are threads, which a fork lacks.
    subprocess_script.subprocess = SimpleNamespace(Popen=Forked(train).start)
    train()


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2])
