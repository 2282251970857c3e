"""A run: a folder with a pipeline's record, its checkpoints and what was measured."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccl_plugins.checkpoint import check_versions, differences, write_json
from ccl_plugins.pipeline import Pipeline

if TYPE_CHECKING:
    from torch import Tensor

    from ccl_plugins.training.parts import Parts

RECORD = "pipeline.json"
METRICS = "metrics.json"


class RunExists(FileExistsError):
    """A folder already holds a run, and nobody said what is to become of it."""


class RunInterrupted(RuntimeError):
    """Training was stopped before its end, and can be resumed."""


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
        check_versions(self.record.get("plugins", {}))
        return Pipeline.from_dict(self.record, where=str(self.path / RECORD))

    @cached_property
    def parts(self) -> Parts:
        """The built parts with the weights of the newest readable checkpoint."""
        import torch

        from ccl_plugins.training.checkpointing import load_weights

        with torch.random.fork_rng(devices=[]):
            parts = self.pipeline.build()
        load_weights(self.path / "checkpoints", parts.networks)
        parts.method.eval()
        return parts

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


def train(
    pipeline: Pipeline,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    callbacks: Iterable[Any] = (),
    progress: bool = True,
) -> Run:
    """Train a pipeline into a folder; see `Pipeline.fit`.

    Raises:
        RunExists: If the folder holds a run, and neither ``resume`` nor ``overwrite`` is given.
        RunInterrupted: If training was stopped before its end.
    """
    from ccl_plugins.kinds import registry
    from ccl_plugins.training import FitSettings, fit
    from ccl_plugins.training.randomness import seed_all

    settings = FitSettings(**pipeline.fit_settings)
    record = pipeline.to_dict()
    _prepare(out, record, resume=resume, overwrite=overwrite)
    seed_all(settings.seed)
    parts = pipeline.build()
    hooked: list[Any] = []
    for _, offered in registry().call("ccl_callbacks", pipeline=pipeline):
        hooked += offered
    result = fit(
        parts,
        settings,
        out,
        record,
        resume=resume,
        callbacks=[*callbacks, *hooked],
        progress=progress,
    )
    if not result.finished:
        raise RunInterrupted(
            f"stopped at step {result.step}; {out} can be resumed (--resume, or resume=True)"
        )
    return Run(out)


def _prepare(out: Path, record: Mapping[str, Any], *, resume: bool, overwrite: bool) -> None:
    """The run's folder with its record, or an error before any work is done or lost."""
    if resume and overwrite:
        raise ValueError("resume continues a run and overwrite deletes it: give one of them")
    existing = out / RECORD
    if existing.exists() or (out / "checkpoints").exists():
        if not resume and not overwrite:
            raise RunExists(
                f"{out} already holds a run: --resume (resume=True) continues it, --overwrite"
                " (overwrite=True) deletes it, another output folder leaves it alone"
            )
        if overwrite:
            _delete_run(out)
        elif existing.exists():
            saved = json.loads(existing.read_text(encoding="utf-8"))
            if changed := differences(saved, record):
                raise ValueError(
                    f"{out} holds a run of another pipeline, which cannot be resumed by this one:"
                    f" {'; '.join(changed)}"
                )
    elif out.exists() and not out.is_dir():
        raise RunExists(f"{out} is a file; a run needs a folder")
    out.mkdir(parents=True, exist_ok=True)
    write_json(existing, record)


def _delete_run(out: Path) -> None:
    """What a run wrote, and nothing else that may lie in the folder."""
    for name in (RECORD, METRICS):
        (out / name).unlink(missing_ok=True)
    for events in out.glob("events.out.tfevents.*"):
        events.unlink()
    for folder in ("checkpoints", "figures"):
        if (out / folder).is_dir():
            shutil.rmtree(out / folder)


def side_by_side(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The metrics of several runs as rows of one table, a column per run."""
    names: dict[str, None] = {}
    for run in runs:
        names |= dict.fromkeys(run.metrics)
    return [
        {"metric": name, **{run.path.name: _shown(run.metrics.get(name)) for run in runs}}
        for name in names
    ]


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
