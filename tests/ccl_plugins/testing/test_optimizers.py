"""Optimizers that break one law each."""

from __future__ import annotations

from functools import partial

import torch
from support.broken import law_tests

from ccl_plugins.optimizers import SGD


class Sound(SGD):
    """Gradient descent."""

    def __init__(self, lr: float = 0.1) -> None:
        super().__init__(lr=lr, weight_decay=0.01)


class Lazy(Sound):
    """Takes no step."""

    def __call__(self, groups):
        made = super().__call__(groups)
        made.step = lambda closure=None: None
        return made


class Ascending(Sound):
    """Goes with the gradient."""

    def __call__(self, groups):
        return torch.optim.SGD(groups, self.lr, weight_decay=0.01, maximize=True)


class Text(Sound):
    """A rate that is no number."""

    @property
    def lr(self):
        return "0.1"

    @lr.setter
    def lr(self, value):
        pass

    def __call__(self, groups):
        return torch.optim.SGD(groups, 0.1, momentum=0.9)


class Fixed(Sound):
    """Has the rate that its author found best."""

    def __init__(self, lr: float = 0.1) -> None:
        super().__init__(lr=0.1)


class Scaling(Sound):
    """Multiplies the rates of the groups by its own."""

    def __call__(self, groups):
        return Stepping(groups, lambda group: self.lr * group["lr"])


class FirstRate(Sound):
    """All groups step at the rate of the first."""

    def __call__(self, groups):
        made = Stepping(groups, lambda group: made.param_groups[0]["lr"] * bool(group["lr"]))
        return made


class Limited(Sound):
    """Steps whose size is the rate times a norm's, or a limit if that is smaller, as LARC."""

    def __call__(self, groups):
        return Stepping(groups, lambda group: min(group["lr"], 0.001))


class Stepping(torch.optim.Optimizer):
    """Gradient descent at a rate that is a function of the group."""

    def __init__(self, groups, rate):
        super().__init__([*map(dict, groups)], {"weight_decay": 0.01})
        self.rate = rate

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                change = parameter.grad + group["weight_decay"] * parameter
                parameter.sub_(change, alpha=self.rate(group))
        return loss


class Wrapped(Sound):
    """Takes its steps by `step`, which gets that of gradient descent."""

    def __call__(self, groups):
        made = super().__call__(groups)
        made.step = partial(self.step, made, made.step)
        return made

    def step(self, made, step, closure=None):
        return step(closure)


class Deaf(Wrapped):
    """Takes a closure, and does not call it."""

    def step(self, made, step, closure=None):
        return step()


class Silent(Wrapped):
    """Does not return the loss."""

    def step(self, made, step, closure=None):
        step(closure)


class Late(Wrapped):
    """Calls the closure after the step."""

    def step(self, made, step, closure=None):
        step()
        return closure and closure()


class Gradless(Wrapped):
    """Calls the closure where gradients are off."""

    def step(self, made, step, closure=None):
        with torch.no_grad():
            loss = closure and closure()
            step()
        return loss


class Falling(Wrapped):
    """Has a schedule of its own."""

    def step(self, made, step, closure=None):
        loss = step(closure)
        for group in made.param_groups:
            group["lr"] *= 0.9
        return loss


class Greedy(Wrapped):
    """Expects a gradient of every parameter."""

    def step(self, made, step, closure=None):
        loss = step(closure)
        for group in made.param_groups:
            for parameter in group["params"]:
                parameter.grad.isfinite()
        return loss


class OwnRate(Sound):
    """Its rate is that of all groups."""

    def __call__(self, groups):
        return super().__call__([{**group, "lr": self.lr} for group in groups])


class Stubborn(Wrapped):
    """Takes its steps at its own rate, whatever the schedule says."""

    def step(self, made, step, closure=None):
        rates = [group["lr"] for group in made.param_groups]
        for group in made.param_groups:
            group["lr"] = self.lr
        loss = step(closure)
        for group, lr in zip(made.param_groups, rates, strict=True):
            group["lr"] = lr
        return loss


class Shrinking(Wrapped):
    """All weights decay, whatever their group says."""

    def step(self, made, step, closure=None):
        loss = step(closure)
        with torch.no_grad():
            for group in made.param_groups:
                for parameter in group["params"]:
                    parameter.mul_(1 - 0.1 * group["lr"])
        return loss


class Forgetful(Sound):
    """Its momentum is not saved."""

    def __call__(self, groups):
        made = super().__call__(groups)
        whole = made.state_dict
        made.state_dict = lambda: {**whole(), "state": {}}
        return made


class Undecayed(Sound):
    """Takes a weight decay, and leaves it out."""

    def __init__(self, lr: float = 0.1, weight_decay: float = 0.01) -> None:
        super().__init__(lr=lr)

    def __call__(self, groups):
        return torch.optim.SGD(groups, self.lr, weight_decay=0.01)


class Breaking(Wrapped):
    """Steps the parameters of a group until the first without a gradient."""

    def step(self, made, step, closure=None):
        loss = None if closure is None else closure()
        with torch.no_grad():
            for group in made.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is None:
                        break
                    parameter.sub_(group["lr"] * parameter.grad)
        return loss


class DecayingAll(Wrapped):
    """Decays what has no gradient, too."""

    def step(self, made, step, closure=None):
        loss = step(closure)
        with torch.no_grad():
            for group in made.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is None:
                        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        return loss


class OfMatrices(Wrapped):
    """Steps matrices, vectors and kernels, and no numbers."""

    def step(self, made, step, closure=None):
        held = [[p, p.detach().clone()] for g in made.param_groups for p in g["params"]]
        loss = step(closure)
        with torch.no_grad():
            for parameter, old in held:
                if not parameter.ndim:
                    parameter.copy_(old)
        return loss


NONE = "a_parameter_without_gradient_stays"
GIVEN, OWN = "has_the_rate_it_was_given", "each_group_steps_at_its_own_rate"
CLOSURE = "a_step_takes_a_closure"
SHAPES = "steps_parameters_of_any_shape"
BROKEN = {
    Sound: set(),
    Undecayed: {"decays_by_its_option"},
    Breaking: {NONE},
    DecayingAll: {NONE},
    OfMatrices: {NONE, SHAPES},
    Limited: set(),
    Lazy: {"a_step_changes_the_weights", "steps_lower_the_loss", CLOSURE, NONE, SHAPES},
    Ascending: {"steps_lower_the_loss"},
    Text: {"its_rate_is_a_number", GIVEN},
    Fixed: {GIVEN},
    Scaling: {GIVEN},
    OwnRate: {"groups_keep_what_they_have", GIVEN},
    Stubborn: {"follows_the_rate_of_its_groups", GIVEN, OWN},
    FirstRate: {OWN},
    Deaf: {CLOSURE},
    Silent: {CLOSURE},
    Late: {CLOSURE},
    Gradless: {CLOSURE},
    Shrinking: {"what_does_not_decay_stays", NONE},
    Falling: {"groups_keep_what_they_have"},
    Greedy: {NONE},
    Forgetful: {"resumes_exactly"},
}


test_the_law_that_is_broken_is_named, test_every_law_is_broken_once = law_tests("optimizer", BROKEN)
