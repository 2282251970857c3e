"""LoRA by peft: named layers keep frozen weights and learn low-rank matrices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from ccl_plugins.arguments import number, positive, whole

ADAPTER = "default"
"""The name that peft gives to a model's only adapters."""


@dataclass(frozen=True)
class LoRA:
    """Low-rank adaptation: a layer's weight W becomes W + (alpha / rank) B A, and only A and B learn.

    A has ``rank`` rows and B as many columns. B begins at 0, so the first features are those of W.
    All other weights of the backbone are frozen. Checkpoints and ``weights.pt`` contain the frozen
    weights too, so a run is read without a download. ``ccl export`` adds B A to the weights, and
    also writes the learned matrices in the form that ``peft.PeftModel.from_pretrained(model,
    folder)`` reads.

    Args:
        rank: 1 or more, at most the smaller side of each matrix W.
        on: Names of linear layers and convolutions, whole or after a dot: ``"qkv"`` names every
            ``blocks.0.attn.qkv``. ``*`` stands for any characters, as in ``"mlp.fc*"``. Layers
            whose weights the model reads without calling the layer, such as ``qkv`` of BEiT, EVA
            and Swin v2, are refused.
        alpha: Factor of B A, times the rank; None: the rank, so that the factor is 1.
        norms: Whether the scales and shifts of normalization layers learn, too.

    Raises:
        TypeError: For a value of another type.
        ValueError: For a value out of range.

    Source:
        Hu et al., LoRA: Low-Rank Adaptation of Large Language Models (2021).
    """

    rank: int
    on: str | list[str]
    alpha: float | None = None
    norms: bool = False

    def __post_init__(self) -> None:
        whole("rank of lora", self.rank, 1)
        if self.alpha is not None:
            positive("alpha of lora", number("alpha of lora", self.alpha))
        if not self.names or not all(isinstance(name, str) and name for name in self.names):
            raise TypeError(f"on of lora must be names of layers, such as 'qkv', not {self.on!r}")
        if not isinstance(self.norms, bool):
            raise TypeError(f"norms of lora must be true or false, not {self.norms!r}")

    @property
    def names(self) -> tuple[str, ...]:
        """The names in ``on``, as a tuple even if it is one name."""
        return tuple(self.on) if isinstance(self.on, list | tuple) else (self.on,)


def read_lora(given: Any) -> LoRA:
    """LoRA from its table, with its values checked.

    Raises:
        TypeError: For another key, a missing one, or a value of another type.
        ValueError: For a value out of range.
    """
    if isinstance(given, LoRA):
        return given
    if not isinstance(given, Mapping):
        raise TypeError(f'lora must be a table, such as {{rank = 16, on = "qkv"}}, not {given!r}')
    if not {"rank", "on"} <= given.keys() <= {"rank", "on", "alpha", "norms"}:
        raise TypeError(
            f"lora takes rank and on, and optionally alpha and norms, not"
            f" {', '.join(map(repr, given)) or 'nothing'}"
        )
    return LoRA(**given)


def adapt(model: Any, lora: LoRA, name: str, shape: Sequence[int]) -> None:
    """Add low-rank matrices to a model's layers, and freeze all other weights, in place.

    Layers that are already frozen get none.

    Args:
        model: A model of timm.
        lora: The layers, and the rank.
        name: The model's name, for errors.
        shape: The shape of an image that the model takes, (channels, height, width).

    Raises:
        ImportError: If peft is not installed.
        ValueError: If no layer has such a name, the rank is too large, or the model reads a layer's
            weights without calling the layer.
    """
    peft = _library()
    layers = _named(model, lora, name)
    for each, layer in layers.items():
        most = min(len(layer.weight), layer.weight[0].numel())
        if lora.rank > most:
            raise ValueError(
                f"rank of lora must be 1 to {most}, the smaller side of the matrix {each} of {name!r},"
                f" not {lora.rank}"
            )
    norms = [each for each, module in model.named_modules() if lora.norms and _is_norm(module)]
    config = peft.LoraConfig(
        r=lora.rank,
        lora_alpha=lora.rank if lora.alpha is None else lora.alpha,
        target_modules="|".join(map(re.escape, layers)),
    )
    peft.inject_adapter_in_model(config, model, ADAPTER)  # this freezes all other weights
    config.modules_to_save = norms or None  # peft's option for further layers that learn
    for norm in norms:
        model.get_submodule(norm).requires_grad_()
    _refuse_unread(model, name, shape)


