"""The learning rate finder: a short training with a rising rate, which leaves no files."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ccl_plugins.arguments import positive, whole
from ccl_plugins.experiments.composition import Composition
from ccl_plugins.experiments.origin import naming_component
from ccl_plugins.experiments.train import build_parts, try_out
from ccl_plugins.numerics.generators import seed_everything
from ccl_plugins.protocols import Length
from ccl_plugins.training.first_use import check_columns_of_views
from ccl_plugins.training.step_checks import NotFinite

FEWEST = 20
"""The least number of optimizer steps for a meaningful trial."""


@dataclass(frozen=True)
class LearningRates:
    """The losses of a training whose learning rate rose with every step.

    Args:
        rates: Values of ``fit.optimizer.lr``, rising by equal factors.
        losses: The loss of the step with each rate; the last may be NaN or infinite, where the trial ended.
    """

    rates: list[float]
    losses: list[float]

    @property
    def smoothed(self) -> list[float]:
        """The finite losses, smoothed by a Gaussian as wide as a twentieth of the steps."""
        x = torch.tensor(self.losses, dtype=torch.float64)
        x = x[x.isfinite()]
        steps = torch.arange(len(x), dtype=torch.float64)
        weights = (-0.5 * ((steps[:, None] - steps) / (len(self.losses) / 20)).square()).exp()
        return (weights @ x / weights.sum(1)).tolist()

    @property
    def suggestion(self) -> float | None:
        """The rate at which the smoothed loss falls fastest, over the rate's logarithm, before its minimum.

        None if the loss falls by less than its scatter.
        """
        smooth = torch.tensor(self.smoothed, dtype=torch.float64)
        least = int(smooth.argmin())
        scatter = (torch.tensor(self.losses, dtype=torch.float64)[: len(smooth)] - smooth).std()
        if least < 2 or smooth[0] - smooth[least] <= scatter:
            return None
        return self.rates[int(torch.gradient(smooth)[0][:least].argmin())]

    def plot(self, path: str | Path) -> None:
        """Draw losses and suggestion into a file, whose ending chooses the format."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5.5, 3.6), layout="constrained")
        panel = figure.subplots()
        panel.plot(self.rates, self.losses, color="0.7", label="loss")
        smooth = self.smoothed
        panel.plot(self.rates[: len(smooth)], smooth, label="smoothed")
        if self.suggestion is not None:
            label = f"suggestion: {self.suggestion:.2g}"
            panel.axvline(self.suggestion, color="0.3", ls=":", label=label)
        panel.set(xscale="log", xlabel="fit.optimizer.lr", ylabel="loss")
        panel.legend()
        figure.savefig(path, dpi=150)


def find_learning_rate(
    pipeline: Composition, least: float, most: float, steps: int, *, progress: bool
) -> LearningRates:
    """Train new networks for a few steps, each with a higher learning rate than the one before.

    The rate rises by equal factors in place of the schedule and its warm-up; everything else is
    like the start of a run, on one device. Networks, queues and the objective's state are copies,
    and no folder is left. The arguments are those of `Pipeline.find_lr`.

    Raises:
        ValueError: For values out of range, if the run has fewer steps, and if the loss is already
            not finite at the first rates.
        NotFinite: If the first loss, before any rate was used, is not finite.

    Source:
        Smith, Cyclical Learning Rates for Training Neural Networks (2017), section 3.3, with
        rates that rise by factors.
    """
    if not positive("least", least) < positive("most", most):
        raise ValueError(f"most must be above least, {least:g}, not {most:g}")
    whole("steps", steps, FEWEST)
    rates = [least * (most / least) ** (i / (steps - 1)) for i in range(steps)]
    settings = pipeline.settings

    def rising(step: int, length: Length) -> float:
        return rates[min(step, steps - 1)] / settings.optimizer.lr

    once = replace(
        settings,
        schedule=rising,
        devices=1,
        nodes=1,
        checkpoint_every=settings.epochs,
        checkpoint_every_steps=None,
        log_every=steps,
    )
    seed_everything(settings.seed)
    with naming_component(pipeline), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        losses = _losses(steps)
        built = build_parts(pipeline)
        split = built.dataset("train")
        check_columns_of_views(built.transform, split)
        try:
            finished = try_out(built, split, once, losses, progress=progress).finished
        except NotFinite:  # the rate is too high, which ends the trial
            if not losses.per_step:
                raise
            finished = True
    if not finished:
        raise KeyboardInterrupt
    per_step = losses.per_step
    if sum(map(math.isfinite, per_step)) < FEWEST // 2:
        raise ValueError(
            f"the loss is not finite at step {len(per_step)}, with the learning rate"
            f" {rates[len(per_step) - 1]:.2g}: give a lower least than {least:g}"
        )
    return LearningRates(rates[: len(per_step)], per_step)


def _losses(steps: int) -> Any:
    """A Lightning callback whose ``per_step`` has the loss of each optimizer step; it ends training."""
    from pytorch_lightning import Callback

    class Losses(Callback):
        def __init__(self) -> None:
            self.per_step: list[float] = []
            self.batches: list[torch.Tensor] = []

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            if pl_module.length.steps < steps:
                raise ValueError(
                    f"the run has {pl_module.length.steps} steps, but {steps} learning rates "
                    f"should be tried: give fewer steps, {FEWEST} or more, or more epochs"
                )

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_: Any) -> None:
            # Lightning gives the part that a batch has in the step's loss.
            self.batches.append(outputs["loss"].detach() * trainer.accumulate_grad_batches)
            if trainer.global_step > len(self.per_step):
                self.per_step.append(float(torch.stack(self.batches).mean()))
                self.batches = []
                if len(self.per_step) == steps or not math.isfinite(self.per_step[-1]):
                    trainer.should_stop = True

    return Losses()
