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

    @staticmethod
    def check_masked(parameters):
        """With all parameters there are patches."""


class Seeing(Patched):
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


class WithAnExtraState(Sound):
    """Has a name in its state."""

    def get_extra_state(self):
        return {"name": "sound"}

    def set_extra_state(self, state):
        assert state["name"] == "sound"


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


class SeedingFirst(Sound):
    """Seeds torch for its weights."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        super().__init__()


class Blind(Sound):
    """Scales its features by 0."""

    def forward(self, x):
        return 0 * super().forward(x) + 1


class Sharing(Sound):
    """All objects of the class have one layer."""

    shared = nn.Linear(3 * 16, 12)

    def __init__(self) -> None:
        super().__init__()
        self.layer = self.shared


class Overwriting(Sound):
    """Clamps its input in place."""

    def forward(self, x):
        return super().forward(x.clamp_(-1, 1))


class Staying(Sound):
    """Multiplies by a tensor that stays on the CPU."""

    def forward(self, x):
        features = super().forward(x)
        return features * torch.linspace(1, 2, features.shape[1])


class OfAWidth(Sound):
    """Features of a width."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        if width < 1:
            raise ValueError(f"width must be 1 or more, not {width}")
        self.num_features = width
        self.last = nn.Linear(12, width)

    def forward(self, x):
        return self.last(super().forward(x))


class OfItsDefaultWidth(OfAWidth):
    """Features of 12 numbers, whatever their width should be."""

    def __init__(self, width: int = 12) -> None:
        super().__init__(width)
        self.last = nn.Linear(12, 12)


class DividesByTheSpread(Sound):
    """Divides an image by its standard deviation, which is 0 in one of one color."""

    def forward(self, x):
        return super().forward(x / x.std((1, 2, 3), keepdim=True))


class KeepsItsGrid(Sound):
    """Adds positions, which are made for the size of the first image."""

    grid = None

    def forward(self, x):
        if self.grid is None or self.grid.device != x.device:
            self.grid = torch.linspace(-1, 1, x.shape[-1], device=x.device)
        return super().forward(x + nn.functional.interpolate(self.grid[None, None], x.shape[-1]))


class KeepsAGridForEachSize(KeepsItsGrid):
    """Adds positions, which are made again for another size."""

    def forward(self, x):
        if self.grid is not None and len(self.grid) != x.shape[-1]:
            self.grid = None
        return super().forward(x)


class OfChannels(SmallBackbone):
    """A network of one layer on some channels."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        if channels < 1:
            raise ValueError(f"channels must be 1 or more, not {channels}")
        self.mix = nn.Conv2d(channels, 3, 1)

    @staticmethod
    def check_channels(parameters, channels):
        if channels != parameters["channels"]:
            raise ValueError(f"channels must be {parameters['channels']}, not {channels}")

    def forward(self, x):
        return super().forward(self.mix(x))


class OfThreeChannels(OfChannels):
    """A network on three channels, whatever its parameter is."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__(channels)
        self.mix = nn.Conv2d(3, 3, 1)


class OfOneSize(Sound):
    """A network on images of 32x32 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.scales = nn.Parameter(torch.ones(32))

    @staticmethod
    def check_image_size(parameters, size):
        if size != 32:
            raise ValueError(f"images must have 32 pixels, not {size}")

    def forward(self, x):
        return super().forward(x * self.scales)


class OfSizesThatItDoesNotTake(OfOneSize):
    """Refuses small images alone."""

    @staticmethod
    def check_image_size(parameters, size):
        if size < 32:
            raise ValueError(f"images must have 32 pixels, not {size}")


class OfNoSize(OfOneSize):
    """Refuses the images that it takes."""

    @staticmethod
    def check_image_size(parameters, size):
        raise ValueError(f"images must have 224 pixels, not {size}")


class OfTokens(nn.Module):
    """A network on token ids."""

    EXAMPLE_SHAPE, EXAMPLE_VOCABULARY = (6,), 11
    num_features = 12
    most = 11

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 12)

    @classmethod
    def check_tokens(cls, parameters, length, vocabulary):
        if vocabulary > cls.most:
            raise ValueError(f"vocabulary must be at most {cls.most}, not {vocabulary}")

    def forward(self, x):
        return self.words(x).mean(1)


class OfMoreTokens(OfTokens):
    """Accepts ids beyond its vocabulary."""

    most = 100


class Meaning(OfChannels):
    """Was trained on images of some mean."""

    mean, deviation = (0.5, 0.4, 0.3), (0.2, 0.2, 0.2)

    @classmethod
    def image_statistics(cls, parameters):
        return cls.mean, cls.deviation


class MeaningBytes(Meaning):
    """A mean of pixels up to 255."""

    mean = (123.7, 116.3, 103.5)


class MeaningGray(Meaning):
    """A mean of one channel, of a network that takes three."""

    mean, deviation = (0.5,), (0.2,)


class Naming(Sound):
    """Names its parameters."""

    def layer_numbers(self):
        return {"layer.weight": 0, "layer.bias": 0, "norm.weight": 1, "norm.bias": 1}

    def no_weight_decay(self):
        return {"norm.weight"}


class NamingTied(Naming):
    """Names its parameters, of which another layer has one, too."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.LayerNorm(12, bias=False)
        self.last.weight = self.norm.weight

    def forward(self, x):
        return self.last(super().forward(x))


