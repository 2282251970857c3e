"""A kernel that reads the words of class ids in the data set, as a run gives it."""

from __future__ import annotations

from functools import cached_property

import pytest
import torch

import ccl_plugins as ccl
from ccl_plugins.figures import KernelMatrix


class FirstLetter:
    """1 where the words of two ids begin alike."""

    EXAMPLE_CONDITION = torch.tensor([0, 1, 2])
    positive_definite = True

    def __init__(self, column: str = "word", *, dataset) -> None:
        self.column, self.dataset = column, dataset

    @cached_property
    def first(self):
        words = self.dataset("train").vocabulary[self.column]
        return torch.tensor([ord(word[0]) for word in words])

    def __call__(self, a, b):
        first = self.first.to(a.device)
        return (first[a][:, None] == first[b]).float()


class Words:
    """Noise, with words for four ids; it counts how often it is copied."""

    copies = 0

    def __call__(self, split):
        return self.of(split)

    def of(self, split):
        generator = torch.Generator().manual_seed(int(split == "test"))
        made = torch.utils.data.TensorDataset(
            torch.randint(0, 256, (32, 3, 32, 32), generator=generator).byte()
        )
        made.metadata = {"label": torch.arange(32) % 4, "word": torch.arange(32) % 4}
        made.vocabulary = {"word": ["ant", "bee", "ape", "bat"]}
        return made

    def schema(self):
        return {"label": "categorical", "word": "categorical"}

    def __deepcopy__(self, memo):
        Words.copies += 1
        return self


def composed(kernel, **given):
    return ccl.Pipeline(
        dataset=ccl.local("dataset", Words),
        backbone="lenet5",
        transform={"use": "simclr", "size": 32},
        method={"use": "moco_v2", "hidden": 8, "dim": 4, "queue_size": 16},
        objective=ccl.objective("fair_cclk", kernel=kernel),
        condition={"use": "column", "name": "word"},
        evaluate=[],
        monitor="off",
        fit={"max_steps": 4, "batch_size": 8, "workers": 0, "checkpoint_every_steps": 2},
        **given,
    )


def test_a_run_and_a_figure_give_it_the_data_set(tmp_path):
    pipeline = composed(ccl.local("kernel", FirstLetter))
    run = pipeline.fit(out=tmp_path / "run", progress=False)
    kernel = run.parts.objective.kernel
    ids = torch.arange(4)
    assert kernel(ids, ids).tolist() == [[1, 0, 1, 0], [0, 1, 0, 1]] * 2
    assert Words.copies == 0
    assert len(KernelMatrix()({"run": run}).axes) > 1


def test_it_may_draw_partners(tmp_path):
    sampler = ccl.sampler(
        "conditional_pair", kernel=ccl.local("kernel", FirstLetter), on="condition"
    )
    pipeline = composed("delta", sampler=sampler)
    drawn = pipeline.build().sampler(size=32, batch_size=8, seed=0, condition=torch.arange(32) % 4)
    for batch in drawn.batches(0):
        assert (batch % 2).diff(dim=1).eq(0).all()
    pipeline.fit(out=tmp_path / "run", progress=False)


def test_without_a_pipeline_it_says_what_it_lacks():
    with pytest.raises(ccl.RegistryError, match="without dataset, which a pipeline supplies"):
        ccl.local("kernel", FirstLetter).build()
