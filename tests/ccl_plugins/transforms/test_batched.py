"""Views of a batch are drawn as lightly draws those of one image."""

from __future__ import annotations

import copy

import pytest
import torch
from PIL import ImageFilter
from scipy.stats import chisquare, ks_2samp, kstest
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import pad
from torch.utils._python_dispatch import TorchDispatchMode
from torchvision.transforms import RandomResizedCrop
from torchvision.transforms.v2 import functional as pixels

import ccl_plugins as ccl
from ccl_plugins.numerics.generators import mix
from ccl_plugins.training.loader import Batch, Items, augment
from ccl_plugins.transforms import (
    BYOLTransform,
    LightlyTransform,
    Modalities,
    MultiTransform,
    SimCLRTransform,
)
from ccl_plugins.transforms.batched import (
    BRIGHTNESS,
    CONTRAST,
    GRAY,
    HUE,
    SATURATION,
    BatchedView,
    Blur,
    Lines,
    blurred,
    crop_weights,
    jittered,
    mixing,
    resampled,
    uniforms,
)

N = 4000
SURE = 1e-3
"""The seeds are fixed: a test of equal distributions gives a p-value above this, or they are not equal."""
NO_CHANGE = {"mean": (0.0,) * 3, "std": (1.0,) * 3}


def images(n=12, height=40, width=48):
    """Smooth colors, (n, 3, height, width) uint8."""
    small = torch.rand(n, 3, 6, 6, generator=torch.Generator().manual_seed(2))
    big = torch.nn.functional.interpolate(small, (height, width), mode="bicubic")
    return big.clamp(0, 1).mul(255).byte()


def view(size=32, **settings):
    return BatchedView(MultiTransform(size=size, **settings).steps[0])


def close(found, expected, atol=1e-5):
    torch.testing.assert_close(found, expected, rtol=0, atol=atol)


def test_numbers_are_those_of_the_seeds_of_the_loader():
    seeds = torch.tensor([0, 5, 2**62 + 11])
    step = 0x9E3779B97F4A7C15
    expected = [[(mix(int(s) + step * k) >> 40) / 2**24 for k in range(4)] for s in seeds]
    close(uniforms(seeds, 4), torch.tensor(expected), atol=0)


def test_numbers_are_uniform_and_independent():
    seeds = torch.tensor([mix(0, 3, position, 1) >> 1 for position in range(N)])
    u = uniforms(seeds, 36)
    assert min(kstest(column, "uniform").pvalue for column in u.T.double()) > SURE / 36
    off = torch.corrcoef(u.T).fill_diagonal_(0)
    assert off.abs().max() < 5 / N**0.5


@pytest.mark.parametrize("size", [16, 32, 64])
def test_a_crop_is_torchvisions(size):
    given, step = images() / 255, view(size)
    drawn = step.draw(torch.arange(len(given)), *given.shape[-2:])
    lines = Lines.of(given.shape[-2:], (size, size))
    rows, columns = crop_weights(drawn.box, drawn.flip, lines)
    found = resampled(given, rows[:, :, : given.shape[-2]], columns[:, :, : given.shape[-1]])
    assert not drawn.flip[:, 0].any()
    for image, box, flip, each in zip(
        given, drawn.box.int().tolist(), drawn.flip[:, 1], found, strict=True
    ):
        expected = pixels.resized_crop(image, *box, [size, size], antialias=True)
        close(each, expected.flip(-1) if flip else expected)


