"""The laws of optimizers."""

from __future__ import annotations

import copy
import math
from typing import Any
from unittest import SkipTest

import torch
from torch import Tensor, nn

import ccl_registry as engine
from ccl_plugins.kinds import registry
from ccl_plugins.testing.assertions import require, require_equal, require_identical
from ccl_plugins.testing.inputs import normal
from ccl_plugins.testing.subject import Subject


def network() -> nn.Linear:
    """A layer whose matrix decays and whose bias does not."""
    made = nn.Linear(4, 3)
    with torch.no_grad():
        made.weight.copy_(normal(3, 4))
        made.bias.copy_(normal(3, seed=1))
    return made


def groups(made: nn.Linear) -> list[dict[str, Any]]:
    """The layer's parameters in groups, as training gives them."""
    return [
        {"name": "decay", "params": [made.weight], "lr": 0.02},
        {"name": "no_decay", "params": [made.bias], "lr": 0.01, "weight_decay": 0.0},
    ]


def take_steps(made: nn.Linear, optimizer: torch.optim.Optimizer, numbers: range) -> list[Tensor]:
    """The weights after steps on a sum of squares."""
    for number in numbers:
        optimizer.zero_grad()
        made(normal(6, 4, seed=2 + number)).square().sum().backward()
        optimizer.step()
    return [made.weight.detach().clone(), made.bias.detach().clone()]


def observe(subject: Subject, optimizer: Any) -> Any:
    """The weights after three steps."""
    made = network()
    return take_steps(made, optimizer(groups(made)), range(3))


def check_a_step_changes_the_weights(subject: Subject) -> None:
    """A step must change all weights that have a gradient, and leave them finite."""
    made = network()
    before = [parameter.detach().clone() for parameter in made.parameters()]
    after = take_steps(made, subject.build()(groups(made)), range(1))
    for old, new in zip(before, after, strict=True):
        require(bool(new.isfinite().all()) and not torch.equal(old, new), f"{old} became {new}")


def check_steps_lower_the_loss(subject: Subject) -> None:
    """Steps on one loss must lower it: they go against the gradient."""
    made, x = network(), normal(6, 4, seed=2)
    optimizer, losses = subject.build()(groups(made)), []
    for _ in range(20):
        optimizer.zero_grad()
        loss = made(x).square().mean()
        losses.append(float(loss.detach()))
        loss.backward()
        optimizer.step()
    require(losses[-1] < losses[0], f"the losses are {losses}")


def check_its_rate_is_a_number(subject: Subject) -> None:
    """``lr`` must be a finite number above 0: ``[fit]`` scales it, and messages name it."""
    lr = subject.build().lr
    require(isinstance(lr, float | int) and 0 < lr < math.inf, f"lr is {lr!r}")


def check_has_the_rate_it_was_given(subject: Subject) -> None:
    """The constructor's ``lr`` must be the attribute ``lr``, and must not scale the rates of groups."""
    steps = []
    for factor in (1.0, 0.5):
        lr = factor * subject.build().lr
        params = {**subject.choice.params, "lr": lr}
        try:
            choice = registry().choose(subject.kind, subject.spec.id, **params)
        except engine.InvalidParameter as error:
            raise AssertionError(f"the constructor refuses lr={lr!r}: {error}") from error
        built = subject.chosen_as(choice).build()
        require(built.lr == lr, f"with lr={lr!r} its lr is {built.lr!r}")
        made = network()
        # Of the bias alone: a decay of weights may be relative to the first rate.
        steps.append(take_steps(made, built(groups(made)), range(1))[1])
    require_equal(steps[1], steps[0], "of groups with the same rates, with half the lr")


def check_groups_keep_what_they_have(subject: Subject) -> None:
    """A group's rate and weight decay must override the options, and stay: schedules set them."""
    made = network()
    optimizer = subject.build()(groups(made))
    for steps in range(3):
        for given in groups(made):
            mine = [each for each in optimizer.param_groups if each.get("name") == given["name"]]
            require(len(mine) == 1, f"there are {len(mine)} groups named {given['name']!r}")
            for key in given.keys() - {"params"}:
                report = f"{key} {given[key]} became {mine[0][key]} after {steps} steps"
                require(mine[0][key] == given[key], report)
        take_steps(made, optimizer, range(steps, steps + 1))


def check_follows_the_rate_of_its_groups(subject: Subject) -> None:
    """A step at a rate of 0 must change nothing: schedules set the rate of ``param_groups``."""
    made = network()
    optimizer = subject.build()(groups(made))
    before = take_steps(made, optimizer, range(1))
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    require_equal(take_steps(made, optimizer, range(1, 2)), before)


