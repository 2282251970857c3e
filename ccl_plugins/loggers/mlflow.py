"""MLflow."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccl_plugins.loggers.services import check_options, check_package, keep, kept
from ccl_plugins.numerics.generators import undisturbed

if TYPE_CHECKING:
    from pytorch_lightning.loggers import Logger

SET = ("experiment_name", "tracking_uri", "save_dir")
"""Parameters that are not options."""


@dataclass(eq=False, repr=False)
class MLflow:
    """A run of MLflow, which a resumed run continues.

    Args:
        experiment_name: The experiment; None: ``"ccl-plugins"``.
        tracking_uri: Where MLflow keeps the run; None: the variable ``MLFLOW_TRACKING_URI``, else
            the run's folder.
        options: Further options of Lightning's ``MLFlowLogger``, such as ``run_name`` and ``tags``.
    """

    files = ("mlflow", "mlflow.id")

    experiment_name: str | None = None
    tracking_uri: str | None = None
    options: Mapping[str, Any] | None = None

    def check(self) -> None:
        """Check that MLflow is installed and takes the options.

        Raises:
            ValueError: If it is not installed, or does not take an option.
        """
        check_package("mlflow")
        if self.options:
            from pytorch_lightning.loggers import MLFlowLogger

            check_options("mlflow", self.options, (MLFlowLogger,), SET)

    def open(self, folder: Path, done: int | None) -> Logger:
        """Open the run of a folder."""
        variable = os.environ.get("MLFLOW_TRACKING_URI")
        uri = self.tracking_uri or variable or (folder / "mlflow").absolute().as_uri()
        if uri.startswith("file:") or "://" not in uri:
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        from pytorch_lightning.loggers import MLFlowLogger

        number = kept(folder / "mlflow.id") if done is not None else None
        given = {"run_name": folder.name, "run_id": number, **(self.options or {})}
        # MLflow may draw the number of a new experiment from Python's generator.
        with undisturbed():
            logger = MLFlowLogger(
                experiment_name=self.experiment_name or "ccl-plugins", tracking_uri=uri, **given
            )
            if logger.run_id is not None:
                keep(folder / "mlflow.id", logger.run_id)
        logger.continues_run = number is not None  # type: ignore[attr-defined]
        if variable is None:  # MLflow has set it, and the next run would log into this one's folder
            os.environ.pop("MLFLOW_TRACKING_URI", None)
        return logger
