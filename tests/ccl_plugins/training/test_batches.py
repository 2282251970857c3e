from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from ccl_plugins.samplers import Uniform
from ccl_plugins.training import FitSettings
from ccl_plugins.training.sampling import Batches, Consumed, check_processes, rank_slice


def make(consumed: int = 0, rank: int = 0, world: int = 1) -> Batches:
    def sampler() -> Any:
        return Uniform(size=20, batch_size=6, seed=3)

    return Batches(sampler, Consumed(consumed), 6, rank, world)


def test_an_epoch_started_in_the_middle_gives_the_rest_of_it() -> None:
    assert list(make(consumed=5)) == list(make(consumed=3))[2:]
    assert len(make(consumed=5)) == 3


def test_every_epoch_has_its_own_order() -> None:
    first, second = list(make(0)), list(make(3))
    assert [key[0] for batch in second for key in batch] == [1] * 18
    assert [k[2] for b in first for k in b] != [k[2] for b in second for k in b]


def test_processes_share_each_global_batch_with_its_keys() -> None:
    whole = list(make())
    parts = [list(make(rank=r, world=3)) for r in range(3)]
    joined = [[key for part in batch for key in part] for batch in zip(*parts, strict=True)]
    assert joined == whole


def test_positions_number_the_samples_of_an_epoch() -> None:
    assert [key[1] for batch in make() for key in batch] == list(range(18))


def test_the_first_batch_is_read_when_iteration_begins() -> None:
    batches = make()
    keys = iter(batches)
    batches.consumed.batches = 2
    assert next(keys)[0][:2] == (0, 0)


def test_a_partner_follows_the_index() -> None:
    class Partners:
        def __len__(self) -> int:
            return 1

        def batches(self, epoch: int, start: int = 0) -> Iterator[Tensor]:
            yield torch.tensor([[4, 9], [5, 8]])

    keys = list(Batches(Partners, Consumed(), 2))
    assert keys == [[(0, 0, 4, 9), (0, 1, 5, 8)]]


def test_a_batch_that_cannot_be_shared_evenly_is_refused() -> None:
    with pytest.raises(ValueError, match=r"10 samples .* 4 processes.* 8 or 12"):
        rank_slice(torch.arange(10), 0, 4)
    with pytest.raises(ValueError, match="6 samples"):
        make(world=4)


def test_a_last_batch_that_cannot_be_shared_is_refused_before_the_first() -> None:
    def batches(size: int, world: int) -> Batches:
        return Batches(
            lambda: Uniform(drop_last=False, size=size, batch_size=6, seed=0),
            Consumed(),
            6,
            0,
            world,
        )

    with pytest.raises(
        ValueError, match=r"epoch of 19 .* batch_size 6 .* of 1, which 2 proc.*drop_l"
    ):
        batches(19, 2)
    assert [len(batch) for batch in batches(20, 2)] == [3, 3, 3, 1]
    assert [len(batch) for batch in batches(19, 1)] == [6, 6, 6, 1]


@pytest.mark.parametrize(
    ("launcher", "variables"),
    [
        ("torchrun", {"TORCHELASTIC_RUN_ID": "1", "WORLD_SIZE": "2"}),
        ("srun", {"SLURM_STEP_NUM_TASKS": "2"}),
    ],
)
def test_processes_that_would_each_train_alone_are_refused(
    launcher: str, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(
        ValueError, match=f"{launcher} started 2 processes, and devices=1 on nodes=1"
    ):
        check_processes(FitSettings(1, 8))
    check_processes(FitSettings(1, 8, nodes=2))
