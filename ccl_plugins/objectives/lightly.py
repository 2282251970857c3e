"""lightly's own losses by name, on the pairs of any method."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ccl_plugins.arguments import did_you_mean, finite, number, positive
from ccl_plugins.objectives.base import ContrastiveObjective
from ccl_plugins.pairs.pairs import Pairs

TAKES: Mapping[str, str] = {
    "BarlowTwinsLoss": "two views",
    "DCLLoss": "two views",
    "DCLWLoss": "two views",
    "DirectCLRLoss": "two views",
    "EMPSSLLoss": "all views",
    "FroSSLLoss": "all views",
    "KoLeoLoss": "one view",
    "LeJEPALoss": "global and local views",
    "MACLLoss": "two views",
    "MMCRLoss": "anchors and keys",
    "NTXentLoss": "two views",
    "NegativeCosineSimilarity": "two views",
    "SIGReg": "one view",
    "VICRegLoss": "two views",
    "VISRegLoss": "global and local views",
}
"""The arguments of each loss, made of (n, d) projections."""

MIN_VIEWS = {"one view": 1, "global and local views": 3}
WITHIN_VIEW = ("DCLLoss", "DCLWLoss", "DirectCLRLoss", "MACLLoss", "NTXentLoss")
STOPS_GRADIENT = ("DCLWLoss", "MACLLoss", "VISRegLoss")
"""Losses that keep a weight or a scale constant by design."""

_PATCHES = "it compares patches of an image, and a method has one embedding per view"
_MASKS = "it needs masks, and a method has whole views"
_PROTOTYPES = "it needs scores of prototypes: the package ccl-prototypes has such objectives"
_STATE = "each call changes its state, which no checkpoint holds: use BarlowTwinsLoss or VICRegLoss"
UNUSABLE: Mapping[str, str] = {
    "CAPILoss": _PATCHES,
    "CO2Regularizer": "lightly does not export it, and its value has no gradient",
    "DetConBLoss": _MASKS,
    "DetConSLoss": _MASKS,
    "DINOLoss": "it moves its center in each call: use the objective dino, with the method dino",
    "HypersphereLoss": "lightly does not export it: use the objective align_uniform",
    "IBOTPatchLoss": _MASKS,
    "IBOTPlusPlusPatchLoss": _MASKS,
    "LeWMLoss": "it predicts frames of a video, and a method has views of an image",
    "MSNLoss": _PROTOTYPES,
    "PatchKernelAlignmentLoss": _PATCHES,
    "PMSNCustomLoss": _PROTOTYPES,
    "PMSNLoss": _PROTOTYPES,
    "SwaVLoss": _PROTOTYPES,
    "TiCoLoss": _STATE,
    "VICRegLLoss": _PATCHES,
    "VISRegLossComponents": "it is what VISRegLoss returns",
    "Whitening2d": "it is a layer",
    "WMSELoss": _STATE,
}
"""Why a loss cannot be used, or its replacement."""


class Lightly(ContrastiveObjective):
    r"""A loss of lightly, by the name of its class.

    The loss reads projections that are not normalized: those of every two views, or of all views if
    it takes all. The result is the mean over these calls. With separate keys (such as those of a
    momentum encoder), the two views are an anchor and a key, in both directions. All samples of all
    processes are gathered first, so that every process computes the loss of the whole batch, and
    two processes equal one; lightly's own ``gather_distributed`` is not used.

    ``KoLeoLoss`` and ``SIGReg`` read each anchor view alone. ``EMPSSLLoss`` and ``FroSSLLoss`` read
    all views. For ``LeJEPALoss`` and ``VISRegLoss``, the first two views are the global ones.
    ``MMCRLoss`` takes anchors and keys, in equal number. ``SIGReg``, ``LeJEPALoss`` and
    ``VISRegLoss`` draw directions in each step; each process draws its own. ``DirectCLRLoss`` is
    meant for features without a head, but a method gives it projections: call it on features in a
    loop of your own.

    Equation:
        \mathcal{L} = \operatorname{mean}_{v < w} \, \mathrm{loss}(x^v, x^w)

    Shape:
        u times (b, d) -> ()

    Args:
        loss: The name of a class in ``lightly.loss``, such as ``"VICRegLoss"``.
        options: Arguments of its constructor; schedules are not taken.

    Raises:
        TypeError: For an option that it does not take.
        ValueError: For a loss that is unknown, or that cannot be computed from projections; for a
            memory bank; for pairs with masks or explicit draws, because no loss of lightly reads
            these.

    Source:
        lightly, https://github.com/lightly-ai/lightly; the papers are named in each class.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"loss": "BarlowTwinsLoss"}
    embedding: Literal["sphere", "raw"] = "raw"
    distributed: Literal["mean", "replicated"] = "replicated"
    reads_queue = False

    def __init__(
        self,
        loss: str,
        options: Mapping[str, Any] | None = None,
        *,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__(gather_distributed=gather_distributed)
        if not isinstance(loss, str):
            raise TypeError(
                f"loss must be the name of a class in lightly.loss, such as 'VICRegLoss', not {loss!r}"
            )
        if loss in UNUSABLE:
            raise ValueError(f"lightly's {loss} cannot be used on projections: {UNUSABLE[loss]}")
        if loss not in TAKES:
            raise ValueError(f"lightly has no loss {loss!r}.{did_you_mean(loss, TAKES)}")
        import lightly.loss as losses

        self.takes = TAKES[loss]
        self.options = dict(options or {})
        self.criterion = _build(getattr(losses, loss), self.options)
        self.min_views = MIN_VIEWS.get(self.takes, 2)
        self.within_view = loss in WITHIN_VIEW
        self.stops_gradient = loss in STOPS_GRADIENT
        self.name = loss

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """The value of the whole batch, for each anchor."""
        self.refuse_draws(pairs)
        if pairs.positive is not None or pairs.negative is not None:
            raise ValueError(
                f"lightly's {self.name} reads no masks: use an objective such as infonce"
            )
        n = pairs.anchors.shape[1]
        if n < 2:
            raise ValueError(f"lightly's {self.name} compares samples: a batch needs at least 2")
        weights = pairs.anchors.new_ones(1, n)
        return torch.stack(self._values(pairs)).mean() * weights, weights

    def _values(self, pairs: Pairs) -> list[Tensor]:
        anchors, keys = pairs.anchors, pairs.keys[:, pairs.rows]
        if self.takes == "two views":
            # All these losses are symmetric, so a batch's own keys need one direction only.
            both = pairs.keys is not pairs.anchors or "weight_fn" in self.options
            return [self.criterion(anchors[i], keys[j]) for i, j in pairs.cross(both)]
        if self.takes == "one view":
            return [self.criterion(view) for view in anchors]
        if self.takes == "anchors and keys":
            if len(anchors) != len(keys):
                raise ValueError(
                    f"lightly's {self.name} takes as many keys as anchors, not {len(keys)} and"
                    f" {len(anchors)}: use simclr, byol, or moco_v2 with symmetric=True"
                )
            return [self.criterion(anchors.transpose(0, 1), keys.transpose(0, 1))]
        views = list(anchors)
        views += [keys[j] for j, k in enumerate(pairs.key_views) if k not in pairs.anchor_views]
        if self.takes == "all views":
            return [self.criterion(views)]
        globals_, locals_ = torch.stack(views[:2]), torch.stack(views[2:])
        return [self.criterion(local_proj=locals_, global_proj=globals_)]


def _build(loss: type, options: Mapping[str, Any]) -> Any:
    """Build a loss of lightly with checked options."""
    name, parameters = loss.__name__, inspect.signature(loss).parameters
    if "gather_distributed" in options:
        raise TypeError(
            "gather_distributed is an argument of the objective, not an option of the loss; a "
            "pipeline always compares the samples of all processes"
        )
    if options.get("memory_bank_size"):
        raise ValueError(
            f"{name} cannot have a memory bank here: every call would fill it, and no checkpoint holds it;"
            " use the method moco_v2 with the objective infonce"
        )
    for option, value in options.items():
        if option not in parameters:
            raise TypeError(
                f"lightly's {name} has no option {option!r}.{did_you_mean(option, parameters)}"
            )
        if isinstance(value, Mapping):
            raise TypeError(
                f"{option} must be a number, because lightly reads it as one, not {value!r}"
            )
        default = parameters[option].default
        if isinstance(default, int | float) and not isinstance(default, bool):
            (positive if option == "temperature" else finite)(option, number(option, value))
    return loss(**options)
