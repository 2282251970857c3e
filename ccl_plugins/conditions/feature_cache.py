"""Features kept on the disk, found again by what they were made of."""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from ccl_plugins import tensor_files


def default_folder() -> Path:
    """``$CCL_CACHE``, else ``ccl-plugins`` among the user's caches."""
    if os.environ.get("CCL_CACHE"):
        return Path(os.environ["CCL_CACHE"])
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "ccl-plugins"


def cached(
    folder: Path, name: str, made_of: Mapping[str, Any], size: int, make: Callable[[], Tensor]
) -> Tensor:
    """What ``make`` gives, from a file where there is one that was made of the same.

    Several processes may ask at once: each that finds no file makes one, and files appear whole.

    Args:
        folder: Where files are.
        name: Begins a file's name, for people.
        made_of: Everything that the result depends on, as plain data; ``"dataset"`` is the
            fingerprint of the images.
        size: Rows of the result.
        make: Gives (size, f).

    Warns:
        UserWarning: For a file that is damaged or stale, which is made anew.
    """
    about = {
        key: value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        for key, value in made_of.items()
    }
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    path = folder / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}-{digest[:16]}.safetensors"
    found = _read(path, about, size)
    if found is None:
        found = make()
        tensor_files.write(path, {"values": found}, about)
    return found


def _read(path: Path, about: Mapping[str, str], size: int) -> Tensor | None:
    try:
        tensors, written = tensor_files.read(path)
    except FileNotFoundError:
        return None
    except tensor_files.DamagedFile as error:
        warnings.warn(f"{error}; it is made anew", stacklevel=4)
        return None
    if written != dict(about) or "values" not in tensors or len(tensors["values"]) != size:
        warnings.warn(f"{path} was made of something else; it is made anew", stacklevel=4)
        return None
    return tensors["values"]
