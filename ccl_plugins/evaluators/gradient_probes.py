"""Accuracy of linear probes that are trained by gradient descent, as in papers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from ccl_plugins.arguments import (
    below_one,
    checked,
    non_negative,
    one_of,
    positive,
    whole,
)
from ccl_plugins.evaluators.columns import (
    OfColumn,
    of_known_classes,
    top1,
    two_classes,
    with_classes,
)
from ccl_plugins.protocols import Frozen, Measurement

RateSchedule = Literal["constant", "step", "cosine"]
"""The schedule of the learning rate: constant, times ``drop`` after 60 % and again after 80 % of
all steps, or half a cosine to 0."""


@dataclass(eq=False, repr=False)
class Plan:
    """The training of a classifier; the arguments are those of `LinearSGD`."""

    lr: float = checked(positive)
    epochs: int = checked(whole, least=1)
    batch_size: int = checked(whole, least=1)
    schedule: RateSchedule = checked(one_of, choices=get_args(RateSchedule))
    drop: float = checked(positive)
    seed: int = checked(whole, least=0)

    def factor(self, done: float) -> float:
        """The factor of the learning rate after a part ``done`` of all steps, 0 to 1."""
        if self.schedule == "cosine":
            return (1 + math.cos(math.pi * done)) / 2
        if self.schedule == "step":
            return self.drop ** ((done >= 0.6) + (done >= 0.8))
        return 1.0

    def generator(self) -> torch.Generator:
        """A generator that begins with the seed."""
        return torch.Generator().manual_seed(self.seed)

    def train(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        read: Callable[[list[Tensor]], Iterator[Tensor]],
        index: Tensor,
        generator: torch.Generator,
    ) -> None:
        """Minimize a classifier's cross-entropy.

        Args:
            model: From inputs to logits (n, c).
            optimizer: The optimizer of its parameters.
            read: From a list of rows (k,) to their inputs, one after another.
            index: (N,) the class of each row, 0 to c - 1, on the device of the logits.
            generator: Draws the order of the rows.

        Raises:
            ValueError: If a loss or a weight becomes infinite or NaN.
        """
        with torch.enable_grad():
            for epoch in range(self.epochs):
                pieces = _pieces(torch.randperm(len(index), generator=generator), self.batch_size)
                for i, (rows, x) in enumerate(zip(pieces, read(pieces), strict=True)):
                    done = (epoch * len(pieces) + i) / (self.epochs * len(pieces))
                    for group in optimizer.param_groups:
                        group["lr"] = self.lr * self.factor(done)
                    optimizer.zero_grad()
                    logits = model(x.to(index.device))
                    functional.cross_entropy(logits, index[rows.to(index.device)]).backward()
                    optimizer.step()
        if not all(p.isfinite().all() for p in model.parameters()):
            raise ValueError(
                f"the classifier diverged with lr={self.lr:g}: a smaller learning rate trains it"
            )


def _pieces(order: Tensor, size: int) -> list[Tensor]:
    """Parts of a size; a single row at the end joins the part before it, because batch norms need two."""
    pieces = list(order.split(size))
    if len(pieces) > 1 and len(pieces[-1]) == 1:
        last = pieces.pop()
        pieces[-1] = torch.cat([pieces[-1], last])
    return pieces


class _Probe(OfColumn):
    """A linear classifier that an optimizer trains on frozen features.

    Args of subclasses:
        lr: Learning rate, above 0.
        epochs: Passes over the training samples, 1 or more.
        batch_size: Samples of a step, 1 or more; an epoch's last step has the rest.
        schedule: ``"constant"``, ``"step"`` or ``"cosine"``.
        drop: Factor of the learning rate in each step of the schedule ``"step"``, above 0.
        seed: Seed of the first weights and of the batches.

    Raises:
        ValueError: If a parameter is out of its range; on use, if a column is missing or not categorical,
            there is one class only, a feature is not finite, or training diverges.
    """

    def __init__(self, plan: Plan, weight_decay: float, column: str) -> None:
        self.plan = plan
        self.weight_decay = non_negative("weight_decay", weight_decay)
        self.column = column

    @of_known_classes("column")
    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """``linear_sgd/top1`` or ``linear_adam/top1``."""
        x, ids = with_classes(train, self.column)
        classes, index = two_classes(ids)
        x = x.float()
        generator = self.plan.generator()
        model = head(x.shape[1], len(classes), generator)
        optimizer = self._optimizer(model)
        self.plan.train(model, optimizer, lambda rows: (x[r] for r in rows), index, generator)
        x_test, known = with_classes(test, self.column)
        with torch.no_grad():
            predicted = classes[model(x_test.float()).argmax(dim=1)]
        name = type(optimizer).__name__
        by = f"a linear classifier trained by {name}"
        return [top1(f"linear_{name.lower()}", self.column, predicted, known, by)]

    def _optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        raise NotImplementedError


class LinearSGD(_Probe):
    """Accuracy of a linear classifier on frozen features, trained by SGD, as in MoCo and SimCLR.

    Gives ``"linear_sgd/top1"``, the fraction of test samples whose class it predicts after the last
    epoch; for another column, ``"linear_sgd-<column>/top1"``. The defaults are SimCLR's. MoCo's are
    ``lr=30, epochs=100, schedule="step", nesterov=False``, for features with the scale of MoCo's.
    Both papers train on augmented images; here all evaluators read the same features of
    un-augmented images.

    Split: trained on the training split, measured on the test split.  Selection: none; the last epoch.

    Args:
        momentum: 0 or more, below 1.
        nesterov: Whether the momentum is Nesterov's; it must then be above 0.
        weight_decay: 0 or more.

    Defaults:
        lr: Paper: 0.1 for 256 samples (SimCLR); 30 (MoCo).
        epochs: Paper: 90 (SimCLR); 100 (MoCo).
        momentum: Paper: 0.9 (SimCLR).
        weight_decay: Paper: 0.

    Source:
        He et al., Momentum Contrast for Unsupervised Visual Representation Learning (2020), section 4.1;
        Chen et al., A Simple Framework for Contrastive Learning of Visual Representations (2020), appendix
        B.6.
    """

    def __init__(
        self,
        lr: float = 0.1,
        epochs: int = 90,
        batch_size: int = 256,
        schedule: RateSchedule = "cosine",
        drop: float = 0.1,
        momentum: float = 0.9,
        nesterov: bool = True,
        weight_decay: float = 0.0,
        seed: int = 0,
        column: str = "label",
    ) -> None:
        super().__init__(Plan(lr, epochs, batch_size, schedule, drop, seed), weight_decay, column)
        self.momentum, self.nesterov = below_one("momentum", momentum), nesterov
        if nesterov and not momentum:
            raise ValueError("nesterov=True needs a momentum above 0")

    def _optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(
            model.parameters(),
            self.plan.lr,
            self.momentum,
            weight_decay=self.weight_decay,
            nesterov=self.nesterov,
        )


class LinearAdam(_Probe):
    """Accuracy of a linear classifier on frozen features, trained by Adam.

    Gives ``"linear_adam/top1"``, the fraction of test samples whose class it predicts after the last
    epoch; for another column, ``"linear_adam-<column>/top1"``.  The defaults are those of HCL and H-SCL.
    CACR and Wang and Isola use ``batch_size=128, schedule="step", drop=0.2, beta1=0.5,
    weight_decay=0.0``; their code reports the best epoch by test accuracy, and this evaluator does
    not. All these train on augmented images; here all evaluators read the same features of
    un-augmented images.

    Split: trained on the training split, measured on the test split.  Selection: none; the last epoch.

    Args:
        beta1: Decay of the mean of gradients, 0 or more, below 1.
        weight_decay: 0 or more, added to the gradient.

    Defaults:
        lr: Code: 0.001 (HCL).
        epochs: Code: 100 (HCL).
        batch_size: Code: 512 (HCL).
        weight_decay: Code: 0.000001 (HCL).

    Source:
        Robinson et al., Contrastive Learning with Hard Negative Samples (2021), with its code; Zheng et
        al., Contrastive Attraction and Contrastive Repulsion for Representation Learning (2023), appendix.
    """

    def __init__(
        self,
        lr: float = 1e-3,
        epochs: int = 100,
        batch_size: int = 512,
        schedule: RateSchedule = "constant",
        drop: float = 0.1,
        beta1: float = 0.9,
        weight_decay: float = 1e-6,
        seed: int = 0,
        column: str = "label",
    ) -> None:
        super().__init__(Plan(lr, epochs, batch_size, schedule, drop, seed), weight_decay, column)
        self.beta1 = below_one("beta1", beta1)

    def _optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        betas = self.beta1, 0.999
        return torch.optim.Adam(
            model.parameters(), self.plan.lr, betas, weight_decay=self.weight_decay
        )


def head(features: int, classes: int, generator: torch.Generator) -> nn.Linear:
    """A linear classifier with MoCo's first weights: normal with deviation 0.01, and a bias of 0."""
    made = nn.utils.skip_init(nn.Linear, features, classes)  # draws no number
    nn.init.normal_(made.weight, std=0.01, generator=generator)
    nn.init.zeros_(made.bias)
    return made
