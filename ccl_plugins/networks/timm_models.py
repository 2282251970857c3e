"""Models of timm: created, loaded and numbered by layer, with errors that name the right settings."""

from __future__ import annotations

import inspect
import json
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ccl_plugins.arguments import DEEPEST, did_you_mean, whole
from ccl_plugins.files.messages import printable
from ccl_plugins.files.sums import check_sum

RESERVED = ("num_classes", "pretrained", "checkpoint_path")
"""Arguments of timm that are not options here, because other parameters set them."""

DEPTHS = {"depth", "depths", "layers"}
"""Options of timm that are numbers of layers, which timm makes one by one."""

logger = logging.getLogger(__name__)

HUB = ("hf-hub:", "hf_hub:")
"""The beginning of a name whose model is described on the Hugging Face Hub."""

SHOWN = 3
"""The most weights that an error names; further ones are counted."""

PATIENCE = 10.0
"""The seconds to wait for the Hub's answer."""


def check_name(name: str) -> None:
    """Refuse a name that timm does not have.

    Raises:
        ValueError: With similar names.
    """
    import timm  # late: it takes seconds, and listing the components does not need it

    # timm resolves a source before the name ("hf-hub:") itself.
    if ":" in name or timm.is_model(name):
        return
    near = did_you_mean(name, timm.list_models(), "", most=3)
    raise ValueError(f"timm has no model {name!r}.{near or ' See timm.list_models().'}")


def create_model(
    name: str,
    pretrained: bool,
    options: Mapping[str, Any],
    *,
    keep_head: bool = False,
    instead: str = "checkpoint_path=FILE, a file of weights",
) -> Any:
    """Create a model, without its last layer unless ``keep_head``.

    If the Hugging Face Hub does not answer, its cache on this machine is read, without further tries.

    Args:
        name: A name of ``timm.list_models()``, with or without a tag of weights.
        pretrained: Download timm's weights for it.
        options: Further arguments of the model.
        keep_head: Keep the last layer: a classifier, or a CLIP tower's projection.
        instead: The caller's alternative to a download, for the error.

    Raises:
        ValueError: If timm has no such model, or another parameter sets an option.
        FileNotFoundError: If its weights are not on this machine and cannot be downloaded.
        TypeError: If the model does not take an option.
    """
    import timm

    check_name(name)
    reserved = sorted(set(options) & set(RESERVED))
    if reserved:
        raise ValueError(f"options must not hold {', '.join(reserved)}: other parameters set them")
    for key in DEPTHS & options.keys():
        value = options[key]
        for number in value if isinstance(value, list | tuple) else [value]:
            whole(f"options[{key!r}]", number, 0, DEEPEST)
    head: dict[str, Any] = {} if keep_head else {"num_classes": 0}
    if name.startswith(HUB):
        logger.warning(
            "%s is a model of the Hugging Face Hub: what its cache lacks is downloaded (HF_HUB_OFFLINE=1"
            " forbids that)",
            name,
        )
    try:
        with _hub() if pretrained or name.startswith(HUB) else nullcontext():
            return timm.create_model(name, pretrained=pretrained, **head, **options)
    except OSError as error:
        raise FileNotFoundError(
            f"the weights of {name!r} are not in the Hub's cache on this machine, {_cache()}, and cannot be"
            f" downloaded; three ways out: {instead}, with pretrained=False; or the Hugging Face cache"
            " (HF_HOME) of a machine that has them, with HF_HUB_OFFLINE=1; or a network"
            f" ({str(error).partition('. ')[0]})"
        ) from error
    except TypeError as error:
        # timm passes options on through **kwargs: only the model's class refuses them.
        if "unexpected keyword argument" not in str(error):
            raise
        model = timm.create_model(name, num_classes=0)
        takes = sorted(
            set(inspect.signature(type(model).__init__).parameters) - {"self", *RESERVED}
        )
        raise TypeError(
            f"timm model {name!r} does not take all of the options {sorted(options)}; "
            f"{type(model).__name__} takes {', '.join(takes)}"
        ) from error
    except (AssertionError, ArithmeticError) as error:  # options that do not fit each other
        if not options:
            raise
        raise ValueError(f"timm does not make {name!r} with {dict(options)}: {error}") from error


