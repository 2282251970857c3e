"""Optimizers that break one law each."""

from __future__ import annotations

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
                change = parameter.grad + group["weight_decay"] * parameter
                parameter.sub_(change, alpha=self.rate(group))
        return loss


class Deaf(Sound):
    """Takes a closure, and does not call it."""

    def __call__(self, groups):
        made = super().__call__(groups)
        step = made.step
        made.step = lambda closure=None: step()
        return made


class Silent(Sound):
    """Does not return the loss."""

    def __call__(self, groups):
        made = super().__call__(groups)
        step = made.step
        made.step = lambda closure=None: (step(closure), None)[1]
        return made


class Late(Sound):
    """Calls the closure after the step."""

    def __call__(self, groups):
        made = super().__call__(groups)
        step = made.step

        def late(closure=None):
            step()
            return closure and closure()

        made.step = late
        return made


class Gradless(Sound):
    """Calls the closure where gradients are off."""

    def __call__(self, groups):
        made = super().__call__(groups)
        step = made.step

        def gradless(closure=None):
            with torch.no_grad():
                loss = closure and closure()
                step()
            return loss

        made.step = gradless
        return made


class OwnRate(Sound):
    """Its rate is that of all groups."""

    def __call__(self, groups):
        return super().__call__([{**group, "lr": self.lr} for group in groups])


class Stubborn(Sound):
    """Takes its steps at its own rate, whatever the schedule says."""

    def __call__(self, groups):
        made = super().__call__(groups)
        step = made.step

        def at_own_rate(closure=None):
            rates = [group["lr"] for group in made.param_groups]
            for group in made.param_groups:
                group["lr"] = self.lr
            loss = step(closure)
            for group, lr in zip(made.param_groups, rates, strict=True):
                group["lr"] = lr
            return loss

        made.step = at_own_rate
        return made


class Shrinking(Sound):
    """All weights decay, whatever their group says."""

    def __call__(self, groups):
        made = super().__call__(groups)
        step = made.step

        def shrinking(closure=None):
            loss = step(closure)
            with torch.no_grad():
                for group in made.param_groups:
                    for parameter in group["params"]:
                        parameter.mul_(1 - 0.1 * group["lr"])
            return loss

        made.step = shrinking
        return made


class Forgetful(Sound):
    """Its momentum is not saved."""

    def __call__(self, groups):
        made = super().__call__(groups)
        whole = made.state_dict
        made.state_dict = lambda: {**whole(), "state": {}}
        return made


GIVEN, OWN = "has_the_rate_it_was_given", "each_group_steps_at_its_own_rate"
CLOSURE = "a_step_takes_a_closure"
BROKEN = {
    Sound: set(),
    Limited: set(),
    Lazy: {"a_step_changes_the_weights", "steps_lower_the_loss", CLOSURE},
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
    Shrinking: {"what_does_not_decay_stays"},
    Forgetful: {"resumes_exactly"},
}


test_the_law_that_is_broken_is_named, test_every_law_is_broken_once = law_tests("optimizer", BROKEN)
