"""Methods that break one law each; importable, for other processes."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import torch
from torch import nn
from torch.nn.functional import normalize

from ccl_plugins.methods import IBOT, Dual, FeatureQueue, MoCoV2, SimCLR, WithQueue
from ccl_plugins.numerics.distributed import gather
from ccl_plugins.pairs import PatchScores, Samples, in_batch, with_keys
from ccl_plugins.protocols import Embedded

CHANGES = "embedding_and_pairing_change_nothing"
MOVES = "a_momentum_encoder_moves_once_in_a_step"
ZERO = torch.tensor([0])


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


class TrainsACopy(Sound):
    """Trains a copy of the backbone."""

    def __init__(self, *, backbone: nn.Module) -> None:
        super().__init__(backbone=copy.deepcopy(backbone))


class Anew(Sound):
    """Draws the weights of the backbone anew."""

    def __init__(self, *, backbone: nn.Module) -> None:
        super().__init__(backbone=backbone)
        backbone.layer.reset_parameters()


class TeacherEncodes(SoundKeys):
    """Encodes with the momentum encoder, and trains the backbone."""

    def encode(self, x):
        return self.key_encoder.backbone(x)

    def project(self, x):
        return self.head(self.backbone(x))

    def embed(self, views):
        features = self.backbone(views[0])
        keys = torch.stack([self.key(view) for view in views[1:]])
        return Embedded(features[None], self.head(features)[None], keys)


class TeacherIsKept(TeacherEncodes):
    """Its backbone is that of the momentum encoder."""

    def __init__(self, *, backbone: nn.Module) -> None:
        super().__init__(backbone=backbone)
        self.student, self.backbone = backbone, self.key_encoder.backbone

    def project(self, x):
        return self.head(self.student(x))

    def embed(self, views):
        features = self.student(views[0])
        keys = torch.stack([self.key(view) for view in views[1:]])
        return Embedded(features[None], self.head(features)[None], keys)

    def after_step(self, step, total):
        self.key_encoder.update(self.student, self.head, self.momentum)


class TeacherIsSupplied(SoundKeys):
    """The backbone that is supplied is the teacher, and a copy of it the student, which is trained."""

    def __init__(self, *, backbone: nn.Module) -> None:
        super().__init__(backbone=backbone)
        self.student, self.backbone = self.key_encoder.backbone, backbone
        self.student.requires_grad_(True)
        self.key_encoder.backbone = backbone.requires_grad_(False)

    project, after_step = TeacherIsKept.project, TeacherIsKept.after_step
    embed = TeacherIsKept.embed


class TeachersDirections(TeacherEncodes):
    """Encodes with the momentum encoder, on the sphere."""

    def encode(self, x):
        return normalize(super().encode(x), dim=1)


class FeaturesWithoutGradient(Sound):
    """Features that are detached."""

    def embed(self, views):
        embedded = super().embed(views)
        return replace(embedded, features=embedded.features.detach())


class ReluInPlace(Sound):
    """The head changes the features that it is given."""

    def __init__(self, *, backbone: nn.Module) -> None:
        super().__init__(backbone=backbone)
        self.head = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(backbone.num_features, 8))

    def embed(self, views):
        features = torch.stack([self.encode(view) for view in views])
        return Embedded(features, self.head(features))


class KeepsKeys(SimSiam):
    """Pairs of the keys that were embedded last."""

    def embed(self, views):
        embedded = super().embed(views)
        self.last = embedded.keys
        return embedded

    def pairs(self, embedded, samples):
        return super().pairs(replace(embedded, keys=self.last), samples)


class UnitModalities(Dual):
    """Gives projections on the sphere for modalities."""

    EXAMPLE = Dual.EXAMPLE

    def embed_modality(self, name, x):
        return normalize(super().embed_modality(name, x), dim=1)


class FeaturesOfKeys(SoundKeys):
    """Features of the momentum encoder."""

    def embed(self, views):
        features = self.key_encoder.backbone(views[0])
        return replace(super().embed(views), features=features[None])


class FeaturesOfOneView(Sound):
    """Features of the first view in place of the others."""

    def embed(self, views):
        embedded = super().embed(views)
        return replace(embedded, features=embedded.features[:1].expand_as(embedded.features))


class Adapting(Sound):
    """Scales projections by a number that it adapts when it embeds, and that no buffer holds."""

    scale = 1.0

    def embed(self, views):
        embedded = super().embed(views)
        self.scale += 0.1
        return replace(embedded, projections=embedded.projections * self.scale)


class Copied(SimSiam):
    """Keys of a frozen copy, without the trait `momentum`, that moves by a part of its way."""

    part = 0.1

    def __init__(self, *, backbone: nn.Module) -> None:
        super().__init__(backbone=backbone)
        self.copy = copy.deepcopy(nn.Sequential(self.backbone, self.head)).requires_grad_(False)

    def embed(self, views):
        with torch.no_grad():
            keys = torch.stack([self.copy(view) for view in views])
        return replace(super().embed(views), keys=keys)

    @torch.no_grad()
    def after_step(self, step, total):
        sources = (*self.backbone.parameters(), *self.head.parameters())
        for p, source in zip(self.copy.parameters(), sources, strict=True):
            p.lerp_(source, self.part_of(step, total))

    def part_of(self, step, total):
        return self.part


class KeepsItsStart(SimSiam):
    """Holds a copy of the network that it began with, which makes no keys."""

    def __init__(self, *, backbone: nn.Module) -> None:
        super().__init__(backbone=backbone)
        self.start = copy.deepcopy(self.backbone).requires_grad_(False)


class CopiedOnce(Copied):
    """It never moves."""

    part = 0.0


class Stays(Copied):
    """A teacher that stays as it is, and evaluates."""

    part = 0.0

    def train(self, mode=True):
        super().train(mode)
        self.copy.eval()
        return self


class Narrow(Copied):
    """A copy in half precision."""

    def __init__(self, *, backbone: nn.Module) -> None:
        super().__init__(backbone=backbone)
        self.copy.bfloat16()

    def embed(self, views):
        with torch.no_grad():
            keys = torch.stack([self.copy(view.bfloat16()).float() for view in views])
        return replace(SimSiam.embed(self, views), keys=keys)

    @torch.no_grad()
    def after_step(self, step, total):
        sources = (*self.backbone.parameters(), *self.head.parameters())
        for p, source in zip(self.copy.parameters(), sources, strict=True):
            p.lerp_(source.bfloat16(), 0.1)


class TrainedHead(Copied):
    """Keys of a copy of the backbone, by the head that is trained."""

    def embed(self, views):
        with torch.no_grad():
            keys = torch.stack([self.head(self.copy[0](view)) for view in views])
        return replace(super().embed(views), keys=keys)


class Ramps(Copied):
    """A momentum that rises from 0 in the first steps (Mean Teacher)."""

    momentum = 0.9

    def part_of(self, step, total):
        return max(1 / (step + 1), 0.1)


class IgnoresMomentum(Copied):
    """Moves by the default of its momentum, whatever it is."""

    EXAMPLE = {"momentum": 0.9}  # noqa: RUF012

    def __init__(self, momentum: float = 0.9, *, backbone: nn.Module) -> None:
        super().__init__(backbone=backbone)
        self.momentum = momentum


class Waits(Copied):
    """Takes the first step for none."""

    momentum = 0.9

    def part_of(self, step, total):
        return 0.1 if step else 0.0


class Replaced(Copied):
    """A momentum of 0.9 the wrong way."""

    part = 0.9


class BeyondOne(Copied):
    """A momentum that rises above 1."""

    def part_of(self, step, total):
        return 0.1 - 0.02 * step


class Cosine(Copied):
    """A momentum that rises to 1."""

    def part_of(self, step, total):
        return 0.1 * (1 - step / total)


class HeadLeftBehind(SoundKeys):
    """Moves the backbone of the momentum encoder alone."""

    def after_step(self, step, total):
        head = copy.deepcopy(self.key_encoder.head.state_dict())
        super().after_step(step, total)
        self.key_encoder.head.load_state_dict(head)


class OneHead(SoundKeys):
    """Keys by the head that is trained."""

    @torch.no_grad()
    def project_key(self, x):
        return self.head(self.key_encoder.backbone(x))


class Projecting(SoundKeys):
    """Keys for conditions by the encoder that is trained."""

    def key(self, x):
        return self.key_encoder(x)

    @torch.no_grad()
    def project_key(self, x):
        return self.project(x)


class InPlace(Sound):
    """Scales its views where they are."""

    def embed(self, views):
        return super().embed([view.mul_(2) for view in views])


class Seeding(SimSiam):
    """Seeds when it projects."""

    def project(self, x):
        torch.manual_seed(0)
        return super().project(x)


class QueueOfQueries(SoundKeys):
    """Enqueues its queries."""

    def enqueue(self, pairs):
        super().enqueue(replace(pairs, keys=pairs.anchors.detach()))


class TwiceEnqueued(SoundKeys):
    """Enqueues each batch twice."""

    def enqueue(self, pairs):
        super().enqueue(pairs)
        super().enqueue(pairs)


class WritesShort(SoundKeys):
    """Leaves out keys that do not fit before the end of the queue."""

    def enqueue(self, pairs):
        self._enqueue(pairs, len(self.queue) - int(self.queue.pointer))

    def _enqueue(self, pairs, room):
        samples, keys = pairs.samples, pairs.keys[-1].detach()[:room]
        rows = {name: z[-1] if z.ndim == 3 else z for name, z in samples.condition.items()}
        index = samples.index if samples.partner is None else samples.partner
        rows |= samples.partner_condition
        self.queue.write(keys, index[:room], {name: z[:room] for name, z in rows.items()})


class WritesOver(SoundKeys):
    """Writes each batch over the one before."""

    def enqueue(self, pairs):
        self.queue.pointer.zero_()
        super().enqueue(pairs)


class WithoutPartners(WritesShort):
    """Enqueues the index and the conditions of samples whose keys are of partners."""

    def enqueue(self, pairs):
        samples = replace(pairs.samples, partner=None, partner_condition={})
        self._enqueue(replace(pairs, samples=samples), None)


class EnqueuesInTraining(SoundKeys):
    """Enqueues in training alone."""

    def enqueue(self, pairs):
        if self.training:
            super().enqueue(pairs)


class TurnsOff(SoundKeys):
    """Has no queue where its size is 0, and does not say so."""

    EXAMPLE = {"queue_size": 32}  # noqa: RUF012

    def __init__(self, queue_size: int = 32, *, backbone: nn.Module) -> None:
        super().__init__(backbone=backbone)
        self.off = queue_size == 0

    def pairs(self, embedded, samples):
        pairs = super().pairs(embedded, samples)
        return replace(pairs, queue=None, batch_candidates=None) if self.off else pairs


class TurnsOffAndSays(TurnsOff):
    """Says so."""

    @staticmethod
    def has_queue(parameters):
        return parameters["queue_size"] > 0


class NotAdded(SoundKeys):
    """Fills a queue that no pairs have."""

    def pairs(self, embedded, samples):
        return replace(super().pairs(embedded, samples), queue=None, batch_candidates=None)


class NearestOfQueue(WithQueue, SimSiam):
    """Keys are the nearest of a queue that it reads itself, once it is full (NNCLR)."""

    def __init__(self, *, backbone: nn.Module) -> None:
        super().__init__(backbone=backbone)
        self.queue = FeatureQueue(64, 8)

    def pairs(self, embedded, samples):
        near = self.queue.keys[(embedded.keys @ self.queue.keys.T).argmax(-1)]
        keys = torch.where(self.queue.full, near, embedded.keys)
        return super().pairs(replace(embedded, keys=keys), samples)


class AnyBatch(SoundKeys):
    """Lets batches pass that its queue does not hold."""

    def check_batch(self, size):
        pass


class NeverNew(SoundKeys):
    """A queue that takes keys until it is full."""

    def enqueue(self, pairs):
        if not self.queue.full:
            super().enqueue(pairs)


class FromTheStart(SoundKeys):
    """A queue of zeros, all valid."""

    def pairs(self, embedded, samples):
        pairs = super().pairs(embedded, samples)
        return replace(pairs, queue=replace(pairs.queue, valid=torch.ones(32).bool()))


class OneAnchor(Sound):
    """A gradient through the first view alone."""

    def embed(self, views):
        embedded = super().embed(views)
        first, others = embedded.projections[:1], embedded.projections[1:].detach()
        return replace(embedded, projections=torch.cat([first, others]))


class ByIndex(Sound):
    """Sorts anchors by index."""

    def pairs(self, embedded, samples):
        order = samples.index.argsort()
        sorted_ = replace(embedded, projections=embedded.projections[:, order])
        return super().pairs(sorted_, samples)


class Rebuilds(Sound):
    """Makes samples anew of what it needs."""

    def pairs(self, embedded, samples):
        return super().pairs(embedded, Samples(samples.condition, samples.index))


class WideKeys(SimSiam):
    """Writes projections into a tensor of another type than autocast gives."""

    def embed(self, views):
        embedded = super().embed(views)
        keys = torch.zeros(embedded.keys.shape)
        return replace(
            embedded, keys=keys.copy_(embedded.keys).index_copy_(0, ZERO, embedded.keys[:1])
        )


class MixedProjection(SoundKeys):
    """Projects by the head of the momentum encoder."""

    def project(self, x):
        return self.key_encoder.head(self.encode(x))


class Gathered(SoundKeys):
    """Gives the keys of all processes for the images of one."""

    def key(self, x):
        return self.key_encoder(x)

    def project_key(self, x):
        return gather(self.key_encoder(x))


class DeniesItsQueue(SoundKeys):
    """Says that it has no queue."""

    @staticmethod
    def has_queue(parameters):
        return False


class WithGraphs(Copied):
    """Moves its copy with gradient, and so holds the graphs of all steps."""

    def after_step(self, step, total):
        with torch.enable_grad():
            sources = (*self.backbone.parameters(), *self.head.parameters())
            for p, source in zip(self.copy.parameters(), sources, strict=True):
                p.copy_(0.9 * p + 0.1 * source)


class DeclaresMore(Sound):
    """Declares a condition that it does not read."""

    conditions = {"age": ("continuous",)}  # noqa: RUF012


class DeclaresNothing(Sound):
    """Compares with samples of another class alone, if there are classes, and does not say so."""

    def pairs(self, embedded, samples):
        pairs = super().pairs(embedded, samples)
        return pairs.excluding(pairs.same_class("label")) if "label" in samples.condition else pairs


class EqualNumbers(Sound):
    """Takes numbers, and asks whether they are equal."""

    conditions = {"site": ("categorical", "continuous")}  # noqa: RUF012

    def pairs(self, embedded, samples):
        pairs = super().pairs(embedded, samples)
        return pairs.excluding(pairs.same_class("site"))


class WideMask(EqualNumbers):
    """Compares rows of 0 and 1 place by place."""

    conditions = {"site": ("categorical", "multi_label")}  # noqa: RUF012

    def pairs(self, embedded, samples):
        pairs = Sound.pairs(self, embedded, samples)
        site = pairs.everyone("site")
        return pairs.excluding(site[pairs.rows, None] != site)


class NamesMore(Sound):
    """Adds a condition to the samples that it is given."""

    def pairs(self, embedded, samples):
        samples.condition["length"] = embedded.projections[0].detach().norm(dim=1)
        return super().pairs(embedded, samples)


class Schedules(Copied):
    """A momentum that is 1 in the last step of a run, which has several."""

    def part_of(self, step, total):
        return 0.1 * (1 - step / (total - 1))


class SameAge(Sound):
    """Compares with samples of a near age alone."""

    conditions = {"age": ("continuous",)}  # noqa: RUF012

    def pairs(self, embedded, samples):
        pairs = super().pairs(embedded, samples)
        age = pairs.everyone("age")
        return pairs.excluding((age[pairs.rows, None] - age).abs() > 100)


class OwnDraws:
    """Masks that no global generator draws."""

    views = 2

    def __call__(self, height, width):
        drawn = np.random.default_rng().random((height // 8, width // 8))
        return torch.from_numpy(drawn < 0.5)


class MasksByItself(IBOT):
    """Masks that no seed repeats."""

    EXAMPLE = IBOT.EXAMPLE

    def __setattr__(self, name, value):
        super().__setattr__(name, OwnDraws() if name == "masking" else value)


class SeesMasked(IBOT):
    """Scores patches as its student sees them without a mask."""

    EXAMPLE = IBOT.EXAMPLE

    def embed(self, views, masks=None):
        embedded = super().embed(views, masks)
        if masks is None:
            return embedded
        seen = [self.backbone(view, None, self.mask_token)[1] for view in views]
        student = self.head(torch.stack(seen, 1).flatten(0, 3)[masks.places()])
        return replace(embedded, patches=replace(embedded.patches, student=student))


class ByViews(IBOT):
    """Scores of patches in the order of views."""

    EXAMPLE = IBOT.EXAMPLE

    def embed(self, views, masks=None):
        embedded = super().embed(views, masks)
        if masks is None:
            return embedded
        n, count, *_ = masks.masked.shape
        rows = torch.arange(n * count).repeat_interleave(embedded.patches.counts.flatten())
        order = (rows % count).argsort(stable=True)
        scores = embedded.patches.student[order], embedded.patches.teacher[order]
        return replace(embedded, patches=PatchScores(*scores, embedded.patches.counts))


class WithoutScores(IBOT):
    """Gives no scores of masked patches."""

    EXAMPLE = IBOT.EXAMPLE

    def embed(self, views, masks=None):
        return replace(super().embed(views, masks), patches=None)


class NoStatistics(SoundKeys):
    """Forgets what statistics it is to keep."""

    def keep_statistics(self, statistics):
        pass


class StaleStatistics(SoundKeys):
    """Writes condition values past the statistics of them."""

    def read_conditions(self, look_up):
        for name, rows in look_up(self.queue.index.clamp_min(0)).items():
            self.queue.condition(name, rows).copy_(rows)


class LooksUpNothing(SoundKeys):
    """Looks up places that hold nothing yet."""

    def read_conditions(self, look_up):
        look_up(self.queue.index)
        super().read_conditions(look_up)


class Renamed(SimCLR):
    """Declares the default of a name."""

    EXAMPLE = {"dim": 8, "on": "site"}  # noqa: RUF012
    conditions = {"site": ("categorical",)}  # noqa: RUF012

    def __init__(self, dim: int = 8, on: str = "site", *, backbone: nn.Module) -> None:
        super().__init__(16, dim, backbone=backbone)
        self.on = on

    def pairs(self, embedded, samples):
        pairs = super().pairs(embedded, samples)
        return pairs.excluding(pairs.same_class(self.on))


class Named(Renamed):
    """Declares the name that it is given."""

    @property
    def conditions(self):
        return {self.on: ("categorical",)}


class Drawing(SoundKeys):
    """Leaves out some of the keys, drawn anew for each batch."""

    def pairs(self, embedded, samples):
        pairs = super().pairs(embedded, samples)
        own, few = pairs.own(), torch.rand(pairs.keys.shape[1]) < 0.1
        lost = torch.cat([few & ~own, torch.zeros(len(own), 32, dtype=torch.bool)], 1)
        return pairs.excluding(lost)


class MasksMore(IBOT):
    """Masks two views, and says one."""

    EXAMPLE = IBOT.EXAMPLE

    @staticmethod
    def masked_views(parameters):
        return IBOT.masked_views(parameters) - 1


BROKEN = {
    TrainsACopy: {"keeps_its_backbone"},
    Anew: {"keeps_its_backbone"},
    TeacherEncodes: set(),
    TeacherIsKept: set(),
    TeacherIsSupplied: set(),
    TeachersDirections: {"keeps_its_backbone"},
    FeaturesWithoutGradient: {"features_are_of_the_backbone"},
    ReluInPlace: {"features_are_of_the_backbone"},
    KeepsKeys: {CHANGES},
    UnitModalities: {"projects_as_it_embeds"},
    Stays: set(),
    Ramps: set(),
    IgnoresMomentum: {MOVES},
    Waits: {MOVES},
    EnqueuesInTraining: set(),
    TurnsOff: {"what_is_enqueued_are_keys"},
    TurnsOffAndSays: set(),
    WideMask: {"reads_the_conditions_that_it_declares"},
    Narrow: {MOVES, "projects_as_it_embeds"},  # whose rounding they are
    TrainedHead: {"keys_are_of_the_momentum_encoder"},
    WritesShort: {"what_is_enqueued_are_keys"},
    WritesOver: {"what_is_enqueued_are_keys"},
    WithoutPartners: {"a_queue_keeps_the_conditions_of_its_keys"},
    DeclaresNothing: {"reads_the_conditions_that_it_declares"},
    EqualNumbers: {"reads_the_conditions_that_it_declares"},
    NamesMore: {"calls_leave_what_is_not_theirs"},
    Schedules: {"goes_through_an_epoch"},
    FeaturesOfKeys: {"features_are_of_the_backbone"},
    FeaturesOfOneView: {"features_are_of_the_backbone"},
    Adapting: {CHANGES},
    Copied: set(),
    KeepsItsStart: set(),
    Cosine: set(),
    CopiedOnce: {MOVES},
    Replaced: {MOVES},
    BeyondOne: {MOVES},
    HeadLeftBehind: {MOVES},
    OneHead: {"keys_are_of_the_momentum_encoder"},
    Projecting: {"keys_are_of_the_momentum_encoder"},
    InPlace: {"calls_leave_what_is_not_theirs"},
    Seeding: {"calls_leave_what_is_not_theirs"},
    QueueOfQueries: {"what_is_enqueued_are_keys", "two_processes_equal_one"},
    TwiceEnqueued: {"what_is_enqueued_are_keys"},
    NotAdded: {"what_is_enqueued_are_keys"},
    NeverNew: {"what_is_enqueued_are_keys"},
    FromTheStart: {"what_is_enqueued_are_keys"},
    NearestOfQueue: set(),
    OneAnchor: {"gradient_reaches_every_weight"},
    ByIndex: {"own_keys_are_at_own_positions", "two_processes_equal_one"},
    Rebuilds: {"pairs_carry_what_is_known_of_samples"},
    WideKeys: {"embeds_in_half_precision"},
    MixedProjection: {"projects_as_it_embeds"},
    Gathered: {"two_processes_equal_one"},
    AnyBatch: {"takes_the_batches_that_it_checks"},
    DeclaresMore: {"reads_the_conditions_that_it_declares"},
    SameAge: set(),
    MasksByItself: {
        "a_resumed_run_goes_on_as_it_would_have",
        "masks_the_views_that_it_says",
        "own_keys_are_at_own_positions",
        "two_processes_equal_one",
    },
    DeniesItsQueue: {"what_is_enqueued_are_keys"},
    WithGraphs: {"goes_through_an_epoch"},
    SeesMasked: {"scores_masked_patches"},
    ByViews: {"scores_masked_patches", "two_processes_equal_one"},
    WithoutScores: {"scores_masked_patches"},
    NoStatistics: {"a_queue_keeps_its_statistics"},
    StaleStatistics: {"a_queue_keeps_its_statistics"},
    LooksUpNothing: {"a_queue_keeps_the_conditions_of_its_keys"},
    Renamed: {"reads_the_conditions_that_it_declares"},
    Named: set(),
    Drawing: set(),
    MasksMore: {"masks_the_views_that_it_says"},
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
    Eager: {CHANGES, "what_is_enqueued_are_keys"},
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
        "features_are_of_the_backbone",
        "keeps_its_backbone",
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
        "embeds_in_half_precision",
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