@pytest.mark.parametrize(
    ("height", "width", "scale"),
    [
        (40, 48, (0.08, 1.0)),
        (40, 48, (0.7, 1.0)),
        (32, 32, (0.08, 1.0)),
        (6, 60, (0.7, 1.0)),
        (60, 6, (0.08, 1.0)),
    ],
)
def test_crops_are_distributed_as_torchvisions(height, width, scale):
    ratio = (3 / 4, 4 / 3)
    torch.manual_seed(1)
    given = torch.empty(1, height, width)
    theirs = [RandomResizedCrop.get_params(given, [*scale], [*ratio]) for _ in range(N)]
    drawer = view(min_scale=scale[0])
    ours = drawer.draw(torch.arange(N), height, width).box
    # In whole pixels: top, left, height, width, and what combines them.
    for of in (*range(4), lambda b: b[:, 2] * b[:, 3], lambda b: b[:, 3] / b[:, 2]):
        one, two = (
            of(b) if callable(of) else b[:, of] for b in (ours, torch.tensor(theirs).float())
        )
        assert ks_2samp(one, two).pvalue > SURE


def test_where_no_crop_fits_it_is_torchvisions_in_the_center():
    drawer = view()
    drawer.crop.scale = (4.0, 5.0)
    for height, width in ((4, 90), (90, 4), (20, 20)):
        found = drawer.draw(torch.arange(1), height, width).box[0].tolist()
        given = torch.empty(1, height, width)
        assert found == [*RandomResizedCrop.get_params(given, [4.0, 5.0], [3 / 4, 4 / 3])]


def test_a_jitter_is_torchvisions_in_the_order_that_was_drawn():
    adjust = {
        BRIGHTNESS: pixels.adjust_brightness,
        CONTRAST: pixels.adjust_contrast,
        SATURATION: pixels.adjust_saturation,
        GRAY: pixels.adjust_saturation,
        HUE: pixels.adjust_hue,
    }
    given = images(48, 8, 8) / 255
    drawn = view(jitter=1.0).draw(torch.arange(48), 8, 8)
    orders = drawn.places.argsort(1)
    assert len({*map(tuple, orders.tolist())}) > 12
    assert (orders[:, 4] == GRAY).all()
    assert 2 < (drawn.factors[:, GRAY] == 0).sum() < 20
    found = jittered(given, drawn.factors, drawn.places, mixing(3))
    for each, factors, order, image in zip(found, drawn.factors, orders, given, strict=True):
        for kind in order.tolist():
            image = adjust[kind](image, float(factors[kind]))
        close(each, image, atol=1e-3)  # the hue is stretched by the steps after it
    one = jittered(given[:, :1], drawn.factors, drawn.places, mixing(1))
    for each, factors, order, image in zip(one, drawn.factors, orders, given[:, :1], strict=True):
        for kind in order.tolist():
            if kind in (BRIGHTNESS, CONTRAST):
                image = adjust[kind](image, float(factors[kind]))
        close(each, image)


@pytest.mark.parametrize("sigma", [0.1, 0.6, 1.3, 2.0])
def test_a_blur_is_pils_up_to_rounding(sigma):
    given = images(3)
    blur = Blur.of(6, given.shape[-2:])
    found = blurred(given / 255, torch.full((3,), sigma), blur)
    for image, each in zip(given, found, strict=True):
        pil = pixels.to_pil_image(image).filter(ImageFilter.GaussianBlur(sigma))
        off = (pixels.pil_to_tensor(pil) / 255 - each).abs()
        assert off.max() < 3 / 255
    close(blurred(given / 255, torch.zeros(3), blur), given / 255)


def test_parameters_are_distributed_as_lightly_draws_them():
    steps = MultiTransform(size=32, jitter=(0.8, 0.4, 0.6, 0.2), flip=0.3, gray=0.1, blur=0.4)
    drawn = BatchedView(steps.steps[0]).draw(torch.arange(N), 32, 32)
    changed = drawn.factors[:, HUE] != 0
    gray = drawn.factors[:, GRAY] == 0
    rates = {0.3: drawn.flip[:, 1], 0.1: gray, 0.4: drawn.sigma > 0, 0.8: changed}
    for rate, happened in rates.items():
        assert abs(happened.double().mean() - rate) < 4 * (rate * (1 - rate) / N) ** 0.5
    ranges = [(0.2, 1.8), (0.6, 1.4), (0.4, 1.6), (-0.2, 0.2)]
    factors = drawn.factors[:, [BRIGHTNESS, CONTRAST, SATURATION, HUE]]
    for (low, high), factor in zip(ranges, factors[changed].T.double(), strict=True):
        assert kstest(factor, "uniform", (low, high - low)).pvalue > SURE
    assert (factors[~changed] == torch.tensor([1.0, 1.0, 1.0, 0.0])).all()
    assert kstest(drawn.sigma[drawn.sigma > 0].double(), "uniform", (0.1, 1.9)).pvalue > SURE
    orders = drawn.places[:, :GRAY] * torch.tensor([16, 4, 1])
    orders = orders.sum(1).unique(return_counts=True)[1]
    assert len(orders) == 24
    assert chisquare(orders).pvalue > SURE