class NamingModules(Naming):
    """Names a module in place of its parameters."""

    def no_weight_decay(self):
        return {"norm"}


class NamingSome(Naming):
    """Leaves parameters out of its layers."""

    def layer_numbers(self):
        return {"layer.weight": 0, "layer.bias": 0}


class NamingDownwards(Naming):
    """Numbers layers from the features."""

    def layer_numbers(self):
        return {name: 1 - number for name, number in super().layer_numbers().items()}


class NamingFromOne(Naming):
    """Numbers layers from 1."""

    def layer_numbers(self):
        return {name: 1 + number for name, number in super().layer_numbers().items()}


class Unchecked(Patched):
    """Has no check_masked."""

    check_masked = None


class Transposing(Patched):
    """Takes rows of the mask for columns."""

    def forward(self, x, mask=None, token=None):
        return super().forward(x, None if mask is None else mask.mT, token)


class MaskingAll(Patched):
    """Masks the patches of every sample that one of the batch masks."""

    def forward(self, x, mask=None, token=None):
        return super().forward(x, None if mask is None else mask.any(0)[None], token)


class Placed(PatchBackbone):
    """A network on patches with positions."""

    check_masked = Patched.check_masked

    def __init__(self) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.arange(192.0).reshape(4, 4, 12) / 96)

    def place(self, patches, mask, token):
        if mask is not None:
            patches = torch.where(mask[..., None], token, patches)
        return patches + self.positions

    def forward(self, x, mask=None, token=None):
        patches = self.place(self.embed(x).permute(0, 2, 3, 1), mask, token)
        features = self.norm(patches.mean((1, 2)))
        return features if token is None else (features, patches)


class PlacedBefore(Placed):
    """Positions are replaced, too."""

    def place(self, patches, mask, token):
        patches = patches + self.positions
        return patches if mask is None else torch.where(mask[..., None], token, patches)


class Gridded(Sound):
    """Has features of patches."""

    def patches(self, x):
        return nn.functional.avg_pool2d(x, 8).permute(0, 2, 3, 1)


class GriddedTransposed(Gridded):
    """Has columns of patches in place of rows."""

    def patches(self, x):
        return super().patches(x).transpose(1, 2)


class GriddedChannelsFirst(Gridded):
    """Has features of patches as convolutions have them."""

    def patches(self, x):
        return super().patches(x).permute(0, 3, 1, 2)


LONG, MASKED = "features_are_as_long_as_it_says", "masked_patches_are_not_seen"
TAKES, STATISTICS = "takes_what_it_does_not_refuse", "image_statistics_are_of_pixels_to_one"
ALONE = "evaluation_looks_at_each_image_alone"
BEFORE = "images_before_do_not_count"
NAMES, PLACE = "names_its_own_parameters", "patches_are_in_place"
ELSE, WHOLE = "a_call_changes_nothing_else", "moves_to_a_device_whole"
BROKEN = {
    DividesByTheSpread: {LONG},
    OfAWidth: set(),
    OfItsDefaultWidth: {LONG},
    KeepsItsGrid: {BEFORE},
    KeepsAGridForEachSize: set(),
    OfChannels: set(),
    OfThreeChannels: {TAKES},
    OfOneSize: set(),
    OfSizesThatItDoesNotTake: {TAKES},
    OfNoSize: {TAKES},
    OfTokens: set(),
    OfMoreTokens: {TAKES},
    Meaning: set(),
    MeaningBytes: {STATISTICS},
    MeaningGray: {STATISTICS},
    Naming: set(),
    NamingTied: set(),
    NamingModules: {NAMES},
    NamingSome: {NAMES},
    NamingDownwards: {NAMES},
    NamingFromOne: {NAMES},
    Unchecked: {MASKED},
    Transposing: {MASKED},
    MaskingAll: {MASKED},
    Placed: set(),
    PlacedBefore: {MASKED},
    Gridded: set(),
    GriddedTransposed: {PLACE},
    GriddedChannelsFirst: {PLACE},
    Wide: {LONG},
    Sleepy: {ELSE},
    Seeding: {ELSE},
    Overwriting: {ELSE},
    SeedingFirst: {ELSE},
    Blind: {ALONE},
    # One that was moved to the device meta has moved the others' layer, too.
    Sharing: {"what_learns_is_in_its_weights", "every_weight_has_a_gradient", BEFORE, ALONE},
    Staying: {WHOLE},
    WiderInTraining: {LONG},
    WiderInEvaluation: {LONG},
    FoundOut: {LONG},
    ScalesInAList: {"what_learns_is_in_its_weights", WHOLE},
    LearnsAMean: {"what_learns_is_in_its_weights"},
    SharesAMean: {"what_learns_is_in_its_weights", WHOLE},
    CountsSteps: {"what_learns_is_in_its_weights"},
    CountsInABuffer: set(),
    LosesItsMean: {"what_learns_is_in_its_weights"},
    Dropping: set(),
    WithAnExtraState: set(),
    Frozen: set(),
    Sound: set(),
    Patched: set(),
    Seeing: {MASKED},
    Wrapped: {"is_a_module"},
    Misnumbered: {LONG},
    Relative: {ALONE},
    Unused: {"every_weight_has_a_gradient"},
}


test_the_law_that_is_broken_is_named, test_every_law_is_broken_once = law_tests("backbone", BROKEN)
