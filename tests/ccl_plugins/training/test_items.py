from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from support.training_fakes import FakeDataset, FakeTransform, noisy
from torch import Tensor
from torchvision.transforms.v2.functional import to_pil_image

from ccl_plugins.numerics.generators import generator_states
from ccl_plugins.training.loader import Batch, Items, Loader, augment, collate
from ccl_plugins.training.sampling import Batches, Consumed
from ccl_plugins.transforms import SimCLRTransform

KEYS = [(0, 0, 3), (0, 1, 5), (1, 0, 3)]


def items(views: Any = None, seed: int = 0) -> Items:
    return Items(FakeDataset()("train"), views or FakeTransform(), seed)


def test_a_sample_is_the_same_whatever_was_drawn_before() -> None:
    together = items().__getitems__(KEYS)
    torch.rand(3), np.random.rand(3), random.random()
    alone = [items()[key] for key in reversed(KEYS)][::-1]
    torch.testing.assert_close(together, alone, rtol=0, atol=0)


def test_samples_differ_by_seed_epoch_position_and_view() -> None:
    drawn = [items()[0, 0, 3], items()[1, 0, 3], items()[0, 1, 3], items(seed=1)[0, 0, 3]]
    views = [view for sample in drawn for view in sample.views]
    for i, a in enumerate(views):
        assert not any(torch.equal(a, b) for b in views[i + 1 :])


def test_a_view_does_not_depend_on_what_another_draws() -> None:
    def greedy(image: Tensor) -> Tensor:
        torch.rand(100), np.random.rand(100), random.random()
        return noisy(image)

    views = FakeTransform()
    expected = items(views)[KEYS[0]][0][1]
    views.transforms = [greedy, noisy]
    torch.testing.assert_close(items(views)[KEYS[0]][0][1], expected, rtol=0, atol=0)


def test_views_without_transforms_are_seeded_together() -> None:
    views = FakeTransform(separate=False)
    torch.testing.assert_close(items(views)[KEYS[1]], items(views)[KEYS[1]], rtol=0, atol=0)


def test_drawing_leaves_the_global_generators_alone() -> None:
    before = generator_states()
    items().__getitems__(KEYS)
    torch.testing.assert_close(generator_states(), before, rtol=0, atol=0)


@pytest.mark.parametrize("separate", [True, False])
def test_the_views_after_the_first_show_the_partner(separate: bool) -> None:
    class Plain(FakeTransform):
        def __call__(self, image: Tensor) -> list[Tensor]:
            return [image, image]

    views = Plain()
    if separate:
        views.transforms = [lambda image: image] * 2
    else:
        del views.transforms
    split = FakeDataset()("train")
    batch = collate(items(views).__getitems__([(0, 0, 3, 7), (0, 1, 4, 8)]))
    torch.testing.assert_close(batch.views, [split.images[[3, 4]], split.images[[7, 8]]])
    assert batch.index.tolist() == [[3, 7], [4, 8]]


@pytest.mark.parametrize("batched", [False, True])
def test_workers_give_what_the_main_process_gives(batched: bool) -> None:
    from ccl_plugins.samplers import Uniform

    def batches(workers: int) -> list[Any]:
        def sampler() -> Any:
            return Uniform(size=20, batch_size=6, seed=3)

        split = FakeDataset()("train")
        its = Items(split, BATCHED, 3, batched=True) if batched else items()
        loader = Loader(its, Batches(sampler, Consumed(), 6), workers, pin_memory=False)
        try:
            return [tuple(augment(BATCHED, batch)) for batch in loader]
        finally:
            loader.close()

    torch.testing.assert_close(batches(2), batches(0), rtol=0, atol=0)


BATCHED = SimCLRTransform(size=6, batched=True)


def drawn(keys: Any, seed: int = 0, split: Any = None) -> list[Tensor]:
    """The views of a batch of keys, drawn together."""
    items = Items(split or FakeDataset()("train"), BATCHED, seed, batched=True)
    batch = augment(BATCHED, collate(items.__getitems__(keys)))
    assert batch.seeds is None
    return batch.views


def test_batched_views_do_not_depend_on_the_rest_of_the_batch() -> None:
    keys = [(1, position, index) for position, index in enumerate([3, 3, 7, 0, 19, 4])]
    whole = drawn(keys)
    assert [view.shape for view in whole] == [(6, 3, 6, 6)] * 2
    torch.rand(3)
    halves = zip(drawn(keys[:3]), drawn(keys[3:]), strict=True)  # as two ranks, or after a resume
    torch.testing.assert_close([torch.cat(half) for half in halves], whole)
    several = [*whole, *drawn([(2, p, i) for _, p, i in keys]), *drawn(keys, seed=1)]
    alike = [bool(torch.isclose(a, b).all()) for a in several for b in several if a is not b]
    assert not any(alike)
    assert not torch.isclose(whole[0][0], whole[0][1]).all()  # one sample at two positions


def test_batched_views_after_the_first_show_the_partner() -> None:
    one, two = drawn([(0, 0, 3, 7), (0, 1, 4, 8)])
    torch.testing.assert_close(one, drawn([(0, 0, 3), (0, 1, 4)])[0])
    torch.testing.assert_close(two, drawn([(0, 0, 7), (0, 1, 8)])[1])


def test_views_of_one_function_are_drawn_in_one_call() -> None:
    calls = []

    def shifted(images: Tensor, seeds: Tensor) -> Tensor:
        calls.append(len(images))
        return images + 100.0 * seeds[:, None, None, None]

    class Three:
        count = 3
        batch_transforms = (shifted, lambda images, seeds: images, shifted)

    images, partners = torch.zeros(2, 1, 1, 1), torch.ones(2, 1, 1, 1)
    seeds = torch.tensor([[1, 2, 3], [4, 5, 6]])
    batch = augment(Three(), Batch([images, partners], torch.arange(2), seeds=seeds))  # type: ignore[arg-type]
    assert calls == [4]
    assert [view.flatten().tolist() for view in batch.views] == [[100, 400], [1, 1], [301, 601]]
    Three.batch_transforms = (shifted, lambda images, seeds: images[:1], shifted)
    with pytest.raises(ValueError, match=r"Three.batch_transforms must make a tensor of 2 views"):
        augment(Three(), Batch([images, partners], torch.arange(2), seeds=seeds))  # type: ignore[arg-type]


def test_batched_views_are_drawn_of_images_of_pil_too() -> None:
    split = FakeDataset()("train")
    pil = [(to_pil_image(image), 0) for image in split.images]
    torch.testing.assert_close(drawn(KEYS, split=pil), drawn(KEYS), rtol=0, atol=0)


def test_images_of_different_shapes_cannot_be_batched() -> None:
    split = [(torch.zeros(3, 4, 4 + i % 2, dtype=torch.uint8), 0) for i in range(9)]
    with pytest.raises(ValueError, match=r"sample 4 is \(3, 4, 4\), sample 5 \(3, 4, 5\): leave"):
        drawn([(0, 0, 4), (0, 1, 6), (0, 2, 5)], split=split)


def test_a_process_ends_after_a_sample_that_a_worker_cannot_read() -> None:
    """A worker that ignored the signal by which Python ends it would be waited for without end."""
    script = (
        "from ccl_plugins.training.loader import read_batch\n"
        "try:\n"
        "    read_batch([0], [7], list, 1)\n"
        "except IndexError as error:\n"
        "    kept = error\n"
        "    print('refused')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout == "refused\n"
