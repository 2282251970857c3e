"""Two towers: a network for each modality, and one space for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn

from ccl_plugins.arguments import DEEPEST, below_one, matrix, one_of, whole
from ccl_plugins.methods.base import in_one_pass
from ccl_plugins.methods.feature_queue import FeatureQueue, WithQueue
from ccl_plugins.methods.heads import mlp_head
from ccl_plugins.methods.momentum import MomentumEncoder
from ccl_plugins.networks.module_names import is_module_name
from ccl_plugins.pairs.pairs import Pairs, in_batch, with_keys
from ccl_plugins.pairs.samples import Samples
from ccl_plugins.protocols import Backbone, Embedded

IMAGE = "image"


class Dual(WithQueue, nn.Module):
    """Contrast between modalities, such as images and captions, each with its own tower (CLIP).

    The pipeline's backbone is the tower of the images.  Each tower has a head into the space that all
    share.  Every view is compared with every other in the batch, whatever their modalities: with one view
    of the image and one of the text, CLIP's loss is ``infonce`` with
    ``temperature = {learn = true, start = 0.07, lowest = 0.01}``.
    Only images have features, so evaluators, monitors and exports see the image tower.

    The views are of several modalities: ``transform = {image = "simclr", text = "tokens"}``.

    With ``queue_size`` the keys are those of momentum towers, as in MoCo v2: each view is compared
    with the keys of other views, and with a queue of earlier keys of another modality: images with
    keys of the first other modality, other views with keys of images.

    Shape:
        u views, each (n, ...) as its tower takes them -> projections (u, n, dim), features of the image
        views; with a queue keys (u, n, dim)

    Args:
        towers: The network of each other modality by its name, such as ``{text = "text_transformer"}``.
        hidden: Width of the heads' hidden layers.
        dim: Dimension of the projections.
        layers: Linear layers of a head; 1 is a linear head without a bias, as in CLIP.
        batch_norm: Whether heads have batch normalization.
        queue_size: Samples that the queue holds, at least as many as a batch has; 0: no queue, and no
            momentum towers.
        momentum: Momentum of the momentum towers in each optimizer step, from 0 to below 1.
        own_in_queue: ``"ignore"`` leaves out keys in the queue that are of the anchor's own sample;
            ``"negative"`` does not.
        backbone: Images to features; supplied by the pipeline.
        modalities: For each view the name of its modality; supplied by the pipeline, by default one view
            of each.

    Raises:
        ValueError: Without towers, for towers and views of different modalities, and for a value
            out of range; in training, for a batch larger than the queue.

    Defaults:
        hidden: Here: that of ``moco_v2``; unused with one layer.
        dim: Here: that of ``moco_v2``; CLIP has 512 and more.
        layers: Here: CLIP's heads are linear.
        queue_size: Here: CLIP compares within the batch.
        momentum: Here: that of ``moco_v2``, with a queue.

    Source:
        Radford et al., Learning Transferable Visual Models From Natural Language Supervision (2021); for
        more than two views, Tian et al., Contrastive Multiview Coding (2019); for the queue of each
        modality, Li et al., Align before Fuse (2021), which adds soft targets.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "towers": {
            "text": {
                "use": "text_transformer",
                "vocabulary": 11,
                "length": 6,
                "width": 8,
                "depth": 1,
                "heads": 2,
            }
        },
        "hidden": 16,
        "dim": 8,
    }

    def __init__(
        self,
        towers: Mapping[str, Backbone],
        hidden: int = 2048,
        dim: int = 128,
        layers: int = 1,
        batch_norm: bool = False,
        queue_size: int = 0,
        momentum: float = 0.999,
        own_in_queue: Literal["ignore", "negative"] = "ignore",
        *,
        backbone: nn.Module,
        modalities: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        self.modalities = (IMAGE, *towers) if modalities is None else tuple(modalities)
        _check(towers, self.modalities)
        networks: dict[str, Any] = {IMAGE: backbone, **towers}
        self.backbone = backbone
        self.towers = nn.ModuleDict({name: networks[name] for name in towers})
        self.heads = nn.ModuleDict(
            {
                name: mlp_head(
                    network.num_features,
                    hidden,
                    dim,
                    layers,
                    batch_norm=batch_norm,
                    last_bias=whole("layers", layers, 1, DEEPEST) > 1,
                )
                for name, network in networks.items()
            }
        )
        one_of("own_in_queue", own_in_queue, ("ignore", "negative"))
        self.own_in_queue: Literal["ignore", "negative"] = own_in_queue
        self.queue = None
        below_one("momentum", momentum)
        self.momentum: float | None = None
        if whole("queue_size", queue_size, 0):
            self.momentum = momentum
            matrix(("queue_size", queue_size), ("2 dim", 2 * dim))
            self.queue = FeatureQueue(queue_size, 2 * dim)
            self.key_encoders = nn.ModuleDict(
                {
                    name: MomentumEncoder(network, self.heads[name])
                    for name, network in networks.items()
                }
            )

    def encode(self, x: Tensor) -> Tensor:
        """Features (n, f) of images."""
        return self.backbone(x)

    def project(self, x: Tensor) -> Tensor:
        """Projections (n, d) of images."""
        return self.embed_modality(IMAGE, x)

    def embed_modality(self, name: str, x: Tensor) -> Tensor:
        """Projections (n, d) of samples (n, ...) of a modality.

        Raises:
            KeyError: For a modality without a tower.
        """
        return self.heads[name](self._tower(name)(x))

    def project_key(self, x: Tensor) -> Tensor:
        """Keys (n, d) of images from the momentum tower, or the projections if there is none."""
        if self.queue is None:
            return self.project(x).detach()
        return self.key_encoders[IMAGE](x)

    def _tower(self, name: str) -> nn.Module:
        return self.backbone if name == IMAGE else self.towers[name]

    def embed(self, views: Sequence[Tensor]) -> Embedded:
        """Embed all views of a modality and size in one forward pass, which shares batch statistics.

        Raises:
            ValueError: If the number of views is not that of ``modalities``.
        """
        if len(views) != len(self.modalities):
            raise ValueError(
                f"Dual embeds views of {', '.join(self.modalities)}, but got {len(views)} views: "
                "give it modalities=, a name for each view"
            )
        n, of_each = len(views[0]), {name: self._of(name, views) for name in self.heads}
        features = {
            name: torch.cat(in_one_pass(self._tower(name), some)) for name, some in of_each.items()
        }
        projections = {name: self.heads[name](x) for name, x in features.items()}
        keys = None
        if self.queue is not None:
            # Last, so that the second forward pass of micro-batches ends before the keys.
            keys = self._in_order(
                {
                    name: torch.cat(in_one_pass(self.key_encoders[name], some))
                    for name, some in of_each.items()
                },
                n,
            )
        return Embedded(
            features[IMAGE].view(self.modalities.count(IMAGE), n, -1),
            self._in_order(projections, n),
            keys,
        )

    def _of(self, name: str, views: Sequence[Tensor]) -> list[Tensor]:
        """The views of a modality."""
        return [view for view, of in zip(views, self.modalities, strict=True) if of == name]

    def _in_order(self, projections: Mapping[str, Tensor], n: int) -> Tensor:
        """(u, n, d) in the order of the views, from embeddings that are grouped by modality."""
        left = {name: iter(each.view(-1, n, each.shape[-1])) for name, each in projections.items()}
        return torch.stack([next(left[name]) for name in self.modalities])

    def pairs(self, embedded: Embedded, samples: Samples) -> Pairs:
        """Every view against every other, over the batches of all processes, and the queue.

        Raises:
            ValueError: With a queue, for embeddings without keys.
        """
        if self.queue is None:
            return in_batch(embedded.projections, samples, gather_distributed=True)
        pairs = with_keys(
            embedded.projections,
            embedded.keys,
            samples,
            first_key_view=0,
            gather_distributed=True,
        )
        pairs = self.queue.add_to(pairs, self.own_in_queue)
        others, images = self.queue.keys.chunk(2, 1)
        compared = torch.stack([others if name == IMAGE else images for name in self.modalities])
        return replace(pairs, queue=pairs.queue and replace(pairs.queue, keys=compared))

    def enqueue(self, pairs: Pairs) -> None:
        """Put the last keys of an image and of the first other modality into the queue, if there is one.

        Raises:
            ValueError: For partners, if the image has only one view, which is not of the partner.
        """
        if self.queue is None:
            return
        other = next(name for name in self.modalities if name != IMAGE)
        if pairs.samples.partner is not None and self.modalities.count(IMAGE) == 1:
            raise ValueError(
                "dual with a queue keeps the keys of one sample together, but with partners the "
                "only view of the image and the text are of different samples: take two views of "
                "the image, or queue_size=0"
            )
        last = [
            max(i for i, each in enumerate(self.modalities) if each == name)
            for name in (other, IMAGE)
        ]
        keys = torch.cat([pairs.keys[i] for i in last], -1)
        super().enqueue(replace(pairs, keys=keys[None]))

    @staticmethod
    def has_queue(parameters: Mapping[str, Any]) -> bool:
        """Whether these parameters make a queue, with its momentum towers."""
        return parameters.get("queue_size") != 0

    def after_step(self, step: int, total: int) -> None:
        """Move the momentum towers, if there are any."""
        if self.momentum is not None:
            for name, encoder in self.key_encoders.items():
                cast(MomentumEncoder, encoder).update(
                    self._tower(name), self.heads[name], self.momentum
                )


def _check(towers: Mapping[str, Any], modalities: Sequence[str]) -> None:
    """Refuse towers that do not match the views."""
    if not towers or IMAGE in towers:
        raise ValueError(
            "dual needs towers of other modalities than the image, whose tower is the backbone, such as"
            f' towers = {{text = "text_transformer"}}, not {", ".join(towers) or "none"}'
        )
    if wrong := [name for name in towers if not is_module_name(name)]:
        raise ValueError(f"a modality cannot be called {wrong[0]!r}, a name of torch: take another")
    lacking = [name for name in modalities if name not in (IMAGE, *towers)]
    unseen = [name for name in (IMAGE, *towers) if name not in modalities]
    if lacking:
        raise ValueError(
            f"dual has no tower for the views of {lacking[0]!r}: give it towers = {{{lacking[0]} = ...}}"
        )
    if unseen:
        raise ValueError(
            f"dual has a tower for {unseen[0]!r}, but the views are of"
            f" {', '.join(dict.fromkeys(modalities))}: give transform = "
            f"{{image = ..., {unseen[0]} = ...}}"
        )
