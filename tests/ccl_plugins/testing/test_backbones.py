"""Backbones that break one law each."""

from __future__ import annotations

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


BROKEN = {
    Sound: set(),
    Patched: set(),
    Seeing: {"masked_patches_are_not_seen"},
    Wrapped: {"is_a_module"},
    Misnumbered: {"features_are_as_long_as_it_says"},
    Relative: {"evaluation_looks_at_each_image_alone"},
    Unused: {"every_weight_has_a_gradient"},
}


test_the_law_that_is_broken_is_named, test_every_law_is_broken_once = law_tests("backbone", BROKEN)
