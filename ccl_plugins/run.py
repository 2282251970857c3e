"""A run: a folder with a pipeline's record, its checkpoints and what was measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccl_plugins import checkpoint
from ccl_plugins.display import Table
from ccl_plugins.pipeline import Pipeline
from ccl_plugins.record import check_plugins, write_json

if TYPE_CHECKING:
    from torch import Tensor

    from ccl_plugins.training.parts import Parts

RECORD = "pipeline.json"
METRICS = "metrics.json"


class Run:
    """A finished or interrupted run, rebuilt by name from its folder.

    Args:
        path: The run's folder.

    Raises:
        FileNotFoundError: If it holds no run.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not (self.path / RECORD).is_file():
            raise FileNotFoundError(f"{self.path} holds no run: there is no {RECORD} in it")
        self.record: dict[str, Any] = json.loads((self.path / RECORD).read_text(encoding="utf-8"))

    @cached_property
    def pipeline(self) -> Pipeline:
        """The pipeline, from its record."""
        check_plugins(self.record.get("plugins", {}))
        return Pipeline.from_dict(self.record, where=str(self.path / RECORD))

    @cached_property
    def parts(self) -> Parts:
        """The built parts with the weights of the newest readable checkpoint."""
        import torch

        with torch.random.fork_rng(devices=[]):
            parts = self.pipeline.build()
        for name, state in self._weights().items():
            parts.networks[name].load_state_dict(state)
        parts.method.eval()
        return parts

    def _weights(self) -> dict[str, dict[str, Tensor]]:
        """The networks' weights, of the finished run or of its newest readable checkpoint."""
        from ccl_plugins.training.checkpointing import newest

        if (self.path / checkpoint.WEIGHTS).is_file():
            saved = checkpoint.read(self.path / checkpoint.WEIGHTS)
            return {name: saved[name] for name in ("method", "objective")}
        state = newest(self.path / checkpoint.CHECKPOINTS)[1]["state_dict"]
        return {
            name: {
                k.removeprefix(f"{name}."): v for k, v in state.items() if k.startswith(f"{name}.")
            }
            for name in ("method", "objective")
        }

    def encode(self, images: Any, batch_size: int = 512) -> Tensor:
        """Features of images, un-augmented, in evaluation mode.

        Args:
            images: A batch (n, channels, height, width), or any sequence of images the views take.
            batch_size: Images per forward pass.

        Returns:
            (n, f) on the CPU.
        """
        import torch

        method, views = self.parts.method, self.parts.views
        device = next(method.parameters()).device
        features = []
        with torch.no_grad():
            for first in range(0, len(images), batch_size):
                batch = images[first : first + batch_size]
                if not isinstance(batch, torch.Tensor):
                    batch = torch.stack([views.plain(image) for image in batch])
                else:
                    batch = views.plain(batch)
                features.append(method.encode(batch.to(device)).cpu())
        return torch.cat(features)

    @cached_property
    def metrics(self) -> dict[str, float]:
        """What was measured last; empty before the first evaluation."""
        file = self.path / METRICS
        return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}

    def evaluate(self) -> dict[str, float]:
        """Measure the frozen features of the un-augmented data set.

        The result is returned, and written to ``metrics.json`` and TensorBoard.
        """
        from ccl_plugins.training.features import frozen_features

        dataset, views = self.parts.dataset, self.parts.views
        train, test = (
            frozen_features(self.parts.method, dataset(split), views) for split in ("train", "test")
        )
        metrics: dict[str, float] = {}
        for evaluator in self.pipeline.build_evaluators():
            metrics |= evaluator(train, test)
        write_json(self.path / METRICS, metrics)
        self._log(metrics)
        self.__dict__["metrics"] = metrics
        return metrics

    def _log(self, metrics: Mapping[str, float]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        with SummaryWriter(str(self.path)) as writer:
            for name, value in metrics.items():
                writer.add_scalar(f"evaluation/{name}", value)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"


def side_by_side(runs: Sequence[Run]) -> Table:
    """The metrics of several runs as one table, a column per run."""
    names: dict[str, None] = {}
    for run in runs:
        names |= dict.fromkeys(run.metrics)
    return Table(
        [
            {"metric": name, **{run.path.name: run.metrics.get(name) for run in runs}}
            for name in names
        ]
    )


def load(path: str | Path) -> Run:
    """A run from its folder: `ccl.load("runs/fair").encode(images)`.

    Raises:
        FileNotFoundError: If the folder holds no run.
    """
    return Run(path)
