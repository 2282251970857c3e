"""Methods that break one law each; importable, for other processes."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn
from torch.nn.functional import normalize

from ccl_plugins.methods import MoCoV2, SimCLR
from ccl_plugins.pairs import in_batch, with_keys
from ccl_plugins.protocols import Embedded

CHANGES = "embedding_and_pairing_change_nothing"
MOVES = "a_momentum_encoder_moves_once_in_a_step"


class Sound(SimCLR):
    """SimCLR."""

    def __init__(self, *, backbone: nn.Module) -> None:
        super().__init__(16, 8, backbone=backbone)

    EXAMPLE = {}  # noqa: RUF012  a constant of a test


class SoundKeys(MoCoV2):
    """MoCo v2."""

    EXAMPLE = {}  # noqa: RUF012  a constant of a test

    def __init__(self, *, backbone: nn.Module) -> None:
        super().__init__(16, 8, queue_size=32, backbone=backbone)


class Flat(Sound):
    """Features of all views in one row."""

    def embed(self, views):
        embedded = super().embed(views)
        return replace(embedded, features=embedded.features.flatten(0, 1))


class Relative(Sound):
    """Features that depend on the batch."""

    def encode(self, x):
        features = super().encode(x)
        return features - features.mean(0)


class Misplaced(Sound):
    """The index of the sample before."""

    def pairs(self, embedded, samples):
        return super().pairs(embedded, replace(samples, index=samples.index.roll(1)))


class MisplacedKeys(SoundKeys):
    """The key of the sample before."""

    def pairs(self, embedded, samples):
        first = embedded.keys[:, :1] + 0 * embedded.keys
        return super().pairs(replace(embedded, keys=first.cumsum(1)), samples)


class Unused(Sound):
    """Has an unused layer."""

    def __init__(self, *, backbone: nn.Module) -> None:
        super().__init__(backbone=backbone)
        self.unused = nn.Linear(2, 2)


class LearnedKeys(SoundKeys):
    """With a gradient through the keys."""

    def pairs(self, embedded, samples):
        pairs = super().pairs(embedded, samples)
        return replace(pairs, keys=pairs.keys + 0 * pairs.anchors.sum())


class Growing(Sound):
    """Changes weights with the queue."""

    @torch.no_grad()
    def enqueue(self, pairs):
        for parameter in self.parameters():
            parameter *= 0.9


class Forgetful(Sound):
    """Counts steps outside its state dict."""

    age = 0

    def embed(self, views):
        embedded = super().embed(views)
        return replace(embedded, projections=embedded.projections + self.age)

    def after_step(self, step, total):
        self.age += 1


class StopsShort(Sound):
    """Fails in the last step."""

    def after_step(self, step, total):
        if step + 1 == total:
            raise ZeroDivisionError


class Alone(SoundKeys):
    """Compares with the keys of its own process, and gathers the queue alone."""

    def pairs(self, embedded, samples):
        given = (embedded.projections, embedded.keys, samples)
        return self.queue.add_to(with_keys(*given, first_key_view=1))


class AloneInBatch(Sound):
    """SimCLR on each process by itself."""

    def pairs(self, embedded, samples):
        return in_batch(embedded.projections, samples)


class KeysAlone(SoundKeys):
    """A queue of keys and indices without conditions."""

    def pairs(self, embedded, samples):
        pairs = super().pairs(embedded, samples)
        return replace(pairs, queue=replace(pairs.queue, condition={}))


class FirstConditions(SoundKeys):
    """Enqueues the conditions of the sample before."""

    def enqueue(self, pairs):
        rolled = {
            name: rows.roll(1, -2 if rows.ndim == 3 else 0)
            for name, rows in pairs.samples.condition.items()
        }
        super().enqueue(replace(pairs, samples=replace(pairs.samples, condition=rolled)))


class NeverReadsAgain(SoundKeys):
    """Keeps the conditions of an epoch for ever."""

    def read_conditions(self, look_up):
        pass


class Unsaved(SoundKeys):
    """A queue whose conditions are in no checkpoint."""

    def state_dict(self, *args, **kwargs):
        found = super().state_dict(*args, **kwargs)
        return {k: x for k, x in found.items() if not k.startswith("queue.condition:embedding")}


class SimSiam(nn.Module):
    """Predictor and stopped gradient, without keys of another encoder and without negatives."""

    EXAMPLE = {}  # noqa: RUF012  a constant of a test

    def __init__(self, *, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(backbone.num_features, 8, bias=False)
        self.predictor = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8, bias=False))

    def encode(self, x):
        return self.backbone(x)

    def project(self, x):
        return self.head(self.encode(x))

    def embed(self, views):
        features = torch.stack([self.encode(view) for view in views])
        projections = self.head(features)
        return Embedded(features, self.predictor(projections), projections.detach())

    def pairs(self, embedded, samples):
        given = (embedded.projections, embedded.keys, samples)
        pairs = with_keys(*given, first_key_view=0, gather_distributed=True)
        return replace(pairs, negative=torch.zeros_like(pairs.own()))

    def enqueue(self, pairs):
        pass

    def after_step(self, step, total):
        pass


class Nearest(SimSiam):
    """Predictions of the first view, and of the others the nearest of earlier keys (NNCLR)."""

    def __init__(self, *, backbone: nn.Module) -> None:
        super().__init__(backbone=backbone)
        self.register_buffer("earlier", normalize(torch.randn(64, 8), dim=1))

    def pairs(self, embedded, samples):
        near = self.earlier[(embedded.keys[1:] @ self.earlier.T).argmax(-1)]
        given = (embedded.projections[:1], near, samples)
        return with_keys(*given, first_key_view=1, gather_distributed=True)

    def enqueue(self, pairs):
        self.earlier = torch.cat([pairs.keys[0], self.earlier])[:64]


class Eager(SoundKeys):
    """Enqueues when it makes pairs."""

    def pairs(self, embedded, samples):
        pairs = super().pairs(embedded, samples)
        super().enqueue(pairs)
        return pairs

    def enqueue(self, pairs):
        pass


class Tracking(Sound):
    """Counts in a buffer how often it embeds."""

    def __init__(self, *, backbone: nn.Module) -> None:
        super().__init__(backbone=backbone)
        self.register_buffer("count", torch.zeros(()))

    def embed(self, views):
        self.count += 1
        return super().embed(views)


class OtherHead(Sound):
    """Projects by another head than it embeds with."""

    def __init__(self, *, backbone: nn.Module) -> None:
        super().__init__(backbone=backbone)
        self.other = nn.Linear(8, 8)

    def project(self, x):
        return self.other(super().project(x))


class Twice(SoundKeys):
    """Updates its momentum encoder twice in a step."""

    def after_step(self, step, total):
        super().after_step(step, total)
        super().after_step(step, total)


class Unevenly(SoundKeys):
    """Updates one weight of its momentum encoder by half as much as the others."""

    def after_step(self, step, total):
        one = next(p for p in self.parameters() if not p.requires_grad)
        before = one.clone()
        super().after_step(step, total)
        one.lerp_(before, 0.5)


class Never(SoundKeys):
    """Never updates its momentum encoder."""

    def after_step(self, step, total):
        pass


class FirstTwo(Sound):
    """Embeds the first two views, however many there are."""

    def embed(self, views):
        return super().embed(views[:2])


class TwoAndNoMore(Sound):
    """Takes two views, and refuses more."""

    def embed(self, views):
        first, second = views
        return super().embed([first, second])


class SameView(SoundKeys):
    """Queries and keys of the first view."""

    def embed(self, views):
        return super().embed([views[0]] * len(views))


class Swapped(SimSiam):
    """Keys in the other order of views, as for a loss that takes them crosswise."""

    def pairs(self, embedded, samples):
        return super().pairs(replace(embedded, keys=embedded.keys.flip(0)), samples)


class StaysInEvaluation(Sound):
    """Evaluates when it projects, and does not train on."""

    def project(self, x):
        self.eval()
        return super().project(x)


class TrainsAlways(SoundKeys):
    """Sets its networks to train when it embeds views."""

    def embed(self, views):
        self.backbone.train()
        return super().embed(views)


class KeepsTheMode(Sound):
    """Projects in evaluation mode, and goes on in the mode in which it was."""

    def project(self, x):
        modes = {module: module.training for module in self.modules()}
        self.eval()
        projections = super().project(x)
        for module, training in modes.items():
            module.training = training
        return projections


class LearnedKeysOfEmbed(SimSiam):
    """Keys with a gradient, which the pairs leave out."""

    def embed(self, views):
        embedded = super().embed(views)
        return replace(embedded, keys=self.head(embedded.features))

    def pairs(self, embedded, samples):
        return super().pairs(replace(embedded, keys=embedded.keys.detach()), samples)


class LearnedKeysOfImages(SimSiam):
    """Keys with a gradient, for conditions that read them."""

    def project_key(self, x):
        return self.project(x)


class StoppedAndShared(Sound):
    """Stops the gradient of keys that it says are shared."""

    def pairs(self, embedded, samples):
        pairs = super().pairs(embedded, samples)
        return replace(pairs, keys=pairs.keys.detach())


BROKEN = {
    FirstTwo: {"every_view_reaches_the_pairs"},
    TwoAndNoMore: set(),
    SameView: {"every_view_reaches_the_pairs", "keys_are_of_other_views"},
    Swapped: {"keys_are_of_other_views"},
    StaysInEvaluation: {"calls_leave_the_mode_as_it_was"},
    TrainsAlways: {"calls_leave_the_mode_as_it_was"},
    KeepsTheMode: set(),
    LearnedKeysOfEmbed: {"keys_carry_no_gradient"},
    LearnedKeysOfImages: {"keys_carry_no_gradient"},
    StoppedAndShared: {"keys_carry_no_gradient"},
    Eager: {CHANGES},
    Tracking: {CHANGES},
    OtherHead: {"projects_as_it_embeds", "gradient_reaches_every_weight"},
    Twice: {MOVES},
    Unevenly: {MOVES},
    Never: {MOVES},
    Sound: set(),
    SoundKeys: set(),
    Flat: {"embeds_views"},
    Relative: {
        "evaluation_looks_at_each_image_alone",
        "keys_are_of_other_views",
        "projects_as_it_embeds",
        "two_processes_equal_one",
    },
    Misplaced: {"own_keys_are_at_own_positions", "two_processes_equal_one"},
    MisplacedKeys: {"own_keys_are_at_own_positions", "two_processes_equal_one"},
    Unused: {"gradient_reaches_every_weight"},
    LearnedKeys: {"keys_carry_no_gradient"},
    Growing: {"only_buffers_are_enqueued"},
    Forgetful: {"a_resumed_run_goes_on_as_it_would_have"},
    Alone: {"two_processes_equal_one"},
    AloneInBatch: {"two_processes_equal_one"},
    KeysAlone: {
        "a_queue_keeps_the_conditions_of_its_keys",
        "a_resumed_run_goes_on_as_it_would_have",
        "goes_through_an_epoch",
        "gradient_reaches_every_weight",
        "two_processes_equal_one",
    },
    FirstConditions: {
        "a_queue_keeps_the_conditions_of_its_keys",
        "a_resumed_run_goes_on_as_it_would_have",
    },
    NeverReadsAgain: {"a_queue_keeps_the_conditions_of_its_keys"},
    Unsaved: {"a_resumed_run_goes_on_as_it_would_have", "only_buffers_are_enqueued"},
    SimSiam: set(),
    Nearest: set(),
    StopsShort: {"goes_through_an_epoch"},
}
