"""What holds for every objective of the package, beside the laws of the conformance kit."""

import inspect
from importlib.metadata import entry_points

import ccl_plugins as ccl
import pytest
import torch
from ccl_plugins.methods import MoCoV2
from ccl_plugins.objectives import ScalarAttribute
from ccl_plugins.pairs import Pairs, Samples, in_batch
from ccl_plugins.protocols import Sizes, Table
from torch import nn
from torch.nn.functional import normalize
from torch.utils._python_dispatch import TorchDispatchMode

WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "lift_fresh")
"""Operations that wait for a GPU."""

N, WIDTH, FEATURES = 8, 8, 12
NAMES = sorted(
    point.name
    for point in entry_points(group="ccl_plugins.objective")
    if point.value.startswith("ccl_more.")
)


class Backbone(nn.Module):
    """A layer without batch statistics."""

    num_features = FEATURES

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(48, FEATURES)

    def forward(self, x):
        return self.layer(x.flatten(1))


class Refusing(TorchDispatchMode):
    """Raises at an operation that waits for a GPU."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = str(func)
        indices = args[1] if name.startswith("aten.index.") else ()
        assert not any(x is not None and x.dtype == torch.bool for x in indices)
        assert not any(each in name for each in WAITING), f"{name} waits"
        return func(*args, **(kwargs or {}))


def condition_of(objective, n=N):
    """Values of the first type that an objective accepts, for each condition it reads."""
    values = {
        "categorical": torch.arange(n) % 3,
        "multi_label": torch.stack([torch.arange(n) % k == 0 for k in (2, 3, 4)], 1),
        "continuous": torch.rand(n, 2, dtype=torch.float64),
    }
    example = getattr(objective, "EXAMPLE_CONDITION", None)
    if isinstance(example, torch.Tensor) and example.ndim == 1 and example.is_floating_point():
        values["continuous"] = values["continuous"][:, 0]  # it reads one number
    found = {name: values[types[0]] for name, types in objective.conditions.items()}
    if "sensitive" in found:
        found["sensitive"] = torch.arange(n) // 3 % 2
    return found


def class_of(name):
    return next(p for p in entry_points(group="ccl_plugins.objective") if p.name == name).load()


def ready(name, **params):
    torch.manual_seed(0)
    example = getattr(class_of(name), "EXAMPLE", {})
    objective = ccl.create("objective", name, **{**example, **params})
    if hasattr(objective, "setup"):
        tables = {key: Table(z) for key, z in condition_of(objective).items()}
        objective.setup(tables, Sizes(64, WIDTH, FEATURES, steps=2))
    return objective.double()


@pytest.mark.parametrize("name", NAMES)
def test_a_step_over_a_queue_waits_for_nothing(name):
    objective = ready(name)
    method = MoCoV2(8, WIDTH, queue_size=24, symmetric=True, backbone=Backbone()).double()
    condition = condition_of(objective)
    for step in range(2):
        views = list(torch.randn(2, N, 3, 4, 4, dtype=torch.float64))
        index = torch.arange(N) + N * step
        with Refusing():
            objective.progress(step, 2)
            embedded = method.embed(views)
            embedded = embedded if objective.embedding == "raw" else embedded.normalized()
            pairs = method.pairs(embedded, Samples(condition, index, embedded.features))
            objective.loss(pairs).backward()
            method.enqueue(pairs)
            method.after_step(step, 2)
        if hasattr(objective, "after_step"):
            objective.after_step()


@pytest.mark.parametrize("name", NAMES)
def test_float32_agrees_with_float64(name):
    objective = ready(name)
    condition, features = condition_of(objective), torch.randn(2, N, FEATURES).double()
    views = torch.randn(2, N, WIDTH, dtype=torch.float64)
    losses = []
    for dtype in (torch.float64, torch.float32):
        objective.to(dtype)
        rows = views.to(dtype, copy=True).requires_grad_()
        unit = normalize(rows, dim=-1) if objective.embedding == "sphere" else rows
        given = {key: z.to(dtype) if z.is_floating_point() else z for key, z in condition.items()}
        pairs = in_batch(unit, Samples(given, torch.arange(N), features.to(dtype)))
        loss = objective.loss(pairs)
        loss.backward()
        losses.append((loss.detach().double(), rows.grad.double()))
    torch.testing.assert_close(*losses, rtol=2e-5, atol=2e-5)


def numbers():
    """The parameters that take a `Scalar`, of each objective, with their defaults."""
    for name in NAMES:
        for key, parameter in inspect.signature(class_of(name)).parameters.items():
            attribute = inspect.getattr_static(class_of(name), key, None)
            if isinstance(attribute, ScalarAttribute) and isinstance(parameter.default, float):
                yield name, key, parameter.default


def loss_of(objective, change=lambda pairs: pairs):
    torch.manual_seed(1)
    views = normalize(torch.randn(2, N, WIDTH, dtype=torch.float64), dim=-1)
    features = torch.randn(2, N, FEATURES).double()
    condition = {**condition_of(objective), "extra": torch.linspace(0, 1, N).double()}
    return objective.loss(change(in_batch(views, Samples(condition, torch.arange(N), features))))


@pytest.mark.parametrize(("name", "key", "default"), list(numbers()))
def test_a_number_can_be_scheduled_and_learned(name, key, default):
    start = 1.0 if key == "window" else default or 0.5  # a window of all values changes nothing
    more = {"kernel": "rbf"} if key == "ridge" else {}  # which is read with a kernel alone
    schedule = {"schedule": "linear", "start": start, "end": start / 2}
    scheduled = ready(name, **{key: schedule}, **more)
    losses = []
    for step in range(2):
        scheduled.progress(step, 2)
        losses.append(float(loss_of(scheduled).detach()))
    assert losses[0] != losses[1]
    if inspect.getattr_static(class_of(name), key).learnable:
        learned = ready(name, **{key: {"learn": True, "start": start}})
        loss_of(learned).backward()
        assert getattr(learned, f"_{key}").log.grad != 0


@pytest.mark.parametrize(
    "name", [n for n in NAMES if "exclude" in inspect.signature(class_of(n)).parameters]
)
def test_what_is_excluded_is_no_negative(name):
    z = torch.linspace(0, 1, N).double()
    near = (z[:, None] * z) >= 0.3
    excluding = ready(name, exclude=["linear", 0.3, "extra"])
    masked = loss_of(ready(name), lambda pairs: pairs.excluding(near))
    torch.testing.assert_close(loss_of(excluding), masked)
    assert not torch.equal(loss_of(ready(name)), masked)


BY_CLASS = ("balanced_contrastive", "eps_sup_infonce", "fair_kl", "fscl", "kcl", "paco", "tsc")


@pytest.mark.parametrize("name", BY_CLASS)
def test_masks_of_classes_make_the_same_loss(name):
    objective = ready(name)
    views = normalize(torch.randn(2, N, WIDTH, dtype=torch.float64), dim=-1)
    condition, features = condition_of(objective), torch.randn(2, N, FEATURES).double()
    same_class = torch.arange(N) % 3 == (torch.arange(N) % 3)[:, None]
    samples = Samples(condition, features=features)
    brought = Pairs.from_masks(views, same_class, None, samples)
    expected = objective.loss(in_batch(views, samples))
    torch.testing.assert_close(objective.loss(brought), expected)
