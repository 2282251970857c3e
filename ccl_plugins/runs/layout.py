"""The layout of a run's folder: where each file of a run lies."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Layout:
    """The files of a run.  TensorBoard events lie in the folder itself.

    Args:
        folder: The run's folder, which need not exist.
    """

    folder: Path

    @property
    def record(self) -> Path:
        """What was trained: the pipeline's record and the plug-ins that gave callbacks."""
        return self.folder / "pipeline.json"

    @property
    def metrics(self) -> Path:
        """What was measured last."""
        return self.folder / "metrics.json"

    @property
    def before(self) -> Path:
        """What was measured before training, where the backbone began with trained weights."""
        return self.folder / "before.json"

    @property
    def weights(self) -> Path:
        """The weights of a finished run."""
        return self.folder / "weights.pt"

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.folder / "checkpoints"

    @property
    def figures(self) -> Path:
        """The folder of pictures."""
        return self.folder / "figures"

    @property
    def exported(self) -> Path:
        """The folder that an export goes to by default."""
        return self.folder / "timm"

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