@contextmanager
def _hub() -> Iterator[None]:
    """Use only the Hub's cache if the Hub does not answer, because its client would retry for minutes."""
    from huggingface_hub import constants

    offline = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = offline or not _answers(constants.ENDPOINT)
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = offline


def _cache() -> str:
    """The folder in which the Hub's client looks for weights."""
    from huggingface_hub import constants

    return str(constants.HF_HUB_CACHE)


def _answers(address: str) -> bool:
    """Whether a server answers the Hub's own client, with its proxies and certificates."""
    from huggingface_hub import get_session
    from huggingface_hub.errors import HfHubHTTPError

    # Which HTTP library it stands on differs between its versions; its errors derive from that one's.
    failures: Any = (OSError, *HfHubHTTPError.__bases__)
    try:
        get_session().head(address, timeout=PATIENCE)
    except failures:
        return False
    return True


def check_channels(name: str, options: Mapping[str, Any], channels: int) -> None:
    """Refuse images of another number of channels than a model takes; no model is made.

    Args:
        name: As in `create`; for models that only a file or the Hub describes, ``options`` alone count.
        options: Further arguments of the model.
        channels: The number of channels of the views, equal to that of the transform's mean and
            std.

    Raises:
        ValueError: For another number; the message has the settings of both.
    """
    import timm

    check_name(name)
    known = None if ":" in name else timm.get_pretrained_cfg(name)
    takes = options.get("in_chans", known.input_size[0] if known else channels)
    if takes != channels:
        raise ValueError(
            f"the views have {channels} channels, one for each number in mean and std of the transform,"
            f" but {name!r} takes {takes}: give the transform a mean and a std of {takes} numbers each, or"
            f" the model options = {{in_chans = {channels}}}"
        )


def check_image_size(
    name: str, options: Mapping[str, Any], size: int, setting: str = "the views a size of"
) -> None:
    """Refuse images of a size that a model does not take; no weights are made or loaded.

    Args:
        name: As in `create`; the models that only the Hub describes are not checked.
        options: Further arguments of the model.
        size: Height and width of the images in pixels.
        setting: The setting of the size, for the error.

    Raises:
        ValueError: For another size; the message has the right size, and the option that changes
            it.
        TypeError: If the model does not take an option.
    """
    if name.startswith(HUB):
        return
    model = without_memory(name, options)
    if model is None:
        return
    patch = _patch(model)
    if size < patch:
        raise ValueError(
            f"images of {size}x{size} pixels are smaller than a patch of {name!r}, {patch}x{patch} pixels:"
            f" give {setting} {patch} or more"
        )
    channels, *own = image_shape(model, options)
    if not model.pretrained_cfg.get("fixed_input_size"):
        # Halved five times, fewer than 64 pixels leave one, which some layers cannot halve again.
        if size < 64 and not _takes(model, channels, size, size) and _takes(model, channels, *own):
            enough = next(
                each for each in range(size, own[0] + 1) if _takes(model, channels, each, each)
            )
            raise ValueError(
                f"images of {size}x{size} pixels are too small for {name!r}:"
                f" give {setting} {enough} or more"
            )
        return
    if not _takes(model, channels, *own):
        return
    below = size // patch * patch
    if below != size and not getattr(model.patch_embed, "dynamic_img_pad", False):
        # Without positions for each size, timm would leave out the pixels beyond the last patch.
        raise ValueError(
            f"{name!r} takes images of whole patches of {patch}x{patch} pixels, but {size} is not a"
            f" multiple of {patch}: give {setting} {below} or {below + patch}"
        )
    if _takes(model, channels, size, size):
        return

    def takes_with(**option: Any) -> bool:
        try:
            other = without_memory(name, {**options, **option})
        except TypeError:  # it has no such parameter
            return False
        return other is not None and _takes(other, channels, size, size)

    option = f"the model options = {{img_size = {size}}}, or " if takes_with(img_size=size) else ""
    any_size = takes_with(dynamic_img_size=True)
    raise ValueError(
        f"{name!r} takes images of {own[0]}x{own[1]} pixels, not of {size}x{size}: give {option}{setting}"
        f" {own[0]}{'; with dynamic_img_size = true it takes several sizes' if any_size else ''}"
    )


