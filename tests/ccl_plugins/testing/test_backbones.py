"""Backbones that break one law each."""

from __future__ import annotations

import torch
from support.broken import law_tests
from torch import nn

from ccl_plugins.testing.inputs import PatchBackbone, SmallBackbone


class Sound(SmallBackbone):
    """A network of one layer."""


class Wrapped:
    """A function with a network inside."""

    num_features = 12

    def __init__(self) -> None:
        self.network = SmallBackbone()

    def __call__(self, x):
        return self.network(x)

    def train(self):
        return self

    eval = train

    def named_parameters(self):
        return self.network.named_parameters()


class Misnumbered(Sound):
    """Declares one feature too many."""

    num_features = 12

    def __init__(self) -> None:
        super().__init__()
        self.num_features = 13


class Relative(Sound):
    """Features that depend on the batch."""

    def forward(self, x):
        features = super().forward(x)
        return features - features.mean(0)


class Unused(Sound):
    """Has an unused layer."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Linear(2, 2)


class Frozen(Sound):
    """Has no weight that learns."""

    def __init__(self) -> None:
        super().__init__()
        self.requires_grad_(False)


class Patched(PatchBackbone):
    """A network on patches."""


class Seeing(PatchBackbone):
    """Adds the token to masked patches, and sees them."""

    def forward(self, x, mask=None, token=None):
        features, patches = super().forward(
            x, None, token if token is not None else x.new_zeros(12)
        )
        if token is None:
            return features
        return features, patches if mask is None else patches + mask[..., None] * token


class WiderInTraining(Sound):
    """Adds numbers to features while it trains."""

    def forward(self, x):
        features = super().forward(x)
        return torch.cat([features, features], 1) if self.training else features


class WiderInEvaluation(Sound):
    """Has numbers beside its features when it is evaluated."""

    def forward(self, x):
        features = super().forward(x)
        return features if self.training else torch.cat([features, features], 1)


class FoundOut(Sound):
    """Knows how long features are once it has made some."""

    def __init__(self) -> None:
        super().__init__()
        self.num_features = None

    def forward(self, x):
        features = super().forward(x)
        self.num_features = features.shape[1]
        return features


class ScalesInAList(Sound):
    """Scales in a plain list, which begin at 1."""

    def __init__(self) -> None:
        super().__init__()
        self.scales = [nn.Parameter(torch.ones(12))]

    def forward(self, x):
        return super().forward(x) * self.scales[0]


class LearnsAMean(Sound):
    """Subtracts a running mean, a number in Python."""

    mean = 0.0

    def forward(self, x):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * float(x.mean())
        return super().forward(x - self.mean)


class SharesAMean(Sound):
    """Subtracts a running mean of all objects of the class."""

    mean = torch.zeros(3, 1, 1)

    def forward(self, x):
        if self.training:
            self.mean.lerp_(x.mean((0, 2, 3))[:, None, None], 0.1)
        return super().forward(x - self.mean)


class CountsSteps(Sound):
    """Less noise with each step that it counts in an attribute."""

    steps = 0

    def forward(self, x):
        if self.training:
            self.steps += 1
            x = x + torch.randn_like(x) / self.steps
        return super().forward(x)


class CountsInABuffer(Sound):
    """Less noise with each step that it counts in a buffer, beside batch statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.statistics = nn.BatchNorm1d(12)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x):
        if self.training:
            self.steps += 1
            x = x + torch.randn_like(x) / self.steps
        return self.statistics(super().forward(x))


class LosesItsMean(Sound):
    """Subtracts a running mean in a buffer that is not saved."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(()), persistent=False)

    def forward(self, x):
        if self.training:
            self.mean.lerp_(x.mean(), 0.1)
        return super().forward(x - self.mean)


class Dropping(Sound):
    """Drops some features in training, by torch's generator, and has a frozen layer."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(12, 12).requires_grad_(False)

    def forward(self, x):
        return nn.functional.dropout(self.frozen(super().forward(x)), 0.5, self.training)


class Wide(Sound):
    """Features in float64."""

    def forward(self, x):
        return super().forward(x).double()


class Sleepy(Sound):
    """Goes to evaluation mode as it is called."""

    def forward(self, x):
        self.eval()
        return super().forward(x)


class Seeding(Sound):
    """Seeds torch."""

    def forward(self, x):
        torch.manual_seed(0)
        return super().forward(x)


class Overwriting(Sound):
    """Clamps its input in place."""

    def forward(self, x):
        return super().forward(x.clamp_(-1, 1))


class Staying(Sound):
    """Multiplies by a tensor that stays on the CPU."""

    def forward(self, x):
        features = super().forward(x)
        return features * torch.linspace(1, 2, features.shape[1])


ELSE, WHOLE = "a_call_changes_nothing_else", "moves_to_a_device_whole"
BROKEN = {
    Wide: {"features_are_as_long_as_it_says"},
    Sleepy: {ELSE},
    Seeding: {ELSE},
    Overwriting: {ELSE},
    Staying: {WHOLE},
    WiderInTraining: {"features_are_as_long_as_it_says"},
    WiderInEvaluation: {"features_are_as_long_as_it_says"},
    FoundOut: {"features_are_as_long_as_it_says"},
    ScalesInAList: {"what_learns_is_in_its_weights", WHOLE},
    LearnsAMean: {"what_learns_is_in_its_weights"},
    SharesAMean: {"what_learns_is_in_its_weights", WHOLE},
    CountsSteps: {"what_learns_is_in_its_weights"},
    CountsInABuffer: set(),
    LosesItsMean: {"what_learns_is_in_its_weights"},
    Dropping: set(),
    Frozen: set(),
    Sound: set(),
    Patched: set(),
    Seeing: {"masked_patches_are_not_seen"},
    Wrapped: {"is_a_module"},
    Misnumbered: {"features_are_as_long_as_it_says"},
    Relative: {"evaluation_looks_at_each_image_alone"},
    Unused: {"every_weight_has_a_gradient"},
}


test_the_law_that_is_broken_is_named, test_every_law_is_broken_once = law_tests("backbone", BROKEN)