def test_parameters_of_a_view_are_drawn_independently():
    steps = BYOLTransform(size=32, flip=0.5, gray=0.5, blur=(0.5, 0.5), solarize=(0.5, 0.5))
    drawn = BatchedView(steps.steps[0]).draw(torch.arange(N), 32, 32)
    top, left, tall, wide = drawn.box.T
    free = (tall < 30) & (wide < 30) & (drawn.factors[:, HUE] != 0) & (drawn.sigma > 0)
    parameters = [(top + 0.5) / (33 - tall), (left + 0.5) / (33 - wide), tall * wide, wide / tall]
    parameters += [drawn.flip[:, 1], *drawn.factors.T, *drawn.places.T[:3], drawn.sigma]
    chosen = torch.stack([each[free].double() for each in [*parameters, drawn.threshold]])
    off = torch.corrcoef(chosen).fill_diagonal_(0)
    off[10:13, 10:13] = 0  # places in an order, which are all different
    assert off.abs().max() < 5 / chosen.shape[1] ** 0.5
    gray, bright = drawn.factors[:, GRAY] == 0, drawn.threshold < 2
    applied = [drawn.flip[:, 1] > 0, drawn.factors[:, HUE] != 0, gray, drawn.sigma > 0, bright]
    off = torch.corrcoef(torch.stack(applied).double()).fill_diagonal_(0)
    assert off.abs().max() < 5 / N**0.5


def statistics(views):
    """What distributions of views are compared by, (k, n): colors, contrast, color at all, edges."""
    edges = (views[..., 1:] - views[..., :-1]).abs().mean((1, 2, 3))
    colored = (views.amax(1) - views.amin(1)).mean((1, 2))
    corner = views[:, 1, :3, :3].mean((1, 2))
    return torch.stack(
        [*views.mean((2, 3)).T, views.std((1, 2, 3)), colored, edges, corner]
    ).double()


@pytest.mark.parametrize("name", ["simclr", "moco_v2", "byol"])
def test_pixels_are_distributed_as_those_of_lightly(name):
    """Of one image, by Kolmogorov and Smirnov: n views of each tell apart what differs by a tenth."""
    n, given = 500, images(3)[2]
    transform = ccl.create("transform", name, size=16, batched=True, **NO_CHANGE)
    plain = Items([(given,)], transform, 0)
    theirs = [plain[0, position, 0].views for position in range(n)]
    ours = [
        of_batch(given.expand(n, -1, -1, -1), 1000 * number + torch.arange(n))
        for number, of_batch in enumerate(transform.batch_transforms)
    ]
    for number in range(2):
        one, two = statistics(ours[number]), statistics(torch.stack([v[number] for v in theirs]))
        assert min(ks_2samp(a, b).pvalue for a, b in zip(one, two, strict=True)) > SURE
        # The pixels of three steps are rounded in PIL, by half a level each.
        error = ((one.var(1) + two.var(1)) / n).sqrt()
        assert ((one.mean(1) - two.mean(1)).abs() < 4 * error + 1.5 / 255).all()


