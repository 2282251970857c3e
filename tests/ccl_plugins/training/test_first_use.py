"""Objects of a user's own are checked as they are used first, with their class and what is right."""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.training_fakes import FakeMethod, FakeObjective, FakeTransform, fit, make_parts
from support.training_ranks import make_method
from torch import Tensor

import ccl_plugins as ccl
from ccl_plugins.experiments.measure import _checked
from ccl_plugins.methods import MoCoV2
from ccl_plugins.objectives import ContrastiveObjective, InfoNCE
from ccl_plugins.pairs import PatchScores
from ccl_plugins.protocols import Embedded, Measurement, Table
from ccl_plugins.testing.inputs import SmallBackbone
from ccl_plugins.training.kernel_check import KernelReading, check_kernel
from ccl_plugins.training.settings import FitSettings


class Embeds(FakeMethod):
    def __init__(self, found: Any) -> None:
        super().__init__()
        self.found = found

    def embed(self, views):
        return self.found(*super().embed(views).__dict__.values())


class Loss(FakeObjective):
    def __init__(self, found: Any) -> None:
        super().__init__()
        self.found = found

    def loss(self, pairs):
        return self.found(super().loss(pairs))


class Views(FakeTransform):
    def __init__(self, found: Any) -> None:
        super().__init__(separate=False)
        self.found = found

    def __call__(self, image):
        return self.found(super().__call__(image))


class Yields:
    def __init__(self, found: Any) -> None:
        self.found = found

    def __call__(self, **given: Any) -> Any:
        return self

    def __len__(self) -> int:
        return 2

    def batches(self, epoch, start=0):
        batches = [torch.arange(8), self.found(torch.arange(8, 16))]
        yield from batches[start:]


class InBatch:
    refresh, value_type = "batch", "continuous"

    def __init__(self, found: Any) -> None:
        self.found = found

    def __call__(self, embedded: Embedded) -> Any:
        return self.found(embedded.projections)


class Fitted:
    refresh, value_type = "never", "continuous"

    def __init__(self, found: Any) -> None:
        self.found = found

    def fit(self, split: Any, embed: Any, previous: Any) -> Any:
        return self.found(torch.rand(len(split), 2))


WRONG = {
    "features": (
        {"method": Embeds(lambda f, p, *_: Embedded(f[0], p))},
        r"Embeds.embed .* features \(u, 8, width\) .* \(8, 8\)",
    ),
    "keys": (
        {"method": Embeds(lambda f, p, *_: Embedded(f, p, p[:, :3]))},
        r"keys \(u, 8, width\) .*\(2, 3, 4\)",
    ),
    "widths": (
        {"method": Embeds(lambda f, p, *_: Embedded(f, p, p[..., :3]))},
        "one width, not 4 and 3",
    ),
    "patches": (
        {
            "method": Embeds(
                lambda f, p, *_: Embedded(f, p, None, PatchScores(p[0], p[0], f[0] > 0))
            )
        },
        r"Embeds.embed must give patches .* and counts \(8, v\), not torch.float32 \(8, 4\)",
    ),
    "tuple": ({"method": Embeds(lambda f, p, *_: (f, p))}, "an Embedded, not a tuple"),
    "loss": (
        {"objective": Loss(lambda x: x.expand(3))},
        r"Loss.loss must return one number, .* \(3,\)",
    ),
    "number": ({"objective": Loss(lambda x: float(x.detach()))}, "one number, .* not a float"),
    "one view": (
        {"transform": Views(lambda x: x[:1])},
        "Views must make a list of 2 views .*, not 1",
    ),
    "stacked": (
        {"transform": Views(torch.stack)},
        r"a list of 2 views .*, not torch.float32 \(2, 3, 4, 4\)",
    ),
    "arrays": (
        {"transform": Views(lambda x: [v.numpy() for v in x])},
        "that are tensors, not a ndarray",
    ),
    "range": (
        {"sampler": Yields(lambda b: b + 5)},
        "sampler Yields must yield indices from 0 to 19, not 20",
    ),
    "below": ({"sampler": Yields(lambda b: b - 9)}, "from 0 to 19, not -1"),
    "list": ({"sampler": Yields(Tensor.tolist)}, r"long tensors \(B,\) .*, not a list"),
    "floats": ({"sampler": Yields(Tensor.float)}, r"not torch.float32 \(8,\)"),
    "triples": (
        {"sampler": Yields(lambda b: b[:, None].expand(8, 3))},
        r"\(B, 2\), not torch.int64 \(8, 3\)",
    ),
    "observed": (
        {"conditions": {"z": InBatch(lambda p: p[0, :3])}},
        r"'z', InBatch, must give \(8,\), .* for 8 samples, not torch.float32 \(3, 4\)",
    ),
    "observed list": ({"conditions": {"z": InBatch(lambda p: p[0].tolist())}}, "not a list"),
    "rows": (
        {"conditions": {"z": Fitted(lambda z: z[:7])}},
        r"condition 'z' has shape \(7, 2\), .* \(20,\) or \(20, c\)",
    ),
    "array": (
        {"conditions": {"z": Fitted(Tensor.numpy)}},
        "condition 'z' must be a tensor, not ndarray",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_an_object_returns_is_checked_as_training_uses_it_first(wrong, tmp_path):
    parts, message = WRONG[wrong]
    settings = FitSettings(epochs=1, batch_size=8, workers=0)
    with pytest.raises((ValueError, TypeError), match=message):
        fit(make_parts(**parts), settings, tmp_path, {}, progress=False)


class Terms(ContrastiveObjective):
    def __init__(self, found: Any) -> None:
        super().__init__()
        self.found = found

    def terms(self, pairs):
        return self.found(torch.stack([pairs.own_sim(0, 1), pairs.own_sim(1, 0)]))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (lambda x: x, "a Tensor"),
        (lambda x: (x, x[0]), r"\(2, 5\) and \(5,\)"),
        (lambda x: (x.T, x.T), r"\(5, 2\) and \(5, 2\)"),
        (lambda x: (x[0], x[0]), r"\(5,\) and \(5,\)"),
        (lambda x: (x, 1.0), r"\(2, 5\) and a float"),
        (lambda x: (x, x, 1), r"\(2, 5\) and \(2, 5\) and a int"),
    ],
)
def test_terms_of_another_shape_are_refused_in_a_loop_of_ones_own(found, message):
    with pytest.raises(ValueError, match=rf"Terms.terms .* both \(rows, 5\) .*, not {message}"):
        Terms(found)(torch.randn(5, 3), torch.randn(5, 3))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (
            lambda x: (x.detach(), torch.ones_like(x)),
            "the loss of Terms has no gradient: compute it",
        ),
        (
            lambda x: (x.mul(9).long(), torch.ones_like(x)),
            "the loss of Terms has no gradient: compute it",
        ),
        (lambda x: (x, 0.5 - torch.eye(*x.shape)), "Terms.terms .* weights of 0 or more, not -0.5"),
        (lambda x: (x, x.detach() / 0 * 0), "Terms.terms .* weights of 0 or more, not nan"),
    ],
)
def test_terms_without_a_gradient_or_of_wrong_weights_are_named_in_the_first_step(
    found, message, tmp_path
):
    settings = FitSettings(epochs=1, batch_size=8, workers=0)
    parts = make_parts(method=make_method("simclr"), objective=Terms(found))
    with pytest.raises(ValueError, match=message):
        fit(parts, settings, tmp_path, {}, progress=False)