def _patch(model: Any) -> int:
    """The height and width of a model's patches in pixels; 1 for a model without patches."""
    side = getattr(getattr(model, "patch_embed", None), "patch_size", 1)
    return max(side) if isinstance(side, tuple | list) else int(side)


def has_maskable_patches(model: Any) -> bool:
    """Whether a model is a vision transformer whose layers have a token for each patch of an image."""
    from timm.layers.patch_embed import PatchEmbed

    parts = ("num_prefix_tokens", "embed_dim", "forward_features", "forward_head")
    embed = getattr(model, "patch_embed", None)
    # Other models, such as Swin, join patches from layer to layer.
    return isinstance(embed, PatchEmbed) and all(hasattr(model, part) for part in parts)


def check_masked(name: str, options: Mapping[str, Any]) -> None:
    """Refuse a model whose patches cannot be masked; no weights are made or loaded.

    Raises:
        ValueError: For such a model, and for one that leaves patches out itself.
    """
    if options.get("patch_drop_rate"):
        raise ValueError(
            f"a method that masks patches needs all of them, but patch_drop_rate ="
            f" {options['patch_drop_rate']} drops some: remove this option"
        )
    if name.startswith(HUB):
        return
    model = without_memory(name, options)
    if model is not None and not has_maskable_patches(model):
        raise ValueError(
            f"{name!r} has no patches to mask: take a vision transformer, such as 'vit_small_patch16_224',"
            " or a method that masks none, such as dino"
        )


def image_statistics(
    name: str, pretrained: bool, options: Mapping[str, Any], path: str | Path | None
) -> tuple[Sequence[float], Sequence[float]] | None:
    """Mean and standard deviation of the images that a model's weights were trained on, by channel.

    They come from a ``config.json`` beside the file or in the folder of the weights, written by
    `ccl export` or timm; else from timm, by the model's name (for a file, if the name has a tag).

    Args:
        name: As in `create`; models that only the Hub describes are not looked up.
        pretrained: Whether timm's weights for it are loaded.
        options: Further arguments of the model.
        path: A file of weights that are loaded last.

    Returns: None without weights, if they are unknown, and for a model of other channels.

    Raises:
        ValueError: For a ``config.json`` that is not JSON, or a name that timm does not have.
    """
    if path is None and not pretrained:
        return None
    import timm

    source, _, rest = name.rpartition(":")  # such as in "local-dir:FOLDER"
    described: dict[str, Any] = {}
    if path is not None:
        described = _described(Path(path).expanduser().parent)
    elif source and not name.startswith(HUB):
        described = _described(Path(rest).expanduser())
    if not described and not source and (path is None or "." in name):
        check_name(name)
        config = timm.get_pretrained_cfg(name)
        overlay = options.get("pretrained_cfg_overlay") or {}
        described = {} if config is None else {**config.to_dict(), **overlay}
    mean, std = described.get("mean"), described.get("std")
    if not mean or not std or options.get("in_chans", len(mean)) != len(mean):
        return None
    return mean, std


def _described(folder: Path) -> dict[str, Any]:
    """The entries of a folder's ``config.json`` about the weights; empty without the file."""
    file = folder / "config.json"
    if not file.is_file():
        return {}
    try:
        config = json.loads(file.read_text("utf-8"))
        return {**config, **config.get("pretrained_cfg", {})}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{file}, which describes the weights beside it, is no JSON: {error}"
        ) from error


def image_shape(model: Any, options: Mapping[str, Any]) -> tuple[int, ...]:
    """The shape (channels, height, width) of images that a model is made for, with its options."""
    channels, *own = model.pretrained_cfg["input_size"]
    own = options.get("img_size", own)
    return options.get("in_chans", channels), *([own, own] if isinstance(own, int) else own)


def checkpoint(model: Any, name: str) -> None:
    """Compute a model's blocks again in the backward pass, to save memory.

    Args:
        model: A model of timm, in its mode for training.
        name: The model's name, for errors.

    Raises:
        ValueError: If timm does not support it for this model, or batch statistics would count each
            batch twice.
    """
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if any(norm.training and norm.track_running_stats for norm in norms):
        raise ValueError(
            f"checkpointing=True computes the blocks of {name!r} twice, and its {len(norms)} batch"
            " normalizations would count every batch twice: micro_batch of [fit] saves memory without that,"
            " and batch_statistics='kept' counts none"
        )
    try:
        model.set_grad_checkpointing(True)
    except AssertionError as error:
        raise ValueError(
            f"timm has no gradient checkpointing for {name!r}, which checkpointing=True asks for:"
            " micro_batch of [fit] saves memory with any backbone"
        ) from error


