"""Weights & Biases."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ccl_plugins.loggers.services import check_options, check_package, keep, kept

if TYPE_CHECKING:
    from pytorch_lightning.loggers import Logger

SET = ("project", "mode", "version", "save_dir", "dir", "anonymous", "reinit")
"""Parameters that are not options."""


@dataclass(eq=False, repr=False)
class WandB:
    """A run of Weights & Biases, which a resumed run continues.

    Args:
        project: The project; None: the variable ``WANDB_PROJECT``, else ``"ccl-plugins"``.
        mode: ``"offline"`` writes only into the run's folder, for ``wandb sync``; None: the
            variable ``WANDB_MODE``, else online.
        options: Further options of Lightning's ``WandbLogger`` and of ``wandb.init``, such as
            ``entity``, ``group`` and ``tags``.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"mode": "offline"}
    EXPECTED_FAILURES: ClassVar[Mapping[str, str]] = {
        "ends_with_its_run": "the process of wandb writes to its own log when the next run begins"
    }
    files = ("wandb", "wandb.id")

    project: str | None = None
    mode: str | None = None
    options: Mapping[str, Any] | None = None

    def check(self) -> None:
        """Check that wandb is installed and takes the options.

        Raises:
            ValueError: If it is not installed, or does not take an option.
        """
        check_package("wandb")
        if self.options:
            import wandb
            from pytorch_lightning.loggers import WandbLogger

            check_options("wandb", self.options, (WandbLogger, wandb.init), SET)

    def open(self, folder: Path, done: int | None) -> Logger:
        """Open the run of a folder; a run of an earlier training in this process is ended."""
        import wandb
        from pytorch_lightning.loggers import WandbLogger

        class Closing(WandbLogger):
            """Ends its run with the training; an open run would log the values of the next training."""

            def finalize(self, status: str) -> None:
                super().finalize(status)
                if self._experiment is not None:
                    self._experiment.finish()
                    self._experiment = None

        if wandb.run is not None:
            wandb.finish()
        given = {"name": folder.name, **(self.options or {})}
        number = given.pop("id", None) or (kept(folder / "wandb.id") if done is not None else None)
        number = number or uuid.uuid4().hex[:8]
        keep(folder / "wandb.id", number)
        if self.mode is not None:
            given["mode"] = self.mode
        return Closing(
            project=self.project or os.environ.get("WANDB_PROJECT", "ccl-plugins"),
            save_dir=folder,
            id=number,
            resume=given.pop("resume", "allow"),
            settings={"silent": True, "console": "off", **given.pop("settings", {})},
            **given,
        )
