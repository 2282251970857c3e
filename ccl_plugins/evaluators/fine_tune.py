"""Accuracy of the whole network, fine-tuned on labels."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ccl_plugins.evaluators.columns import (
    OfColumn,
    of_known_classes,
    rows_with_classes,
    top1,
    two_classes,
)
from ccl_plugins.evaluators.few_shot import drawn, few
from ccl_plugins.evaluators.gradient_probes import Plan, RateSchedule, head
from ccl_plugins.numerics.generators import undisturbed
from ccl_plugins.protocols import Frozen, Images, Measurement


class FineTune(OfColumn):
    """Accuracy of the whole network, fine-tuned on the labels, as in SimCLR.

    A copy of the network with a linear classifier is trained by SGD with Nesterov momentum 0.9; the run's
    own weights never change.  Gives ``"fine_tune/top1"``, the fraction of test samples whose class it
    predicts after the last epoch; with ``samples``, ``"fine_tune_0.01/top1"``, and for another column
    ``"fine_tune-<column>/top1"``. The paper trains on random crops, this evaluator on un-augmented
    images. Every measurement costs a training on the labels, also the one before training.

    Split: trained on the training split, measured on the test split.  Selection: none; the last epoch.

    Args:
        lr: Learning rate, above 0; the paper's is 0.05 for 256 samples.
        epochs: Passes over the training samples, 1 or more; the paper's are 30 for 10 % and 60 for 1 %
            of the labels.
        batch_size: Samples of a step, 2 or more; an epoch's last step has the rest, at least two.
        samples: The number of training samples of each class, or a part of each class, see
            `few_shot`;
            None: all samples.
        schedule: Schedule of the learning rate: ``"constant"``, ``"step"`` or ``"cosine"``.
        seed: Seed of the classifier's first weights, of the samples and of the batches.

    Raises:
        ValueError: If a parameter is out of its range; on use, if a column is missing or not categorical,
            there is one class only, the features come without images, or training diverges.

    Defaults:
        lr: Paper: 0.05 for 256 samples.
        epochs: Paper: 30 for 10 %; 60 for 1 %.

    Source:
        Chen et al., A Simple Framework for Contrastive Learning of Visual Representations (2020),
        appendix B.5.
    """

    def __init__(
        self,
        lr: float = 0.05,
        epochs: int = 30,
        batch_size: int = 256,
        samples: int | float | None = None,
        schedule: RateSchedule = "cosine",
        seed: int = 0,
        column: str = "label",
    ) -> None:
        self.plan = Plan(lr, epochs, batch_size, schedule, 0.1, seed)
        if self.plan.batch_size < 2:
            raise ValueError(
                "batch_size must be 2 or more, because batch norms compare samples, not "
                f"{batch_size}"
            )
        self.samples = None if samples is None else few("samples", samples)
        self.column = column

    @of_known_classes("column")
    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """``fine_tune/top1``."""
        rows, ids = rows_with_classes(train, self.column)
        generator = self.plan.generator()
        if self.samples is not None:
            few_rows = drawn(ids, self.samples, generator)
            rows, ids = rows[few_rows], ids[few_rows]
        classes, index = two_classes(ids)
        images, test_images = _images(train.take(rows)), _images(test)
        # Dropout draws from the global generators.
        with undisturbed(devices=True):
            torch.manual_seed(self.plan.seed)
            backbone: Any = images.copy_backbone()
            device = next((p.device for p in backbone.parameters()), index.device)
            linear = head(backbone.num_features, len(classes), generator)
            model = nn.Sequential(backbone, linear).to(device).train()
            for parameter in model.parameters():
                parameter.requires_grad_()
            optimizer = torch.optim.SGD(
                model.parameters(), lr=self.plan.lr, momentum=0.9, nesterov=True
            )
            self.plan.train(model, optimizer, images.batches, index.to(device), generator)
        test_rows, known = rows_with_classes(test, self.column)
        model.eval()
        with torch.no_grad():
            pieces = list(test_rows.split(512))
            logits = [model(x.to(device)).cpu() for x in test_images.batches(pieces)]
        name = "fine_tune" if self.samples is None else f"fine_tune_{self.samples:g}"
        predicted = classes[torch.cat(logits).argmax(dim=1)]
        return [
            top1(name, self.column, predicted, known, "the whole network, trained further on it")
        ]


def _images(frozen: Frozen) -> Images:
    if frozen.images is None:
        raise ValueError(
            "fine-tuning needs the images and the network behind the features: measure a run, or give"
            " Frozen(features, metadata, images)"
        )
    return frozen.images
