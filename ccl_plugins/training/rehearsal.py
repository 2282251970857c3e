"""What training begins with, made once for its mistakes and given up."""

from __future__ import annotations

import warnings
from typing import Any

from ccl_plugins.training.module import backend_of
from ccl_plugins.training.optimizers import parameter_groups
from ccl_plugins.training.parts import Parts
from ccl_plugins.training.sampling import Batches, Consumed, EpochSampler
from ccl_plugins.training.settings import FitSettings
from ccl_plugins.training.tables import Tables, reads_embeddings


def rehearse(parts: Parts, split: Any, settings: FitSettings) -> None:
    """Fit the tables that do not depend on the networks, and make the sampler and the groups of parameters.

    Warnings are left to the training itself.

    Raises:
        ValueError: For missing values, and for settings that do not suit data or networks.
    """
    fitted = {name: c for name, c in parts.conditions.items() if c.refresh != "batch"}
    early = {n: c for n, c in fitted.items() if c.refresh == "never" and not reads_embeddings(c)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tables = Tables(early, len(split), settings.seed)
        tables.refresh(0, split, _no_embeddings)
        if early.keys() == fitted.keys():
            sampler = EpochSampler(parts, tables, settings)
            Batches(sampler, Consumed(), settings.batch_size, 0, settings.processes)
    given = settings.optimizer
    parameter_groups(parts.method, parts.objective, given["decay"], given["layer_decay"])
    backend_of(settings)


def _no_embeddings() -> Any:
    raise AssertionError("a condition that embeds the training set is not rehearsed")
