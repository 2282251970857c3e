"""The loader: augmented batches, worker processes, and their cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ccl_plugins.datasets.annotated import dictionary, reads_several
from ccl_plugins.files.images import read_image
from ccl_plugins.files.mapped import by_row
from ccl_plugins.numerics.generators import mix, seed_cpu, undisturbed
from ccl_plugins.pairs.patches import Masks
from ccl_plugins.protocols import Masking, Transform, trait
from ccl_plugins.training.first_use import check_drawn, check_views
from ccl_plugins.training.interrupt import ignore_in_worker
from ccl_plugins.training.sampling import Batches, SampleKey
from ccl_plugins.training.settings import FitSettings
from ccl_plugins.transforms.modalities import column_of, sources

if TYPE_CHECKING:
    from pytorch_lightning import Trainer


class Augmented(NamedTuple):
    """The views of one sample, or the images that they are drawn from.

    Args:
        views: The views; with seeds the image, followed by the partner's image if there is one.
        indices: The sample's index, followed by its partner's.
        seeds: A seed for each view that is drawn later, in a batch; else empty.
        masks: (rows, columns) for each view with masked patches.
    """

    views: list[Tensor]
    indices: list[int]
    seeds: tuple[int, ...] = ()
    masks: Sequence[Tensor] = ()


class Batch(NamedTuple):
    """The input of a training step.

    Args:
        views: u tensors (n, channels, height, width), or in the form of other modalities.
        index: (n,) dataset indices, or (n, 2) if views after the first are of a partner.
        read: The values of conditions whose tables are in files, by name, (n, ...) or (n, 2, ...);
            None: they are read in the step.
        seeds: (n, u) of views that are drawn on the device, by `augment`; ``views`` are then images
            (n, channels, height, width), and those of partners.  None: ``views`` are views.
        masks: The patches that the method masks, if it masks some.
    """

    views: list[Tensor]
    index: Tensor  # type: ignore[assignment]  # hides tuple.index, which a batch does not need
    read: Mapping[str, Tensor] | None = None
    seeds: Tensor | None = None
    masks: Masks | None = None


class Items(Dataset[Augmented]):
    """The views of each sample of a split, by its key.

    Each view's random numbers are seeded by (seed, epoch, position, view): a sample is the same in
    any process, with any number of workers, and training's generators do not change. Views of a
    transform without ``transforms`` are seeded together. Views of several modalities are made of
    the image, the texts and the values of a sample. A split with ``__getitems__``, as torch names
    it, reads the images of a batch in one call.

    Args:
        split: The split.
        transform: The transform.
        seed: The run's seed.
        batched: Whether to return images, from which `augment` draws the views of a batch.
        masking: The method's masking of patches; None: none.
    """

    def __init__(
        self,
        split: Any,
        transform: Transform,
        seed: int,
        batched: bool = False,
        masking: Masking | None = None,
    ) -> None:
        self.split = split
        self.transform = transform
        self.transforms = trait(transform, "transforms")
        self.columns = (
            {name: s and by_row(column_of(split, s)) for name, s in sources(transform).items()}
            if trait(transform, "modalities")
            else None
        )
        self.seed = seed
        self.batched = batched
        self.masking = masking
        self._read_many = split.__getitems__ if reads_several(split) else None

    def __getitem__(self, key: SampleKey) -> Augmented:
        return self.__getitems__([key])[0]

    def __getitems__(self, keys: Sequence[SampleKey]) -> list[Augmented]:
        """A whole batch, so that the global generators are saved and restored once."""
        with undisturbed():
            together = self._read_together(keys)
            return [self._with_masks(self._draw(together, *key), *key) for key in keys]

    def _read_together(self, keys: Sequence[SampleKey]) -> dict[int, Any]:
        """The images of a batch by index, if the split reads several at once; else empty.

        Such a split draws its random numbers for all of them together.
        """
        if self._read_many is None:
            return {}
        seed_cpu(mix(self.seed, *keys[0][:2], 0))
        indices = [*dict.fromkeys(index for _, _, *places in keys for index in places)]
        return dict(zip(indices, self._read_many(indices), strict=True))

    def _draw(
        self, together: Mapping[int, Any], epoch: int, position: int, *indices: int
    ) -> Augmented:
        # Before the images are read, since a data set may draw random numbers too.
        seed_cpu(mix(self.seed, epoch, position, 0))
        images = [self._read(i, together) for i in indices]
        if self.batched:
            count = self.transform.count
            # 63 bits, which a signed tensor holds.
            seeds = tuple(mix(self.seed, epoch, position, view) >> 1 for view in range(count))
            return Augmented([_as_tensor(image) for image in images], list(indices), seeds)
        if self.transforms is None:
            made = [self.transform(image) for image in images]
            for sample in made:
                check_views(self.transform, sample)
            return Augmented([made[0][0], *made[-1][1:]], list(indices))
        views = []
        for view, transform in enumerate(self.transforms):
            if view:
                seed_cpu(mix(self.seed, epoch, position, view))
            views.append(transform(images[min(view, len(images) - 1)]))
        check_views(self.transform, views)
        return Augmented(views, list(indices))

    def _with_masks(self, drawn: Augmented, epoch: int, position: int, *_: int) -> Augmented:
        """A sample with the masks of its views, which have random numbers of their own."""
        if self.masking is None:
            return drawn
        masks = []
        for view in range(self.masking.views):
            height, width = self._size(drawn, view)
            seed_cpu(mix(self.seed, epoch, position, view, 1))
            masks.append(self.masking(height, width))
        return drawn._replace(masks=masks)

    def _size(self, drawn: Augmented, view: int) -> tuple[int, int]:
        """Height and width of a view in pixels."""
        if not drawn.seeds:
            height, width = drawn.views[view].shape[-2:]
            return height, width
        side = (trait(self.transform, "sizes") or [self.transform.size] * (view + 1))[view]  # type: ignore[attr-defined]
        return side, side

    def _read(self, index: int, together: Mapping[int, Any]) -> Any:
        """The image of a sample, or its modalities for a transform of several."""
        image = _image(together[index] if index in together else self.split[index], index)
        if self.columns is None:
            return image
        return {name: image if c is None else c[index] for name, c in self.columns.items()}


def _image(sample: Any, index: int) -> Any:
    """The image of a sample (image, target)."""
    if isinstance(sample, Mapping):
        raise TypeError(dictionary(f"sample {index}", sample))
    return sample[0]


def _as_tensor(image: Any) -> Tensor:
    """The pixels of an image, of PIL or a tensor."""
    if isinstance(image, Tensor):
        return image
    from torchvision.transforms.v2.functional import pil_to_tensor  # late, as torchvision is slow

    pixels: Tensor = pil_to_tensor(read_image(image))
    return pixels


def collate(samples: Sequence[Augmented]) -> Batch:
    """Stack samples to a batch.

    Raises:
        ValueError: For images of different sizes whose views are drawn together.
    """
    index = torch.tensor([each.indices for each in samples])
    seeds = torch.tensor([each.seeds for each in samples]) if samples[0].seeds else None
    if seeds is not None:
        _check_shapes(samples)
    views = [torch.stack(view) for view in zip(*(each.views for each in samples), strict=True)]
    masks = None
    if samples[0].masks:
        masks = Masks.of(torch.stack([torch.stack([*each.masks]) for each in samples]))
    index = index.squeeze(1) if index.shape[1] == 1 else index
    return Batch(views, index, seeds=seeds, masks=masks)


def _check_shapes(samples: Sequence[Augmented]) -> None:
    """Refuse images of different shapes."""
    sample, like = samples[0].indices[0], samples[0].views[0].shape
    for each in samples:
        for index, image in zip(each.indices, each.views, strict=True):
            if image.shape != like:
                raise ValueError(
                    "views of a batch are drawn together from images of one shape, and sample"
                    f" {sample} is {tuple(like)}, sample {index} {tuple(image.shape)}: leave batched out,"
                    " or store the images in one size"
                )


def augment(transform: Transform, batch: Batch) -> Batch:
    """The batch with its views, which are drawn now if it has images and seeds."""
    if batch.seeds is None:
        return batch
    functions = trait(transform, "batch_transforms")
    views: dict[int, Tensor] = {}
    for function in {id(each): each for each in functions}.values():
        # The views of one function in one call, a view's rows after those of another: fewer operations.
        same = [view for view, each in enumerate(functions) if each is function]
        images = torch.cat([batch.views[min(view, len(batch.views) - 1)] for view in same])
        drawn = function(images, torch.cat([batch.seeds[:, view] for view in same]))
        check_drawn(transform, drawn, len(images))
        views.update(zip(same, drawn.split(len(batch.index)), strict=True))
    ordered = [views[view] for view in range(len(functions))]
    check_views(transform, ordered)
    return batch._replace(views=ordered, seeds=None)


def read_batch(
    dataset: Dataset[Any], keys: list[Any], collate_fn: Callable[..., Any], workers: int | None
) -> Any:
    """One batch of a data set before training, by its keys; ``workers`` is a setting of `FitSettings`."""
    # Files that a data set opens when it is first read may not be shared with the workers.
    # After an error, Python ends this worker by one signal, and waits: it must not ignore any.
    few = 0 if workers == 0 else 1
    (batch,) = data_loader(dataset, [keys], collate_fn, few, worker_init_fn=None)
    return batch


def data_loader(
    dataset: Dataset[Any],
    batches: Iterable[Sequence[Any]],
    collate_fn: Callable[..., Any],
    workers: int,
    **more: Any,
) -> DataLoader[Any]:
    """A DataLoader whose workers use one core each and leave signals to the main process.

    Each iteration draws a seed from a generator of its own in place of the one that training uses.
    """
    given = {"worker_init_fn": _init_worker if workers else None, **more}
    return DataLoader(
        dataset,
        batch_sampler=batches,  # type: ignore[arg-type]  # torch's stubs ask for a Sampler or a list
        collate_fn=collate_fn,
        num_workers=workers,
        generator=torch.Generator(),
        **given,
    )


class Loader:
    """Augmented batches of this process, one epoch per iteration.

    An iterable around a ``DataLoader``, so that Lightning neither replaces the sampler nor seeds the
    workers; ``state_dict`` makes it resumable for Lightning.
    """

    def __init__(
        self,
        items: Items,
        batches: Batches,
        workers: int,
        pin_memory: bool,
        read: Callable[[Tensor], Mapping[str, Tensor]] | None = None,
    ) -> None:
        self.batches = batches
        self._read = read
        self._loader = data_loader(
            items, batches, collate, workers, pin_memory=pin_memory, persistent_workers=workers > 0
        )

    def __len__(self) -> int:
        """Batches in a whole epoch, even if an iteration gives only the rest of one."""
        return len(self.batches)

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._loader:
            yield batch if self._read is None else batch._replace(read=self._read(batch.index))

    def close(self) -> None:
        """End the workers now, without waiting for the garbage collector."""
        iterator = self._loader._iterator
        if iterator is not None and hasattr(iterator, "_shutdown_workers"):
            iterator._shutdown_workers()
        self._loader._iterator = None

    def state_dict(self) -> dict[str, int]:
        """The number of batches consumed, for Lightning; a resumed run does not read it from here."""
        return {"consumed": self.batches.consumed.batches}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Do nothing: the number of batches consumed is restored before Lightning calls this."""


def _init_worker(_: int) -> None:
    torch.set_num_threads(1)
    ignore_in_worker()


def default_workers(devices: int, on_gpu: bool) -> int:
    """The default number of workers: with a GPU all cores but one, at most 16; on a CPU half, at most 8."""
    cores = _cores(devices)
    return min(16, max(0, cores - 1)) if on_gpu else min(8, cores // 2)


@contextmanager
def beside_workers(settings: FitSettings, trainer: Trainer) -> Iterator[None]:
    """Leave half of the cores to the workers while training runs on the CPU.

    With a thread per core, torch's threads and the workers would wait for each other. The number of
    threads does not depend on the number of workers, because it affects the rounding of sums.
    """
    threads, cores = torch.get_num_threads(), _cores(settings.devices)
    if trainer.strategy.root_device.type == "cpu":
        torch.set_num_threads(max(1, min(threads, cores - cores // 2)))
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _cores(devices: int) -> int:
    """The cores for each device; in a container this process may use fewer than the machine has."""
    counted = hasattr(os, "sched_getaffinity")
    return (len(os.sched_getaffinity(0)) if counted else os.cpu_count() or 1) // devices
