from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from support.training_fakes import fit, make_parts
from support.vector_pipeline import make_pipeline
from torch import Tensor

from ccl_plugins.samplers import Uniform
from ccl_plugins.training.fitting import CannotBegin, rehearse
from ccl_plugins.training.sampling import Batches, Consumed, check_processes, rank_slice
from ccl_plugins.training.settings import FitSettings


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


def test_a_step_of_more_batches_than_an_epoch_has_is_refused_before_the_backbone_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its learning rate would be scaled for batches that it never has."""
    monkeypatch.setattr("ccl_plugins.experiments.train.measure", pytest.fail)
    words = "accumulate must be 1 to 2, not 3: an epoch has 2 batches of batch_size 16"
    with pytest.raises(ValueError, match=words):
        make_pipeline(accumulate=3).fit(out=tmp_path / "run", progress=False)
    with pytest.raises(ValueError, match="batch_size must be 1 to 32, the number of samples"):
        make_pipeline(batch_size=10**9).fit(out=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_so_is_one_of_a_sampler_that_reads_a_condition(tmp_path: Path) -> None:
    """Its batches are known once the condition is fitted."""
    parts, settings = make_parts(), FitSettings(1, 4, accumulate=6, workers=0)
    words = "accumulate must be 1 to 5, not 6"
    with pytest.raises(ValueError, match=words):
        rehearse(parts, parts.dataset("train"), settings)
    with pytest.raises(CannotBegin, match=words):
        fit(parts, settings, tmp_path, {}, progress=False)


TASKS = {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "train", "SLURM_NTASKS": "4"}
STEP = {**TASKS, "SLURM_STEP_NUM_TASKS": "4"}


@pytest.mark.parametrize(
    ("variables", "given", "words"),
    [
        (TASKS, {}, "asked for 4 tasks and srun started none .* begin the command with srun, in a"),
        (TASKS, {"devices": 4}, "with srun, in a job with --nodes=1 --ntasks-per-node=4"),
        ({**TASKS, "SLURM_NTASKS": "1"}, {"devices": 4}, "asked for 1 tasks .* are 4: begin the"),
        (STEP, {"devices": 4}, "give the job --nodes=1 --ntasks-per-node=4, and no --ntasks"),
        (STEP, {}, "srun started 4 processes, and devices=1 on nodes=1 are 1: give devices"),
        (
            {**STEP, "SLURM_NTASKS_PER_NODE": "4", "SLURM_NNODES": "1"},
            {"devices": 2, "nodes": 2},
            "in another way than devices=2 on nodes=2: give the job --nodes=2 --ntasks-per-node=2",
        ),
        ({**STEP, "SLURM_STEP_NUM_TASKS": "1"}, {"devices": 4}, "srun started 1 processes, and"),
    ],
)
def test_a_job_of_slurm_of_another_shape_is_refused_with_what_to_do(
    variables: dict[str, str], given: dict[str, int], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its processes would wait for others that nobody starts."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=words):
        check_processes(FitSettings(1, 8, **given))


@pytest.mark.parametrize(
    ("variables", "given"),
    [
        ({**TASKS, "SLURM_NTASKS": "1"}, {}),
        ({**TASKS, "SLURM_JOB_NAME": "bash"}, {"devices": 4}),
        ({"SLURM_JOB_NAME": "bash", "SLURM_STEP_NUM_TASKS": "1"}, {"devices": 2}),
        ({**STEP, "SLURM_NTASKS_PER_NODE": "4"}, {"devices": 4}),
        ({**STEP, "SLURM_NTASKS_PER_NODE": "2", "SLURM_NNODES": "2"}, {"devices": 2, "nodes": 2}),
        ({**TASKS, "TORCHELASTIC_RUN_ID": "1", "WORLD_SIZE": "4"}, {"devices": 4}),
    ],
)
def test_a_job_of_slurm_that_fits_is_taken(
    variables: dict[str, str], given: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    check_processes(FitSettings(1, 8, **given))
