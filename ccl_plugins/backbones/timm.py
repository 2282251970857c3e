"""Any image model of timm."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from ccl_plugins.arguments import MOST, one_of, whole
from ccl_plugins.backbones.lora import LoRA, adapt, merge, read_lora
from ccl_plugins.networks import timm_models


class Timm(nn.Module):
    """A model of timm (PyTorch Image Models) without its classifier, pooled to one feature vector.

    A transform without ``mean`` and ``std`` takes the numbers of the weights, or ImageNet's without
    weights, and records them. They are known for timm's names, but not for ``hf-hub:``. For a file
    they are known if ``name`` has a tag, such as ``vit_small_patch14_dinov2.lvd142m``, or if a
    ``config.json`` of ``ccl export`` is next to the file.

    Most vision transformers take images of one size. ``options = {"img_size": 32}`` makes the model
    for another size and interpolates the weights' positions; DINOv3 takes every size of whole
    patches without this option. ``{"in_chans": 5}`` is for five channels: the three channels of the
    first convolution's weights are repeated in turn and multiplied by 3/5; for one channel they are
    added up.

    Without a connection, weights are read from the Hugging Face cache (``HF_HOME``);
    ``HF_HUB_OFFLINE=1`` avoids all connections. On a machine without connection and cache, give
    ``checkpoint_path``.

    Args:
        name: A name of ``timm.list_models()``, with or without a tag of weights: ``resnet18``,
            ``vit_small_patch16_224.augreg_in21k``; or with a source,
            ``hf-hub:timm/resnet18.a1_in1k``.
        pretrained: Download timm's weights for it.
        stem: ``"cifar"`` replaces the first convolution of a ResNet by a new one of 3x3 with stride 1
            and removes the pooling after it, for images of about 32 pixels.  timm has no weights for it.
        checkpoint_path: A file of weights for this architecture and stem, loaded last, without its
            classifier. The file may be timm's, or of an implementation that timm translates, such
            as DINOv2's and OpenAI's CLIP. A ``.pth`` file with other names for the layers, but in
            timm's order, is read in this order, with a warning.
        features: The features of a vision transformer's last layer: ``"token"``: the class token;
            ``"mean"``: the mean of the patches, without class token and registers; ``"both"``: one
            after the other, as in DINOv2's linear probes; ``"default"``: the output of timm's model
            of this name: DINOv2's class token, DINOv3's mean of the patches (its paper takes the
            class token), SigLIP's attention pooling, CLIP's class token without the projection to
            the space of texts. Unlike ``features``, an option such as ``global_pool`` may move the
            last normalization, so that its weights do not fit.
        freeze: The number of first layers that are not trained, keep their batch statistics and
            have no dropout: 1 for the stem with a ViT's tokens and positions, and 1 more for each
            block; or ``"all"``.
        options: Further arguments of the model, such as ``{"in_chans": 1, "drop_path_rate": 0.1}``.
        lora: Low-rank matrices that learn instead of the weights, a `LoRA` or a table of its keys,
            such as ``{"rank": 16, "on": "qkv"}``. Layers that ``freeze`` counts get no matrices.
        batch_statistics: ``"moving"``: batch normalizations compare the images of a batch, and their
            running statistics follow. ``"kept"``: they use the running statistics of the weights, which
            do not change, while their scales and shifts learn; for pretrained weights and few or small
            images.
        checkpointing: Whether the backward pass computes blocks again, so that only one block's
            activations are in memory at a time (gradient checkpointing). The gradients are the
            same, and a step takes one more forward pass. Models whose batch statistics would count
            each batch twice are refused.

    Attributes:
        model: timm's.
        num_features: f, the length of a feature vector.
        patch_shape: Height and width of a patch in pixels, and the width of its embedding; None for a
            model whose patches cannot be masked.
        lora: As given, or None.

    Raises:
        ValueError: If timm has no model of this name, if the model lacks the stem, tokens, layers,
            batch statistics or gradient checkpointing that are asked for, if weights or ``lora`` do
            not fit the model, or if an option is set by another parameter.
        TypeError: If the model does not take an option, or ``lora`` is not such a table.
        ImportError: If ``lora`` is given and peft is not installed.

    Source:
        Wightman, PyTorch Image Models; the stem of Chen et al., A Simple Framework for Contrastive
        Learning of Visual Representations (2020), appendix B.9.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"name": "resnet10t"}

    def __init__(
        self,
        name: str,
        pretrained: bool = False,
        stem: Literal["default", "cifar"] = "default",
        checkpoint_path: str | None = None,
        options: Mapping[str, Any] | None = None,
        freeze: int | Literal["all"] = 0,
        features: Literal["default", "token", "mean", "both"] = "default",
        lora: LoRA | None = None,
        checkpointing: bool = False,
        batch_statistics: Literal["moving", "kept"] = "moving",
    ) -> None:
        super().__init__()
        one_of("features", features, ("default", "token", "mean", "both"))
        one_of("stem", stem, ("default", "cifar"))
        one_of("batch_statistics", batch_statistics, ("moving", "kept"))
        if freeze != "all":
            whole("freeze", freeze, -MOST)  # how many layers there are is not known yet
        if stem == "cifar" and pretrained:
            raise ValueError(
                "timm has no weights for the first convolution of stem='cifar', so pretrained=True "
                "would leave it random: use stem='default', or a checkpoint_path of weights for "
                "this stem"
            )
        self.stem = stem
        self.options = dict(options or {})
        self.model: Any = timm_models.create_model(name, pretrained, self.options)
        if stem == "cifar":
            _cifar_stem(self.model, name)
        if features != "default":
            _check_tokens(self.model, name, features)
            if getattr(self.model, "attn_pool", None) is not None:
                self.model.reset_classifier(0, "avg")  # this drops the weights of another pooling
        self._load(checkpoint_path, () if features == "default" else ("attn_pool.",))
        # Some models (MobileNetV3) widen the features after pooling.
        self.num_features = int(getattr(self.model, "head_hidden_size", self.model.num_features))
        self.features = features
        if features != "default":
            self.num_features = self.model.embed_dim * (2 if features == "both" else 1)
        self.patch_shape: tuple[int, int, int] | None = None
        self._masking: tuple[Tensor, Tensor] | None = None
        if timm_models.has_maskable_patches(self.model):
            embed = self.model.patch_embed
            self.patch_shape = (*embed.patch_size, self.model.embed_dim)
            embed.register_forward_hook(self._masked)
        if freeze:
            self._freeze(freeze, name)
        self.lora = None if lora is None else read_lora(lora)
        if self.lora is not None:
            shape = timm_models.image_shape(self.model, self.options)
            adapt(self.model, self.lora, name, shape)
        self._frozen = self._wholly_frozen() if freeze or lora is not None else []
        self.batch_statistics = batch_statistics
        if batch_statistics == "kept" and not self._batch_norms():
            raise ValueError(
                f"batch_statistics='kept' is for batch normalizations, and {name!r} has none: leave it out"
            )
        self.train()  # except frozen layers and kept statistics
        self.checkpointing = checkpointing
        if checkpointing:
            timm_models.checkpoint(self.model, name)

    @staticmethod
    def check_channels(parameters: Mapping[str, Any], channels: int) -> None:
        """Refuse images of another number of channels than the model takes."""
        timm_models.check_channels(parameters["name"], parameters["options"] or {}, channels)

    @staticmethod
    def check_image_size(parameters: Mapping[str, Any], size: int) -> None:
        """Refuse images of another size than the model takes; most ViTs take one size."""
        timm_models.check_image_size(parameters["name"], parameters["options"] or {}, size)

    @staticmethod
    def check_masked(parameters: Mapping[str, Any]) -> None:
        """Refuse a model whose patches cannot be masked."""
        timm_models.check_masked(parameters["name"], parameters["options"] or {})

    @staticmethod
    def image_statistics(
        parameters: Mapping[str, Any],
    ) -> tuple[Sequence[float], Sequence[float]] | None:
        """Mean and standard deviation of the images that the weights were trained on, where known."""
        return timm_models.image_statistics(
            parameters["name"],
            parameters.get("pretrained", False),
            parameters["options"] or {},
            parameters["checkpoint_path"],
        )

    def _load(self, path: str | None, without: tuple[str, ...] = ()) -> None:
        if path is not None:
            timm_models.load_weights(self.model, path, without=without)

    def _freeze(self, first: int | Literal["all"], name: str) -> None:
        """Freeze the parameters of the first layers."""
        if first == "all":
            self.requires_grad_(False)
        else:
            depths = self.layer_numbers()
            most = 1 + max(depths.values())
            if not 0 < first <= most:
                raise ValueError(
                    f"freeze must be 0 to {most}, the layers of {name}, or 'all', not {first!r}"
                )
            for each, parameter in self.named_parameters():
                parameter.requires_grad_(depths[each] >= first)

    def _wholly_frozen(self) -> list[str]:
        """The names of modules without a parameter that learns."""
        return [
            prefix
            for prefix, module in self.named_modules()
            if prefix
            and (parameters := [*module.parameters()])
            and not any(parameter.requires_grad for parameter in parameters)
        ]

    def _batch_norms(self) -> list[nn.Module]:
        """The batch normalizations that use running statistics."""
        return [
            module
            for module in self.modules()
            if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.track_running_stats
        ]

    def plain(self) -> Self:
        """A copy without ``lora``, which its weights include, and without checkpointing."""
        plain = copy.deepcopy(self)
        if self.checkpointing:
            plain.checkpointing = False
            plain.model.set_grad_checkpointing(False)
        if self.lora is not None:
            merge(plain.model)
            plain.lora, plain._frozen = None, []
        return plain

    def train(self, mode: bool = True) -> Self:
        """Set the mode, but keep frozen layers, and kept statistics, in evaluation mode."""
        super().train(mode)
        for name in self._frozen:
            self.get_submodule(name).eval()
        if self.batch_statistics == "kept":
            # Looked for anew: on several GPUs, Lightning replaces them by SyncBatchNorm.
            for norm in self._batch_norms():
                norm.eval()
        return self

    def forward(
        self, x: Tensor, mask: Tensor | None = None, token: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Features (n, num_features) of images (n, channels, height, width).

        Args:
            x: The images.
            mask: (n, rows, columns) True at patches whose embedding is replaced; None: no patch.
            token: (width,) the replacement. If given, the features of all patches, (n, rows,
                columns, width), are returned too.
        """
        if token is not None:
            return self._with_patches(x, mask, token)
        return self._checked(
            self.model(x)
            if self.features == "default"
            else self._pooled(self.model.forward_features(x))
        )

    def _with_patches(self, x: Tensor, mask: Tensor | None, token: Tensor) -> tuple[Tensor, Tensor]:
        if self.patch_shape is None:
            raise ValueError(f"a {type(self.model).__name__} of timm has no patches to mask")
        height, width, _ = self.patch_shape
        grid = x.shape[-2] // height, x.shape[-1] // width
        if mask is not None and mask.shape != (len(x), *grid):
            raise ValueError(
                f"images of {x.shape[-2]}x{x.shape[-1]} pixels have (n, {grid[0]}, {grid[1]}) "
                f"patches, but the mask is {tuple(mask.shape)}"
            )
        self._masking = None if mask is None else (mask, token)
        try:
            tokens = self.model.forward_features(x)
        finally:
            self._masking = None
        patches = tokens[:, self.model.num_prefix_tokens :]
        default = self.features == "default"
        features = self.model.forward_head(tokens) if default else self._pooled(tokens)
        return self._checked(features), patches.unflatten(1, grid)

    def _masked(self, _: nn.Module, __: Any, embedded: Tensor) -> Tensor | None:
        """The patches' embeddings, with the token at those that are masked."""
        if self._masking is None:
            return None
        mask, token = self._masking
        # For images of any size, timm keeps rows and columns as two axes.
        places = mask.reshape(embedded.shape[:-1])[..., None]
        return torch.where(places, token.to(embedded.dtype), embedded)

    def _checked(self, features: Tensor) -> Tensor:
        if features.shape[1:] != (self.num_features,):
            raise ValueError(
                f"the model must give (n, {self.num_features}), not {tuple(features.shape)}; "
                "an option such as global_pool changes that"
            )
        return features

    def _pooled(self, tokens: Tensor) -> Tensor:
        parts = []
        if self.features in ("token", "both"):
            parts.append(tokens[:, 0])
        if self.features in ("mean", "both"):
            parts.append(tokens[:, self.model.num_prefix_tokens :].mean(1))
        # Some models, such as BEiT, normalize after pooling.
        return torch.cat([self.model.head_drop(self.model.fc_norm(each)) for each in parts], 1)

    def patches(self, x: Tensor) -> Tensor:
        """Features (n, rows, columns, f) of the patches of images, or of the places of the last layer.

        Raises:
            ValueError: If timm does not return patch features of this model.
        """
        if not hasattr(self.model, "forward_intermediates"):
            raise ValueError(f"timm gives no patch features of a {type(self.model).__name__}")
        (intermediate,) = self.model.forward_intermediates(
            x, indices=1, norm=True, intermediates_only=True
        )
        features: Tensor = intermediate.permute(0, 2, 3, 1)
        return features

    def no_weight_decay(self) -> set[str]:
        """Names of the parameters of this module that timm trains without weight decay."""
        named = self.model.no_weight_decay() if hasattr(self.model, "no_weight_decay") else set()
        # timm's names may be patterns, and may name tokens that this model lacks.
        return {
            name
            for name, _ in self.named_parameters()
            if any(fnmatchcase(name.removeprefix("model."), pattern) for pattern in named)
        }

    def layer_numbers(self) -> dict[str, int]:
        """The number of each parameter's layer, from the stem, 0.

        Raises:
            ValueError: If timm does not group this model's parameters into layers.
        """
        return {f"model.{name}": depth for name, depth in timm_models.layers(self.model).items()}


def _check_tokens(model: Any, name: str, features: str) -> None:
    """Refuse a model without the tokens that features are made of."""
    parts = ("num_prefix_tokens", "embed_dim", "fc_norm", "head_drop", "forward_features")
    if not all(hasattr(model, part) for part in parts):
        raise ValueError(
            f"features={features!r} needs the tokens of a vision transformer such as "
            f"'vit_small_patch14_dinov2', and {name!r} has none: use features='default'"
        )
    if features != "mean" and getattr(model, "cls_token", None) is None:
        raise ValueError(
            f"features={features!r} needs a class token, which {name!r} does not have: use features='mean',"
            " or features='default'"
        )


def _cifar_stem(model: nn.Module, name: str) -> None:
    first, pool = getattr(model, "conv1", None), getattr(model, "maxpool", None)
    if not (isinstance(first, nn.Conv2d) and first.kernel_size == (7, 7) and pool is not None):
        raise ValueError(
            f"stem='cifar' replaces the 7x7 convolution and pooling of a ResNet such as 'resnet18'; "
            f"{name!r} does not begin with them, so use stem='default'"
        )
    new = nn.Conv2d(first.in_channels, first.out_channels, 3, stride=1, padding=1, bias=False)
    nn.init.kaiming_normal_(new.weight, mode="fan_out", nonlinearity="relu")  # as timm's ResNet
    model.conv1 = new
    model.maxpool = nn.Identity()
