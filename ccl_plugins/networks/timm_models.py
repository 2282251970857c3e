"""Models of timm: created, loaded and numbered by layer, with errors that say what is right."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ccl_plugins.files.sums import check_sum

RESERVED = ("num_classes", "pretrained", "checkpoint_path")
"""Arguments of timm that are no options here, since other parameters set them."""

logger = logging.getLogger(__name__)

HUB = ("hf-hub:", "hf_hub:")
"""How a name begins whose model is described on the Hugging Face Hub."""

PATIENCE = 10.0
"""How long the Hub may take to answer, in seconds."""


def check_name(name: str) -> None:
    """Refuse a name that timm does not have.

    Raises:
        ValueError: With similar names.
    """
    import timm  # late: it takes seconds, and listing the components does not need it

    # timm resolves a source before the name ("hf-hub:") itself.
    if ":" in name or timm.is_model(name):
        return
    close = get_close_matches(name, timm.list_models(), n=3)
    hint = f"; did you mean {', '.join(close)}?" if close else "; see timm.list_models()"
    raise ValueError(f"timm has no model {name!r}{hint}")


def create(
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
        name: As in ``timm.list_models()``, with or without a tag of weights.
        pretrained: Download timm's weights for it.
        options: Further arguments of the model.
        keep_head: Keep the last layer: a classifier, or a CLIP tower's projection.
        instead: What the caller's component takes in place of a download, for the error.

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
            f"the weights of {name!r} are not on this machine and cannot be downloaded; three ways out:"
            f" {instead}, with pretrained=False; or the Hugging Face cache (HF_HOME) of a machine that"
            f" has them, with HF_HUB_OFFLINE=1; or a network ({str(error).partition('. ')[0]})"
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


@contextmanager
def _hub() -> Iterator[None]:
    """Use the Hub's cache alone while the Hub does not answer; it would be asked again for minutes."""
    from huggingface_hub import constants

    offline = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = offline or not _answers(constants.ENDPOINT)
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = offline


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


def check_image_size(
    name: str, options: Mapping[str, Any], size: int, setting: str = "the views size"
) -> None:
    """Refuse images of another size than a model takes, such as a ViT; no weights are made or loaded.

    Args:
        name: As in `create`; the models that only the Hub describes are not checked.
        options: Further arguments of the model.
        size: Height and width of the images in pixels.
        setting: What sets it, for the error.

    Raises:
        ValueError: With the size that is right, and the option that changes it.
        TypeError: If the model does not take an option.
    """
    if name.startswith(HUB):
        return
    model = _without_memory(name, options)
    if model is None or not model.pretrained_cfg.get("fixed_input_size"):
        return
    channels, *own = model.pretrained_cfg["input_size"]
    channels = options.get("in_chans", channels)
    own = options.get("img_size", own)
    own = [own, own] if isinstance(own, int) else [*own]
    if _takes(model, channels, size, size) or not _takes(model, channels, *own):
        return

    def takes_with(**option: Any) -> bool:
        try:
            other = _without_memory(name, {**options, **option})
        except TypeError:  # it has no such parameter
            return False
        return other is not None and _takes(other, channels, size, size)

    option = f"the model options = {{img_size = {size}}}, or " if takes_with(img_size=size) else ""
    any_size = takes_with(dynamic_img_size=True)
    raise ValueError(
        f"{name!r} takes images of {own[0]}x{own[1]} pixels, not of {size}x{size}: give {option}{setting}"
        f" = {own[0]}{'; with dynamic_img_size = true it takes several sizes' if any_size else ''}"
    )


def _without_memory(name: str, options: Mapping[str, Any]) -> Any:
    """A model whose tensors have shapes alone, or None if this version of timm cannot make it so."""
    with torch.device("meta"):
        try:
            return create(name, False, options).eval()
        except (RuntimeError, NotImplementedError):  # it reads numbers while it is made
            return None


def _takes(model: nn.Module, *shape: int) -> bool:
    """Whether a model without memory takes an image of this shape."""
    try:
        with torch.no_grad():
            model(torch.empty(1, *shape, device="meta"))
    except (AssertionError, RuntimeError, ValueError):
        return False
    return True


def load_weights(model: nn.Module, path: str | Path, *, keep_head: bool = False) -> None:
    """Load a file of weights, without those of the last layer unless ``keep_head``.

    Raises:
        FileNotFoundError: If there is no such file.
        RuntimeError: If it holds weights of another model.
        WrongSum: If it was exported with a checksum that it does not have.
    """
    from timm.models import load_state_dict

    path = Path(path).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"there is no file of weights {str(path)!r}")
    check_sum(path)
    weights = load_state_dict(str(path), weights_only=True)
    classifier = getattr(model, "default_cfg", {}).get("classifier") or ()
    heads = (classifier,) if isinstance(classifier, str) else tuple(classifier)
    # timm keeps the last layer's name, though num_classes=0 has removed the layer.
    prefixes = () if keep_head else tuple(f"{head}." for head in heads)
    model.load_state_dict({k: v for k, v in weights.items() if not k.startswith(prefixes)})


def layers(model: Any) -> dict[str, int]:
    """The number of each parameter's layer, as timm counts them: the stem is 0.

    Raises:
        ValueError: If timm does not group this model's parameters into layers.
    """
    from timm.models import group_parameters

    if not hasattr(model, "group_matcher"):
        raise ValueError(
            f"timm does not group the parameters of a {type(model).__name__} into layers"
        )
    found: dict[str, int] = group_parameters(model, model.group_matcher(), reverse=True)
    return found
