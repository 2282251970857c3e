"""Optimizers that break one law each."""

from __future__ import annotations

import torch
from support.broken import law_tests

from ccl_plugins.optimizers import SGD


class Sound(SGD):
    """Gradient descent."""

    def __init__(self) -> None:
        super().__init__(lr=0.1, weight_decay=0.01)


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
            step()
            for group, lr in zip(made.param_groups, rates, strict=True):
                group["lr"] = lr

        made.step = at_own_rate
        return made


class Shrinking(Sound):
    """All weights decay, whatever their group says."""

    def __call__(self, groups):
        made = super().__call__(groups)
        step = made.step

        def shrinking(closure=None):
            step()
            with torch.no_grad():
                for group in made.param_groups:
                    for parameter in group["params"]:
                        parameter.mul_(1 - 0.1 * group["lr"])

        made.step = shrinking
        return made


class Forgetful(Sound):
    """Its momentum is not saved."""

    def __call__(self, groups):
        made = super().__call__(groups)
        whole = made.state_dict
        made.state_dict = lambda: {**whole(), "state": {}}
        return made


BROKEN = {
    Sound: set(),
    Lazy: {"a_step_changes_the_weights", "steps_lower_the_loss"},
    Ascending: {"steps_lower_the_loss"},
    Text: {"its_rate_is_a_number"},
    OwnRate: {"groups_keep_what_they_have"},
    Stubborn: {"follows_the_rate_of_its_groups"},
    Shrinking: {"what_does_not_decay_stays"},
    Forgetful: {"resumes_exactly"},
}


test_the_law_that_is_broken_is_named, test_every_law_is_broken_once = law_tests("optimizer", BROKEN)
