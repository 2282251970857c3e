"""A run: a folder with a pipeline's record, its checkpoints and what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccl_plugins.arguments import whole
from ccl_plugins.cli.tables import Table
from ccl_plugins.files.checkpoints import CHECKPOINTS, WEIGHTS, read_checkpoint
from ccl_plugins.pipeline.composition import Pipeline
from ccl_plugins.pipeline.record import check_plugins, read_json, write_json

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ccl_plugins.training.parts import Parts

RECORD = "pipeline.json"
METRICS = "metrics.json"
BEFORE = "before.json"
"""What was measured before training, where the backbone began with weights of its own."""


class Run:
    """A finished or interrupted run, rebuilt by name from its folder.

    Args:
        path: The run's folder.
        pipeline: What it was trained by, where that is at hand; None: rebuilt from the record, which holds
            no objects of a session.

    Raises:
        FileNotFoundError: If it holds no run.
        InvalidConfig: If its record cannot be read.
    """

    def __init__(self, path: str | Path, pipeline: Pipeline | None = None) -> None:
        self.path = Path(path)
        if not (self.path / RECORD).is_file():
            raise FileNotFoundError(f"{self.path} holds no run: there is no {RECORD} in it")
        self.record: dict[str, Any] = read_json(self.path / RECORD)
        if pipeline is not None:
            self.__dict__["pipeline"] = pipeline

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
        from ccl_plugins.training.checkpointing import by_step, file_of, newest

        file, folder = self.path / WEIGHTS, self.path / CHECKPOINTS
        latest = next(iter(by_step(folder)), None)
        if file.is_file():
            saved = read_checkpoint(file)
            # A finished run that is resumed for more epochs has checkpoints of later steps.
            if latest is None or latest.name <= file_of(folder, saved["step"]).name:
                return {name: saved[name] for name in ("method", "objective")}
        elif latest is None:
            raise FileNotFoundError(
                f"{self.path} holds no weights: training stopped before its first checkpoint, or the"
                " folder was deleted"
            )
        state = newest(folder)[1]["state_dict"]
        return {
            name: {
                k.removeprefix(f"{name}."): v for k, v in state.items() if k.startswith(f"{name}.")
            }
            for name in ("method", "objective")
        }

    def encode(
        self, images: Any, batch_size: int = 512, device: str | torch.device | None = None
    ) -> Tensor:
        """Features of images, un-augmented, in evaluation mode.

        Args:
            images: A batch (n, channels, height, width), or any sequence of images the views take.
            batch_size: Images per forward pass.
            device: Where the network runs, as ``"cpu"``; None: on a GPU if there is one.

        Returns:
            (n, f) on the CPU.

        Raises:
            FileNotFoundError: If the run has no weights yet.
            ValueError: If there are no images, or they are not of the kind the views take.
        """
        import torch

        whole("batch_size", batch_size, 1)
        if not len(images):
            raise ValueError("there are no images to encode")
        method, views = self._method_on(device), self.parts.views
        features = []
        with torch.no_grad():
            for first in range(0, len(images), batch_size):
                batch = images[first : first + batch_size]
                if not isinstance(batch, torch.Tensor):
                    batch = torch.stack([views.plain(image) for image in batch])
                else:
                    batch = views.plain(batch)
                features.append(method.encode(batch.to(next(method.parameters()).device)).cpu())
        return torch.cat(features)

    def _method_on(self, device: str | torch.device | None) -> Any:
        from ccl_plugins.networks.devices import accelerator

        return self.parts.method.to(accelerator() if device is None else device)

    @cached_property
    def metrics(self) -> dict[str, float]:
        """What was measured last; empty before the first evaluation."""
        return _read_metrics(self.path / METRICS)

    @cached_property
    def before(self) -> dict[str, float]:
        """The same before training, of a backbone that began with weights; else empty."""
        return _read_metrics(self.path / BEFORE)

    def evaluate(self, device: str | torch.device | None = None) -> dict[str, float]:
        """Measure the frozen features of the un-augmented data set.

        The result is returned, and written to ``metrics.json`` and TensorBoard.

        Args:
            device: Where the network runs, as ``"cpu"``; None: on a GPU if there is one.
        """
        self._method_on(device)
        metrics = measure(self.parts, self.pipeline)
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


def measure(parts: Parts, pipeline: Pipeline) -> dict[str, float]:
    """What a pipeline's evaluators say of the frozen features of its built parts."""
    from ccl_plugins.training.features import frozen_features
    from ccl_plugins.training.loader import default_workers

    workers = pipeline.settings.workers
    if workers is None:
        workers = default_workers(1, next(parts.method.parameters()).device.type != "cpu")
    train, test = (
        frozen_features(parts.method, parts.dataset(split), parts.views, workers=workers)
        for split in ("train", "test")
    )
    metrics: dict[str, float] = {}
    for evaluator in pipeline.build_evaluators():
        metrics |= evaluator(train, test)
    return metrics


def _read_metrics(file: Path) -> dict[str, float]:
    return read_json(file) if file.is_file() else {}


def side_by_side(runs: Sequence[Run]) -> Table:
    """The metrics of several runs as one table, a column per run; two where it began with weights."""
    columns: dict[str, Mapping[str, float]] = {}
    for run in runs:
        if run.before:
            columns[f"{run.path.name}, before"] = run.before
        columns[run.path.name] = run.metrics
    names = dict.fromkeys(name for metrics in columns.values() for name in metrics)
    return Table(
        [
            {"metric": name, **{title: metrics.get(name) for title, metrics in columns.items()}}
            for name in names
        ]
    )


def load(path: str | Path) -> Run:
    """A run from its folder: `ccl.load("runs/fair").encode(images)`.

    Raises:
        FileNotFoundError: If the folder holds no run.
    """
    return Run(path)
