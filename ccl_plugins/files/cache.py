"""A cache of tensors on the disk: results that were computed once are read the next time."""

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

from ccl_plugins.files.sums import DamagedFile
from ccl_plugins.files.tensors import read_tensors, write_tensors


def default_folder() -> Path:
    """``$CCL_CACHE``, else ``ccl-plugins`` in the user's cache folder."""
    if os.environ.get("CCL_CACHE"):
        return Path(os.environ["CCL_CACHE"]).expanduser()
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "ccl-plugins"


def cached(
    folder: Path, name: str, made_of: Mapping[str, Any], size: int, make: Callable[[], Tensor]
) -> Tensor:
    """The result of ``make()``, read from its file if an earlier call wrote one for the same inputs.

    Several processes may call this at once: each process that finds no file writes one, atomically.

    Args:
        folder: The cache.
        name: The readable part of the file's name.
        made_of: All inputs of the result, as plain data; ``"dataset"`` is the fingerprint of the
            images.
        size: Rows of the result.
        make: Computes the result, (size, f).

    Warns:
        UserWarning: For a file that is damaged or stale; it is computed again.
    """
    inputs = {
        key: value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        for key, value in made_of.items()
    }
    digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
    path = folder / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}-{digest[:16]}.safetensors"
    try:
        tensors, written = read_tensors(path)
        values = tensors.get("values")
        if written == inputs and values is not None and len(values) == size:
            return values
        warnings.warn(f"{path} was computed from other inputs; it is computed again", stacklevel=3)
    except FileNotFoundError:
        pass
    except DamagedFile as error:
        warnings.warn(f"{error}; it is computed again", stacklevel=3)
    values = make()
    write_tensors(path, {"values": values}, inputs)
    return values