def check_each_group_steps_at_its_own_rate(subject: Subject) -> None:
    """A lower rate of one group must make the steps of this group smaller, and of no other."""

    def sizes(*factors: float) -> list[float]:
        made = network()
        before = [parameter.detach().clone() for parameter in made.parameters()]
        optimizer = subject.build()(groups(made))
        for group, factor in zip(optimizer.param_groups, factors, strict=True):
            group["lr"] *= factor
        after = take_steps(made, optimizer, range(1))
        return [float((x - y).norm()) for x, y in zip(after, before, strict=True)]

    whole = sizes(1, 1)
    for lowered, name in enumerate(("decay", "no_decay")):
        factors = [1.0, 1.0]
        factors[lowered] = 1e-3
        now, other = sizes(*factors), 1 - lowered
        report = (
            f"with a thousandth of the rate of {name!r} the sizes {whole} of steps became {now}"
        )
        # A step is proportional to its rate, or at most a multiple of the rate, as in LARC.
        require(now[lowered] <= whole[lowered] / 2, report)
        require(math.isclose(now[other], whole[other], rel_tol=1e-3), report)


def check_a_step_takes_a_closure(subject: Subject) -> None:
    """``step(closure)`` must call the closure with gradients enabled, step by these, and return its loss.

    Lightning computes the gradients in the closure.
    """
    expected_of, made = network(), network()
    expected = take_steps(expected_of, subject.build()(groups(expected_of)), range(1))
    optimizer, losses = subject.build()(groups(made)), []

    def closure() -> Tensor:
        require(torch.is_grad_enabled(), "it called the closure without gradients")
        optimizer.zero_grad()
        loss = made(normal(6, 4, seed=2)).square().sum()
        loss.backward()
        losses.append(loss.detach())
        return loss

    returned = optimizer.step(closure)
    require(bool(losses), "it did not call the closure")
    right = returned is not None and float(torch.as_tensor(returned).detach()) in map(float, losses)
    require(right, f"it returned {returned!r}, and the closure {losses[0]!r}")
    if len(losses) == 1:  # a line search calls the closure again, and has more gradients
        weights = [parameter.detach() for parameter in made.parameters()]
        require_equal(weights, expected, "with the gradients of a closure")


def check_what_does_not_decay_stays(subject: Subject) -> None:
    """Without weight decay and gradient, weights must stay as they are."""
    made = network()
    optimizer = subject.build()(groups(made))
    before = made.bias.detach().clone()
    for parameter in made.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    require_identical(made.bias.detach(), before)


def check_a_parameter_without_gradient_stays(subject: Subject) -> None:
    """A step must leave a parameter whose gradient is None as it is, and change the others.

    The same holds for a second step, which finds the state that the first step kept.
    """
    made = several()
    optimizer = subject.build()([{"name": "decay", "params": made, "lr": 0.02}])
    for step in range(2):
        before = [parameter.detach().clone() for parameter in made]
        for number, parameter in enumerate(made):
            parameter.grad = normal(*parameter.shape, seed=20 + number) if number % 2 else None
        optimizer.step()
        for parameter, old in zip(made, before, strict=True):
            now, shape = parameter.detach(), tuple(parameter.shape)
            if parameter.grad is None:
                require_identical(now, old, f"of shape {shape} without a gradient, in step {step}")
            else:
                report = f"of shape {shape}, among some without a gradient, stayed in step {step}"
                require(not torch.equal(now, old), report)


def several() -> list[nn.Parameter]:
    """Parameters of one group: matrices, vectors, numbers, kernels."""
    shapes = ((3, 4), (3, 4), (3,), (3,), (), (), (2, 3, 3, 3), (2, 3, 3, 3))
    return [nn.Parameter(normal(*shape, seed=i)) for i, shape in enumerate(shapes)]


def check_steps_parameters_of_any_shape(subject: Subject) -> None:
    """A step must change parameters of every shape, such as a single number or a convolution's."""
    made = several()
    before = [parameter.detach().clone() for parameter in made]
    optimizer = subject.build()([{"name": "decay", "params": made, "lr": 0.02}])
    sum(parameter.square().sum() for parameter in made).backward()  # type: ignore[union-attr]
    optimizer.step()
    for parameter, old in zip(made, before, strict=True):
        right = bool(parameter.isfinite().all()) and not torch.equal(parameter, old)
        require(right, f"of shape {tuple(old.shape)}: {old} became {parameter.detach()}")


def check_decays_by_its_option(subject: Subject) -> None:
    """The constructor's ``weight_decay`` must apply to a group that has none of its own."""
    weights = []
    for decay in (0.001, 0.5):
        params = {**subject.choice.params, "weight_decay": decay}
        try:
            choice = registry().choose(subject.kind, subject.spec.id, **params)
            built = subject.chosen_as(choice).build()
        except ValueError as error:
            raise SkipTest(f"it takes no weight_decay of {decay}: {error}") from error
        made = network()
        weights.append(take_steps(made, built(groups(made)), range(5))[0])
    report = f"after 5 steps the weights are {weights[0]} with a weight_decay of 0.001 and of 0.5"
    require(not torch.equal(*weights), report)


def check_resumes_exactly(subject: Subject) -> None:
    """All that steps depend on must be in ``state_dict()``: a resumed run goes on as if never stopped."""
    made = network()
    optimizer = subject.build()(groups(made))
    take_steps(made, optimizer, range(2))
    resumed = copy.deepcopy(made)
    other = subject.build()(groups(resumed))
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    straight = take_steps(made, optimizer, range(2, 4))
    require_identical(take_steps(resumed, other, range(2, 4)), straight)