class Distance:
    """Not positive definite, whatever it says."""

    def __init__(self, says_so: bool) -> None:
        self.positive_definite = says_so

    def __call__(self, a, b):
        return (a[:, None] - b).abs()


def holed(value):
    return lambda a, b: torch.where((a[:, None] == 3) | (b == 4), value, 1.0)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (
            lambda a, b: (a[:, None] - b).sigmoid(),
            r"must be symmetric, not 0\.\d+ and 0\.\d+ for \d\.0 and \d\.0 of condition 'z'",
        ),
        (
            Distance(True),
            r"Distance says .* eigenvalue -5\.24 beside 8\.29 on 5 samples of condition 'z'",
        ),
        (lambda a, b: a[:, None] == b, r"must return floats, not torch.bool: add \.float\(\)"),
        (holed(torch.nan), "must be finite, not nan .* condition 'z'"),
        (holed(torch.inf), "must be finite, not inf .* condition 'z'"),
    ],
    ids=["order", "eigenvalue", "bool", "nan", "infinite"],
)
def test_a_kernel_that_gives_what_no_kernel_does_is_named_with_its_first_wrong_value(
    kernel, message
):
    with pytest.raises(ValueError, match=message):
        check_kernel(KernelReading(kernel, ("z",)), {"z": Table(torch.arange(5.0))})


def test_a_kernel_may_say_that_it_is_not_positive_definite():
    with pytest.warns(UserWarning, match=r"95 % have at least 1e\+300 of a sample's weight"):
        assert check_kernel(KernelReading(Distance(False), ("z",)), {"z": Table(torch.arange(5.0))})


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (0.5, "not 0.5"),
        ({"top1": 0.5}, "not {'top1': 0.5}"),
        ([Measurement("knn/top1", True)], r"not \[Measurement\(name='knn/top1', value=True"),
        (None, "not None"),
    ],
)
def test_what_an_evaluator_returns_is_measurements(returned, message):
    with pytest.raises(
        ValueError, match=f"evaluator SimpleNamespace must return a list of meas.*{message}"
    ):
        _checked(SimpleNamespace(), returned)


class Wrapped(InfoNCE):
    """A loss of the batch alone that does not say so."""

    def terms(self, pairs):
        return super().terms(replace(pairs, queue=None, batch_candidates=None))


@pytest.mark.parametrize(("objective", "unread"), [(Wrapped(), True), (InfoNCE(), False)])
def test_a_queue_that_changes_no_loss_is_a_warning_whatever_the_objective_declares(
    objective, unread, tmp_path
):
    method = MoCoV2(8, 4, queue_size=32, backbone=SmallBackbone())
    parts = make_parts(method=method, objective=objective)
    settings = FitSettings(epochs=2, batch_size=8, workers=0)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        fit(parts, settings, tmp_path, {}, progress=False)
    texts = [str(w.message) for w in found if "no queue" in str(w.message)]
    assert len(texts) == unread
    assert all("Wrapped compares with no queue, so that of MoCoV2" in text for text in texts)


def test_images_that_the_method_cannot_embed_are_refused_before_training(tmp_path):
    class Flat(MoCoV2):
        def project(self, x):
            return super().project(x).mean(1)

    pipeline = ccl.Pipeline(
        dataset="color_digits",
        backbone="lenet5",
        transform=ccl.transform("simclr", size=32),
        objective="infonce",
        method=ccl.local("method", Flat, hidden=8, dim=4, queue_size=512),
    )
    with pytest.raises(
        ValueError, match=r"Flat.project must give \(n, width\) .* not torch.float32 \(1,\)"
    ):
        pipeline.fit(out=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()