def merge(model: Any) -> None:
    """Add a model's adapters to its weights, and remove the adapters."""
    for name, layer in dict(_adapted(model)).items():
        layer.merge()
        parent, _, own = name.rpartition(".")
        setattr(model.get_submodule(parent), own, layer.get_base_layer())
    del model.peft_config


def adapters(model: Any) -> tuple[dict[str, Tensor], Any]:
    """The weights of a model that learn, under peft's names, and peft's configuration."""
    config = model.peft_config[ADAPTER]
    norms = tuple(f"{each}." for each in config.modules_to_save or ())
    return {
        f"base_model.model.{name.replace(f'.{ADAPTER}.', '.')}": tensor
        for name, tensor in model.state_dict().items()
        if ".lora_" in name or name.startswith(norms)
    }, config


def _library() -> Any:
    try:
        import peft
    except ImportError as error:
        raise ImportError(
            f'lora needs peft, which is not installed: pip install "ccl-plugins[lora]" ({error})'
        ) from error
    return peft


def _named(model: nn.Module, lora: LoRA, name: str) -> dict[str, Any]:
    """The layers that ``on`` names, by their whole names, without frozen layers."""
    layers = {
        each: module
        for each, module in model.named_modules()
        if isinstance(module, nn.Linear) or (isinstance(module, nn.Conv2d) and module.groups == 1)
    }
    named: dict[str, Any] = {}
    for pattern in lora.names:
        own = {k: v for k, v in layers.items() if fnmatchcase(f".{k}", f"*.{pattern}")}
        if not own:
            raise ValueError(
                f"on of lora is {pattern!r}, which names no linear layer or convolution of {name!r}: it"
                f" has {', '.join(_short(layers))}"
            )
        named |= own
    learning = {k: v for k, v in named.items() if v.weight.requires_grad}
    if not learning:
        raise ValueError(
            f"lora on {lora.on!r} names only layers of {name!r} that freeze excludes: freeze fewer "
            "layers, or none, because lora freezes all weights but its own"
        )
    return learning


def _short(layers: Mapping[str, Any]) -> list[str]:
    """The ends of the layers' names, after the numbers, each once."""
    ends = (re.search(r"([^.\d][^.]*)(\.\d+)*$", name) for name in layers)
    return list(dict.fromkeys(end[0] for end in ends if end))


def _is_norm(module: nn.Module) -> bool:
    # By its class's name: not all norms of timm derive from those of torch.
    own = [*module.parameters(recurse=False)]
    return "norm" in type(module).__name__.lower() and any(p.requires_grad for p in own)


def _adapted(model: nn.Module) -> Iterator[tuple[str, Any]]:
    from peft.tuners.lora import LoraLayer

    return (pair for pair in model.named_modules() if isinstance(pair[1], LoraLayer))


def _refuse_unread(model: nn.Module, name: str, shape: Sequence[int]) -> None:
    """Refuse adapters that would never learn, because the model does not call their layers."""
    layers, called = dict(_adapted(model)), set[str]()
    hooks = [
        layer.register_forward_hook(lambda *_, each=each: called.add(each))
        for each, layer in layers.items()
    ]
    training = model.training
    with torch.no_grad():
        model.eval()(torch.zeros(1, *shape))
    model.train(training)
    for hook in hooks:
        hook.remove()
    if unread := [each for each in layers if each not in called]:
        raise ValueError(
            f"lora cannot adapt {unread[0]} of {name!r}: the model reads its weights without "
            f"calling the layer ({len(unread)} of {len(layers)} layers), so adapters there would not "
            "learn: name other layers"
        )
