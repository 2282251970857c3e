"""The global random generators of python, numpy and torch: seeding, saving, restoring.

Lightly's transforms draw from all three, so a sample is reproducible only if each is seeded.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

_MASK = (1 << 64) - 1


def mix(*numbers: int) -> int:
    """A 64-bit seed that depends on every number and on their order (SplitMix64's finalizer)."""
    x = 0
    for number in numbers:
        x = (x ^ number) + 0x9E3779B97F4A7C15 & _MASK
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _MASK
        x ^= x >> 31
    return x


def seed_cpu(seed: int) -> None:
    """Seed python, numpy and torch's CPU generator, in 8 us.

    ``torch.manual_seed`` would seed every accelerator as well, which takes 0.2 ms.
    """
    random.seed(seed)
    np.random.seed(seed & 0xFFFF_FFFF)
    torch.default_generator.manual_seed(seed)


def seed_everything(seed: int, *stream: int) -> None:
    """Seed all generators, those of accelerators too, from ``seed`` and the numbers of a stream."""
    seed_cpu(mix(seed, *stream))
    torch.manual_seed(mix(seed, *stream))


def cpu_states() -> tuple[Any, ...]:
    """The states of python's, numpy's and torch's CPU generator, for this process."""
    return random.getstate(), np.random.get_state(), torch.get_rng_state()


def set_cpu_states(states: tuple[Any, ...]) -> None:
    """Set the three generators to the states from `cpu_states`."""
    python, numpy, cpu = states
    random.setstate(python)
    np.random.set_state(numpy)
    torch.set_rng_state(cpu)


def generator_states() -> dict[str, Any]:
    """The states of all generators as plain data and tensors, for a checkpoint."""
    (version, words, gauss), numpy, cpu = cpu_states()
    _, keys, *numbers = numpy  # the first is the name of the generator, MT19937
    return {
        "python": [version, list(words), gauss],
        "numpy": [torch.from_numpy(keys.astype(np.int64)), *map(float, numbers)],
        "torch": cpu,
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],
    }


def restore_generators(states: Mapping[str, Any]) -> None:
    """Set all generators to the states from `generator_states`."""
    version, words, gauss = states["python"]
    keys, position, has_gauss, cached = states["numpy"]
    numpy = ("MT19937", keys.numpy().astype(np.uint32), int(position), int(has_gauss), cached)
    set_cpu_states(((version, tuple(words), gauss), numpy, states["torch"].cpu()))
    if states["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all([state.cpu() for state in states["cuda"]])


def drawn_since(states: Mapping[str, Any]) -> bool:
    """Whether random numbers were drawn after the states from `generator_states`."""

    def differ(before: Any, now: Any) -> bool:
        if isinstance(before, list):
            return len(before) != len(now) or any(map(differ, before, now))
        return not torch.equal(before, now) if isinstance(before, torch.Tensor) else before != now

    return any(differ(states[name], now) for name, now in generator_states().items())


@contextmanager
def undisturbed(devices: bool = False) -> Iterator[None]:
    """Restore python's, numpy's and torch's CPU generator afterwards (0.1 ms).

    Args:
        devices: Whether to restore the generators of accelerators, too.
    """
    states = cpu_states()
    cuda = torch.cuda.get_rng_state_all() if devices and torch.cuda.is_available() else []
    try:
        yield
    finally:
        set_cpu_states(states)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)
