"""Models of timm, made with errors that say what would be right."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from torch import nn

OWN = ("num_classes", "pretrained", "checkpoint_path")
"""What timm takes among a model's options, but is said in another way here."""


def check_name(name: str) -> None:
    """Refuse a name that timm does not have, with those that are near.

    Raises:
        ValueError: For such a name.
    """
    import timm  # takes seconds, and listing the components needs none of it

    # A source before the name ("hf-hub:") is timm's to resolve.
    if ":" in name or timm.is_model(name):
        return
    close = get_close_matches(name, timm.list_models(), n=3)
    hint = f"; did you mean {', '.join(close)}?" if close else "; see timm.list_models()"
    raise ValueError(f"timm has no model {name!r}{hint}")


def create(
    name: str, pretrained: bool, options: Mapping[str, Any], *, keep_head: bool = False
) -> Any:
    """A model, without its last layer unless ``keep_head``.

    Args:
        name: As in ``timm.list_models()``, with or without a tag of weights.
        pretrained: Download timm's weights for it.
        options: Further arguments of the model.
        keep_head: Keep the last layer: a classifier, or a CLIP tower's projection.

    Raises:
        ValueError: If timm has no such model, or an option is said in another way.
        FileNotFoundError: If its weights are not on this machine and cannot be downloaded.
        TypeError: If the model does not take an option.
    """
    import timm

    check_name(name)
    own = sorted(set(options) & set(OWN))
    if own:
        raise ValueError(f"options must not hold {', '.join(own)}, which are set beside them")
    head: dict[str, Any] = {} if keep_head else {"num_classes": 0}
    try:
        return timm.create_model(name, pretrained=pretrained, **head, **options)
    except OSError as error:
        raise FileNotFoundError(
            f"timm's weights of {name!r} are not on this machine and cannot be downloaded: give"
            f" pretrained=False, with a file of weights as checkpoint_path=, or try again ({error})"
        ) from error
    except TypeError as error:
        # timm hands options through **kwargs: only the model's class knows which it takes.
        if "unexpected keyword argument" not in str(error):
            raise
        model = timm.create_model(name, num_classes=0)
        takes = sorted(set(inspect.signature(type(model).__init__).parameters) - {"self", *OWN})
        raise TypeError(
            f"timm model {name!r} does not take all of the options {sorted(options)}; "
            f"{type(model).__name__} takes {', '.join(takes)}"
        ) from error


def load_weights(model: nn.Module, path: str | Path, *, keep_head: bool = False) -> None:
    """Load a file of weights, leaving out those of a last layer that the model does not have.

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
    # timm names the last layer, which num_classes=0 has removed.
    prefixes = () if keep_head else tuple(f"{head}." for head in heads)
    model.load_state_dict({k: v for k, v in weights.items() if not k.startswith(prefixes)})


def layers(model: Any) -> dict[str, int]:
    """The number of the layer that each parameter belongs to, as timm counts: the stem is 0.

    Raises:
        ValueError: If timm does not say so of this model.
    """
    from timm.models import group_parameters

    if not hasattr(model, "group_matcher"):
        raise ValueError(f"timm does not say which layers a {type(model).__name__} has")
    found: dict[str, int] = group_parameters(model, model.group_matcher(), reverse=True)
    return found