def without_memory(name: str, options: Mapping[str, Any]) -> Any:
    """A model whose tensors have only shapes, or None if this version of timm cannot make it."""
    with torch.device("meta"):
        try:
            return create_model(name, False, options).eval()
        except (RuntimeError, NotImplementedError):  # the model reads numbers while it is made
            return None


def _takes(model: nn.Module, *shape: int) -> bool:
    """Whether a model without memory takes an image of this shape."""
    try:
        with torch.no_grad():
            model(torch.empty(1, *shape, device="meta"))
    except (AssertionError, RuntimeError, ValueError):
        return False
    return True


def load_weights(
    model: nn.Module, path: str | Path, *, keep_head: bool = False, without: tuple[str, ...] = ()
) -> None:
    """Load a file of weights, without those of the last layer unless ``keep_head``.

    Args:
        model: Of timm.
        path: The file.
        keep_head: Whether the model has its last layer.
        without: The beginnings of names of further weights that the model has no part for.

    As timm does with its own weights: those of another implementation get timm's names, positions are
    resampled for the model's image size, and the first convolution is adapted to the model's channels.
    If timm has no translation and knows none of the names, the weights are taken in their order, where all
    shapes agree, and a warning says so.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it holds weights of another model, with the names that do not fit, or more than
            weights, or is damaged.
        DamagedFile: If it was exported with a checksum that does not match.
    """
    from timm.models import load_state_dict

    path = Path(path).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"there is no file of weights {str(path)!r}")
    check_sum(path)
    try:
        given = load_state_dict(str(path), weights_only=True)
        if odd := [name for name, weight in given.items() if not isinstance(weight, torch.Tensor)]:
            raise ValueError(f"{odd[0]!r} is no tensor")
    except OSError:
        raise
    # The type of torch's error depends on the damaged place, as in a checkpoint.
    except Exception as error:
        raise ValueError(
            f"{str(path)!r} is damaged, or holds more than weights: it must be safetensors, or a"
            " state_dict written by torch.save; no other Python object is read from it"
            f" ({printable(str(error)).partition('. ')[0]:.200})"
        ) from error
    weights = _adapted(given, model, keep_head, without)
    # timm's modules have this function where weights of a family need one.
    translate = getattr(sys.modules[type(model).__module__], "checkpoint_filter_fn", None)
    if translate is not None and any(_differences(weights, model).values()):
        with suppress(*_TRANSLATING):  # weights of another family
            weights = _adapted(translate(dict(given), model), model, keep_head, without)
    unfit = any(_differences(weights, model).values())
    # Safetensors sort the names.
    if unfit and path.suffix != ".safetensors" and (ordered := _in_order(given, model, path)):
        weights = _adapted(ordered, model, keep_head, without)
    _require_fit(weights, model, path)
    model.load_state_dict(weights)


_TRANSLATING = (AssertionError, AttributeError, IndexError, KeyError, RuntimeError, ValueError)
"""The errors of timm's translations for other weights."""


def _adapted(
    weights: Mapping[str, Any], model: nn.Module, keep_head: bool, without: tuple[str, ...]
) -> dict[str, Any]:
    """Weights without the last layer, the first convolution's for as many channels as the model takes."""
    config: Mapping[str, Any] = getattr(model, "default_cfg", {})
    # timm keeps the last layer's name, though num_classes=0 has removed the layer.
    heads = () if keep_head else tuple(f"{head}." for head in _names(config, "classifier"))
    left_out = (*heads, *without)
    kept = {name: value for name, value in weights.items() if not name.startswith(left_out)}
    own = model.state_dict()
    for name in (f"{first}.weight" for first in _names(config, "first_conv")):
        if name not in own or name not in kept or kept[name].shape == own[name].shape:
            continue
        kernel = kept[name].shape[2:]
        if len(kernel) == 2 and kernel == own[name].shape[2:]:
            kept[name] = _for_channels(kept[name], own[name].shape[1])
    return kept


