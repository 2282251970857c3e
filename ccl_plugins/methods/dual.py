"""Two towers: a network for each modality, and one space for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ccl_plugins.methods.heads import mlp_head
from ccl_plugins.pairs.pairs import Pairs, in_batch
from ccl_plugins.protocols import Backbone, Embedded

IMAGE = "image"


class Dual(nn.Module):
    """Contrast between modalities, as of images and their captions, each with a tower of its own (CLIP).

    The pipeline's backbone is the tower of the images.  Each tower has a head into the space that all
    share.  Every view is compared with every other in the batch, whatever their modalities: with one view
    of the image and one of the text, ``infonce(temperature={learn = true, start = 0.07})`` is CLIP's loss.
    Features are those of the images alone, so evaluators, monitors and exports see the image tower.

    The views are of several modalities: ``views = {image = "simclr", text = "tokens"}``.

    Shape:
        u views, each (n, ...) as its tower takes them -> projections (u, n, dim), features of the image
        views

    Args:
        towers: The network of each other modality by its name, as ``{text = "text_transformer"}``.
        hidden: Width of the heads' hidden layers.
        dim: Dimension of the projections.
        layers: Linear layers of a head; 1 is a linear head without a bias, as CLIP's.
        batch_norm: Whether heads have batch normalization.
        backbone: Images to features; supplied by the pipeline.
        modalities: For each view the name of its modality; supplied by the pipeline, by default one view
            of each.

    Raises:
        ValueError: Without towers, or with towers of other modalities than those of the views.

    Source:
        Radford et al., Learning Transferable Visual Models From Natural Language Supervision (2021); for
        more than two views, Tian et al., Contrastive Multiview Coding (2019).
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
                    last_bias=layers > 1,
                )
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

    def _tower(self, name: str) -> nn.Module:
        return self.backbone if name == IMAGE else self.towers[name]

    def embed(self, views: Sequence[Tensor]) -> Embedded:
        """The views of a modality in one forward pass, so that batch statistics are of all of them.

        Raises:
            ValueError: For another number of views than there are modalities of views.
        """
        if len(views) != len(self.modalities):
            raise ValueError(
                f"Dual embeds views of {', '.join(self.modalities)}, and got {len(views)} views: give it"
                " modalities=, a name for each view"
            )
        n = len(views[0])
        projections: dict[int, Tensor] = {}
        for name in dict.fromkeys(self.modalities):
            places = [i for i, each in enumerate(self.modalities) if each == name]
            found = self._tower(name)(torch.cat([views[i] for i in places]))
            if name == IMAGE:
                features = found.view(len(places), n, -1)
            projected = self.heads[name](found).view(len(places), n, -1)
            projections |= zip(places, projected, strict=True)
        return Embedded(features, torch.stack([projections[i] for i in range(len(views))]))

    def pairs(
        self, embedded: Embedded, condition: Mapping[str, Tensor], index: Tensor | None
    ) -> Pairs:
        """Every view against every other, over the batches of all processes."""
        return in_batch(
            embedded.projections, condition, index, embedded.features, gather_distributed=True
        )

    def enqueue(self, pairs: Pairs) -> None:
        """Nothing: there is no queue."""

    def after_step(self, step: int, total: int) -> None:
        """Nothing: there is no momentum encoder."""


def _check(towers: Mapping[str, Any], modalities: Sequence[str]) -> None:
    """Refuse towers that are not those of the views."""
    if not towers or IMAGE in towers:
        raise ValueError(
            "dual needs towers of other modalities than the image, whose tower is the backbone, as towers ="
            f' {{text = "text_transformer"}}, not {", ".join(towers) or "none"}'
        )
    if wrong := [name for name in towers if "." in name or hasattr(nn.ModuleDict, name)]:
        raise ValueError(f"a modality cannot be called {wrong[0]!r}, a name of torch: take another")
    lacking = [name for name in modalities if name not in (IMAGE, *towers)]
    unseen = [name for name in (IMAGE, *towers) if name not in modalities]
    if lacking:
        raise ValueError(
            f"dual has no tower for the views of {lacking[0]!r}: give it towers = {{{lacking[0]} = ...}}"
        )
    if unseen:
        raise ValueError(
            f"dual has a tower for {unseen[0]!r}, and the views are of"
            f" {', '.join(dict.fromkeys(modalities))}: give views = {{image = ..., {unseen[0]} = ...}}"
        )
