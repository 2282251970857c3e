"""The layout of a run's folder: where each file of a run lies."""

from __future__ import annotations

import shutil
from pathlib import Path


class Layout:
    """The files of a run; TensorBoard events lie in the folder itself.

    Args:
        folder: The run's folder, which need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.record = folder / "pipeline.json"
        """What was trained: the pipeline's record and the plug-ins that gave callbacks."""
        self.metrics = folder / "metrics.json"
        """What was measured last."""
        self.before = folder / "before.json"
        """What was measured before training."""
        self.weights = folder / "weights.pt"
        """The weights of a finished run."""
        self.checkpoints = folder / "checkpoints"
        self.figures = folder / "figures"
        self.exported = folder / "timm"
        """The folder that an export goes to by default."""

    def delete(self) -> None:
        """Delete all files of the run, and nothing else in the folder."""
        for file in (self.record, self.before, self.metrics, self.weights):
            file.unlink(missing_ok=True)
        self.delete_events()
        for folder in (self.checkpoints, self.figures, self.exported):
            if folder.is_dir():
                shutil.rmtree(folder)

    def delete_events(self) -> None:
        """Delete the TensorBoard events."""
        for events in self.folder.glob("events.out.tfevents.*"):
            events.unlink()