def _in_order(
    given: Mapping[str, torch.Tensor], model: nn.Module, path: Path
) -> dict[str, torch.Tensor]:
    """The weights of a file that has other names than timm, by timm's names, both in their order.

    Returns:
        Nothing if a name is known; or if number, shapes or last words of names, as ``running_mean``, are
        not the model's, beside a classifier at the end that the model does not have.
    """
    own = model.state_dict()
    firsts = {
        f"{first}.weight" for first in _names(getattr(model, "default_cfg", {}), "first_conv")
    }

    def alike(name: str, timms: str) -> bool:
        shapes = [given[name].shape, own[timms].shape]
        if timms in firsts:  # timm adapts it to the number of channels
            shapes = [shape[:1] + shape[2:] for shape in shapes]
        ends = [each.rpartition(".")[2] for each in (name, timms)]
        return shapes[0] == shapes[1] and ends[0] == ends[1]

    names, classifier = [*given][: len(own)], [*given][len(own) :]
    features = getattr(model, "num_features", None)
    ends = [(name.rpartition(".")[2], *given[name].shape[1:]) for name in classifier]
    if (
        own.keys() & given.keys()
        or len(names) < len(own)
        or ends not in ([], [("weight", features), ("bias",)])
        or not all(map(alike, names, own))
    ):
        return {}
    logger.warning(
        "%s has other names than timm: its %d weights were taken in their order, from %s as %s to %s as"
        " %s%s. All shapes agree, and so do the names' last words; layers of one shape in another order"
        " would not be noticed, so look at what is measured before training",
        path,
        len(own),
        names[0],
        next(iter(own)),
        names[-1],
        [*own][-1],
        f", without {' and '.join(classifier)}" if classifier else "",
    )
    return dict(zip(own, (given[name] for name in names), strict=True))


def _for_channels(weight: torch.Tensor, channels: int) -> torch.Tensor:
    """A convolution's weight for other channels: repeated in turn and scaled, or summed for one.

    This is timm's rule; timm's own function took only three channels before 1.0.31.
    """
    given = weight.shape[1]
    if channels == 1:
        adapted = weight.float().sum(1, keepdim=True)
    else:
        turns = weight.float().repeat(1, -(-channels // given), 1, 1)
        adapted = turns[:, :channels] * (given / channels)
    return adapted.to(weight.dtype)


def _names(config: Mapping[str, Any], entry: str) -> tuple[str, ...]:
    """The names of layers in an entry of timm, which has one, several or none."""
    names = config.get(entry) or ()
    return (names,) if isinstance(names, str) else tuple(names)


def _differences(weights: Mapping[str, Any], model: nn.Module) -> dict[str, list[str]]:
    """The names of weights that a model lacks or does not know, or that have another shape."""
    own = model.state_dict()
    return {
        "missing": [name for name in own if name not in weights],
        "unknown to it": [name for name in weights if name not in own],
        "of another shape": [
            f"{name} {tuple(weights[name].shape)} for {tuple(own[name].shape)}"
            for name in own
            if name in weights and weights[name].shape != own[name].shape
        ],
    }


def _require_fit(weights: Mapping[str, Any], model: nn.Module, path: Path) -> None:
    """Refuse weights of another model, with the names and the numbers of the differences."""
    wrong = [
        f"{len(names)} {'is' if len(names) == 1 else 'are'} {what} ({', '.join(names[:SHOWN])}"
        f"{', ...' if len(names) > SHOWN else ''})"
        for what, names in _differences(weights, model).items()
        if names
    ]
    if wrong:
        config: Mapping[str, Any] = getattr(model, "default_cfg", {})
        raise ValueError(
            f"{str(path)!r} does not hold the {len(model.state_dict())} weights of"
            f" {config.get('architecture', type(model).__name__)!r}: {'; '.join(wrong)}; name the model"
            " that was saved, with its options"
        )


def layers(model: Any) -> dict[str, int]:
    """The number of each parameter's layer, in timm's order: the stem is 0.

    Raises:
        ValueError: If timm does not group this model's parameters into layers.
    """
    from timm.models import group_parameters

    if not hasattr(model, "group_matcher"):
        raise ValueError(
            f"timm does not group the parameters of a {type(model).__name__} into layers"
        )
    numbers: dict[str, int] = group_parameters(model, model.group_matcher(), reverse=True)
    return numbers