def test_the_kinds_of_view_are_each_views_own():
    transform = BYOLTransform(
        size=8, jitter=0.0, gray=0.0, min_scale=1.0, flip=0.0, blur=(0.0, 0.0), solarize=(0.0, 1.0),
        batched=True, **NO_CHANGE
    )  # fmt: skip
    given, seeds = images(4, 8, 8), torch.arange(4)
    one, two = (of_batch(given, seeds) for of_batch in transform.batch_transforms)
    close(one, given / 255)
    close(two, pixels.solarize(given, 128) / 255)


class Operations(TorchDispatchMode):
    """Counts the operations that compute values: views of tensors compute nothing."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = [of.alias_info for of in func._schema.returns]
        self.count += not any(alias is not None and not alias.is_write for alias in given)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("name", "kinds", "most"), [("simclr", 1, 150), ("byol", 2, 300), ("dino", 3, 400)]
)
def test_views_of_a_kind_are_drawn_in_few_operations(name, kinds, most):
    """On a GPU that waits for launches, their number is the time."""
    transform = ccl.create("transform", name, size=16, batched=True)
    given, seeds = images(4), torch.arange(4 * transform.count).view(4, -1)
    batch = Batch([given], torch.arange(4), seeds=seeds)
    views = augment(transform, batch).views  # makes what further batches read
    with Operations() as operations:
        augment(transform, batch)
    assert operations.count <= most
    assert len(set(transform.batch_transforms)) == kinds
    alone = [f(given, s) for f, s in zip(transform.batch_transforms, seeds.T, strict=True)]
    for view, each in zip(views, alone, strict=True):
        close(view, each)


@pytest.mark.parametrize("name", ["simclr", "byol", "dino"])
def test_on_a_gpu_nothing_is_read_and_nothing_else_is_on_the_cpu(name):
    with FakeTensorMode():
        transform = ccl.create("transform", name, size=16, batched=True)
        given = torch.zeros(4, 3, 20, 24, dtype=torch.uint8, device="cuda")
        seeds = torch.zeros(4, transform.count, dtype=torch.long, device="cuda")
        for view in augment(transform, Batch([given], torch.arange(4), seeds=seeds)).views:
            assert view.device.type == "cuda"
            assert view.is_contiguous()


def test_what_batches_read_is_of_their_shape_and_in_no_copy():
    drawer, seeds = view(), torch.arange(3)
    for shape in ((40, 48), (20, 48), (40, 48)):
        given = images(3, *shape)
        close(drawer(given, seeds), view()(given, seeds), atol=0)
        close(copy.deepcopy(drawer)(given, seeds), view()(given, seeds), atol=0)
    assert copy.deepcopy(drawer)._last is None


def test_gray_images_and_other_channels():
    gray = images(2)[:, :1]
    for transform, channels in (
        (SimCLRTransform(size=8, batched=True), 3),
        (SimCLRTransform(size=8, mean=(0.5,), std=(0.5,), batched=True), 1),
    ):
        found = transform.batch_transforms[0](gray, torch.arange(2))
        assert found.shape == (2, channels, 8, 8)
        assert found.isfinite().all()
    off = {"jitter": 0.0, "gray": 0.0, "blur": 0.0}
    five = SimCLRTransform(size=8, mean=(0.5,) * 5, std=(0.5,) * 5, batched=True, **off)
    given = pad(images(2), (0, 0, 0, 0, 0, 2))
    assert five.batch_transforms[1](given, torch.arange(2)).shape == (2, 5, 8, 8)
    with pytest.raises(ValueError, match="the image has 3 channels, but mean and std have 5"):
        five.batch_transforms[0](images(2), torch.arange(2))


def test_steps_that_cannot_be_batched_are_named():
    crop, flip, *rest = SimCLRTransform(size=8, flip=0.5).steps[0]
    with pytest.raises(ValueError, match="not RandomHorizontalFlip, RandomResizedCrop"):
        LightlyTransform([[flip, crop]], size=8, batched=True, **NO_CHANGE)
    LightlyTransform([[crop, *rest]], size=8, batched=True, **NO_CHANGE)
    with pytest.raises(ValueError, match="the transform of 'image' draws whole batches"):
        Modalities({"image": SimCLRTransform(batched=True)})
