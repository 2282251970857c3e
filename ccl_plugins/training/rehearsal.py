"""What training begins with, made once for its mistakes and given up."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ccl_plugins.training.module import backend_of
from ccl_plugins.training.parameter_groups import parameter_groups
from ccl_plugins.training.parts import Parts
from ccl_plugins.training.sampling import Batches, Consumed, EpochSampler
from ccl_plugins.training.settings import FitSettings
from ccl_plugins.training.tables import Tables


def rehearse(parts: Parts, split: Any, settings: FitSettings) -> None:
    """Fit the tables that do not depend on the networks, and make the sampler and the groups of parameters.

    Warnings are left to the training itself.

    Raises:
        ValueError: For missing values, and for settings that do not suit data or networks.
    """
    for each in rehearsals(parts, split, settings):
        each()


def rehearsals(parts: Parts, split: Any, settings: FitSettings) -> list[Callable[[], Any]]:
    """The calls of `rehearse`, none of which depends on another."""
    return [
        partial(_batches, parts, split, settings),
        partial(
            parameter_groups, parts.method, parts.objective, settings.decay, settings.layer_decay
        ),
        partial(backend_of, settings),
    ]


def tables(conditions: Mapping[str, Any], split: Any, settings: FitSettings) -> Tables:
    """The tables of conditions that do not depend on the networks."""
    made = Tables(conditions, len(split), settings.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.keep_once(split)
    return made


def _batches(parts: Parts, split: Any, settings: FitSettings) -> None:
    made = tables(parts.conditions, split, settings)
    if all(c.refresh == "batch" or name in made for name, c in parts.conditions.items()):
        sampler = EpochSampler(parts, made, settings)
        batches = Batches(sampler, Consumed(), settings.batch_size, 0, settings.processes)
        settings.check_accumulate(len(batches))
