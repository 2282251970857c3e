"""Models of timm: created, loaded and numbered by layer, with errors that say what is right."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from torch import nn

RESERVED = ("num_classes", "pretrained", "checkpoint_path")
"""Arguments of timm that are no options here, since other parameters set them."""


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
    name: str, pretrained: bool, options: Mapping[str, Any], *, keep_head: bool = False
) -> Any:
    """Create a model, without its last layer unless ``keep_head``.

    Args:
        name: As in ``timm.list_models()``, with or without a tag of weights.
        pretrained: Download timm's weights for it.
        options: Further arguments of the model.
        keep_head: Keep the last layer: a classifier, or a CLIP tower's projection.

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
    try:
        return timm.create_model(name, pretrained=pretrained, **head, **options)
    except OSError as error:
        raise FileNotFoundError(
            f"timm's weights of {name!r} are not on this machine and cannot be downloaded: give"
            f" pretrained=False, with a file of weights as checkpoint_path=, or try again ({error})"
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


def load_weights(model: nn.Module, path: str | Path, *, keep_head: bool = False) -> None:
    """Load a file of weights, without those of the last layer unless ``keep_head``.

    Raises:
        FileNotFoundError: If there is no such file.
        RuntimeError: If it holds weights of another model.
    """
    from timm.models import load_state_dict

    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file of weights {str(path)!r}")

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
