"""Objectives that break one law each; importable, for other processes."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch.nn.functional import cross_entropy, softplus

from ccl_plugins.objectives import ContrastiveObjective, FairInfoNCE, InfoNCE, SupCon


class Sound(InfoNCE):
    """InfoNCE, which breaks no law."""


class Undeclared(Sound):
    """Declares a string as `within_view`."""

    def __init__(self) -> None:
        super().__init__()
        self.within_view = "yes"


class NoMean(Sound):
    """A loss that is not the mean of its terms."""

    def _mean(self, *args):
        return 2 * super()._mean(*args)


class OneSided(Sound):
    """Without a gradient for the second view."""

    stops_gradient = True

    def __init__(self) -> None:
        super().__init__(symmetric=False)

    def terms(self, pairs):
        return super().terms(replace(pairs, keys=pairs.keys.detach()))


class WrongGradient(Sound):
    """Holds a factor constant without declaring it."""

    def terms(self, pairs):
        values, weights = super().terms(pairs)
        return values * values.detach(), weights


class FirstCountsMore(Sound):
    """Weighs samples by their place."""

    def terms(self, pairs):
        values, weights = super().terms(pairs)
        n = pairs.anchors.shape[1]
        return values, weights * torch.arange(1 + pairs.offset, 1 + pairs.offset + n)


class Counting(Sound):
    """Counts its calls in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def terms(self, pairs):
        self.calls += 1
        return super().terms(pairs)


class Stumbling(Sound):
    """Fails after a step."""

    def after_step(self) -> None:
        raise RuntimeError("no")


class Forgetful(Sound):
    """Learns outside its state dict."""

    steps = 0

    def after_step(self) -> None:
        self.steps += 1

    def terms(self, pairs):
        values, weights = super().terms(pairs)
        return values * (1 + self.steps), weights


class CalledOtherwise(Sound):
    """Gives another loss in a call on embeddings."""

    def forward(self, *views, **known):
        return super().forward(*views, **known) + 1


class LowPrecision(Sound):
    """Stays in bfloat16."""

    def forward(self, *views, **known):
        return super().forward(*views, **known).to(views[0].dtype)


class LocalCount(Sound):
    """Counts the anchors of its own process."""

    def terms(self, pairs):
        values, weights = super().terms(pairs)
        return values * pairs.anchors.shape[1], weights


class Looking(Sound):
    """Branches on a value."""

    def terms(self, pairs):
        values, weights = super().terms(pairs)
        return (values * 2 if values.sum().item() > 1e9 else values), weights


class RootOfNothing(Sound):
    """Has no gradient where views are equal."""

    def terms(self, pairs):
        values, weights = super().terms(pairs)
        apart = (pairs.anchors[0] - pairs.anchors[-1]).square().sum(-1)
        return values + 0.1 * apart.sqrt(), weights


class FullQueue(Sound):
    """Takes empty places of the queue for keys."""

    def terms(self, pairs):
        if pairs.queue is not None:
            pairs = replace(
                pairs, queue=replace(pairs.queue, valid=torch.ones_like(pairs.queue.valid))
            )
        return super().terms(pairs)


class Deaf(Sound):
    """Compares the batch alone, as a loss of lightly's does, and does not say so."""

    def terms(self, pairs):
        return super().terms(replace(pairs, queue=None))


class DeafAndSaysSo(Deaf):
    """Compares the batch alone, and says so."""

    reads_queue = False


class Centerd(Sound):
    """Reads an extra of a condition."""

    EXAMPLE_EXTRAS = {"condition/centroids": (3, 16)}  # noqa: RUF012  a constant of a test

    def terms(self, pairs):
        values, weights = super().terms(pairs)
        near = pairs.anchors @ pairs.samples.extras["condition/centroids"].T
        return values + near.logsumexp(-1).mean(0), weights


class CountsAll(FairInfoNCE):
    """Counts samples without a value of the condition."""

    def terms(self, pairs):
        values, weights = super().terms(pairs)
        return values * pairs.keys.shape[1], weights


class Blind(FairInfoNCE):
    """Declares a condition and does not read it."""

    hides = False

    def terms(self, pairs):
        return super().terms(pairs.with_condition(self.on, lambda z: torch.zeros_like(z[self.on])))


class BlindInQueue(SupCon):
    """Takes the queue's keys for samples of other classes."""

    def terms(self, pairs):
        if pairs.queue is not None:
            other = torch.full_like(pairs.queue.condition[self.on], 9)
            pairs = replace(pairs, queue=replace(pairs.queue, condition={self.on: other}))
        return super().terms(pairs)


class Greedy(Sound):
    """Has all other samples as negatives, whatever it is given."""

    def terms(self, pairs):
        return super().terms(replace(pairs, negative=None, draws=None))


class Cubic(Sound):
    """Compares every three samples."""

    def terms(self, pairs):
        values, weights = super().terms(pairs)
        sims = pairs.sim(0, 1)
        return values + 0.1 * (sims[:, :, None] * sims[:, None]).mean(), weights


class Wide(Sound):
    """Computes and answers in float64."""

    def terms(self, pairs):
        values, weights = super().terms(pairs)
        return values.double(), weights.double()


class OnTheHost(Sound):
    """Has a constant on the CPU, wherever the embeddings are."""

    def terms(self, pairs):
        values, weights = super().terms(pairs)
        return values * torch.ones(values.shape[1]), weights


class Summed(Sound):
    """A sum over the anchors of all processes."""

    def terms(self, pairs):
        values, weights = super().terms(pairs)
        return values * pairs.keys.shape[1], weights


class SummedOverBatch(ContrastiveObjective):
    """A cross entropy of the batch alone, summed over it, as each anchor's term."""

    reads_queue = False
    distributed = "replicated"
    reduction = "sum"

    def terms(self, pairs):
        own, n = torch.eye(pairs.keys.shape[1]).to(pairs.anchors), pairs.anchors.shape[1]
        values = torch.stack(
            [
                cross_entropy(5 * pairs.sim(i, j), own[pairs.rows], reduction=self.reduction)
                for i, j in pairs.cross()
            ]
        )
        values = values[:, None].expand(-1, n)
        return values, torch.ones_like(values)


class MeanOverBatch(SummedOverBatch):
    """The mean of the same."""

    reduction = "mean"


class DividedTwice(Sound):
    """A mean over the anchors, divided by their number once more."""

    def terms(self, pairs):
        values, weights = super().terms(pairs)
        return values / pairs.keys.shape[1], weights


class Sigmoid(ContrastiveObjective):
    """SigLIP of the batch alone: a term is a sum over the other samples, and the loss a mean of terms."""

    reads_queue = False

    def terms(self, pairs):
        own = pairs.own()
        logits = torch.stack([10 * pairs.sim(i, j) for i, j in pairs.cross()])
        values = softplus(torch.where(own, -logits, logits)).sum(-1)
        return values, torch.ones_like(values)


class Graded(ContrastiveObjective):
    """Attracts samples of near values, which are class ids or numbers."""

    on = "condition"
    value_types = ("categorical", "continuous")

    def near(self, z):
        """(m, m) numbers from 0 to 1."""
        same = z[:, None] == z
        return torch.exp(-torch.cdist(z, z)) if z.is_floating_point() else same.double()

    def terms(self, pairs):
        near = self.near(pairs.everyone(self.on))[pairs.rows].to(pairs.anchors)
        rows = []
        for i, j in pairs.cross():
            blocks = pairs.negatives(i, j, within_view=False)
            sims = torch.cat([sims for sims, _ in blocks], 1)
            keep = torch.cat([keep.expand_as(sims) for sims, keep in blocks], 1)
            others = (sims.exp() * (1 - near) * keep).sum(1) / keep.sum(1).clamp_min(1)
            rows.append(others - pairs.own_sim(i, j))
        values = torch.stack(rows)
        return values, torch.ones_like(values)


class TakesNumbersAlone(Graded):
    """Takes class ids for rows of numbers."""

    def near(self, z):
        return torch.exp(-torch.cdist(z, z))


class ReadsNumbersAlone(Graded):
    """Takes class ids, and reads none."""

    def near(self, z):
        return super().near(z if z.is_floating_point() else torch.zeros_like(z))


class EqualNumbers(Graded):
    """Compares numbers by whether they are equal, which none are."""

    def near(self, z):
        same = z[:, None] == z
        return (same.all(-1) if z.is_floating_point() else same).double()


class Levels(ContrastiveObjective):
    """Attracts samples by the levels of their class ids that are equal."""

    EXAMPLE_CONDITION = [[0, 0], [0, 1], [1, 2], [1, 3], [0, 0], [1, 2]]  # noqa: RUF012
    on = "condition"
    value_types = ("categorical",)
    hierarchies = True
    reads_queue = False
    levels = slice(None)

    def terms(self, pairs):
        z = pairs.everyone(self.on)[:, self.levels]
        z = z[: pairs.keys.shape[1]]
        near = (z[pairs.rows, None] == z).double().mean(-1).to(pairs.anchors) * pairs.others()
        rows = []
        for i, j in pairs.cross():
            pulled = (pairs.sim(i, j) * near).sum(1) / near.sum(1).clamp_min(1)
            rows.append(-pulled - pairs.own_sim(i, j))
        values = torch.stack(rows)
        return values, torch.ones_like(values)


class FirstLevel(Levels):
    """Reads the first level alone."""

    levels = slice(1)


class OwnTemperature(FairInfoNCE):
    """Has a factor for each class, and reads the classes of anchors alone."""

    hides = False

    def where(self, pairs):
        return None

    def terms(self, pairs):
        values, weights = super().terms(pairs)
        return values, weights * (1 + pairs.samples.condition[self.on][pairs.rows])


class Relational(ContrastiveObjective):
    """Gives embeddings the inner products of features, which get no gradient."""

    reads_features = reads_projections = True
    reads_queue = False
    stops_gradient = True
    distributed = "replicated"

    def terms(self, pairs):
        rows = []
        for i, j in pairs.cross():
            x = pairs.samples.features[i].detach()
            x = x / x.norm(dim=-1, keepdim=True).clamp_min(1e-6)
            target = (5 * x @ x.T).softmax(1)
            rows.append(-(target * (5 * pairs.sim(i, j)).log_softmax(1)).sum(1))
        values = torch.stack(rows)
        return values, torch.ones_like(values)


class Overflowing(Sound):
    """Sums exponentials without taking the largest out."""

    within = says = False

    def __init__(self, temperature: float = 0.1) -> None:
        super().__init__(temperature, within_view=self.says)

    def negatives(self, pairs, i, j):
        """(n, ·) inner products of other samples, -inf where none counts."""
        blocks = pairs.negatives(i, j, within_view=self.within)
        return torch.cat([sims.masked_fill(~keep, -torch.inf) for sims, keep in blocks], 1)

    def log_sum(self, logits):
        return logits.exp().sum(1).log()

    def terms(self, pairs):
        rows = []
        for i, j in pairs.cross():
            own = pairs.own_sim(i, j)[:, None]
            logits = torch.cat([own, self.negatives(pairs, i, j)], 1) / self.temperature
            rows.append(self.log_sum(logits) - logits[:, 0])
        values = torch.stack(rows)
        return values, torch.ones_like(values)


class InItsView(Overflowing):
    """Compares within views, and says so."""

    within = says = True

    def log_sum(self, logits):
        return logits.logsumexp(1)


class InItsViewUnsaid(InItsView):
    """Compares within views, and does not say so."""

    says = False


class AcrossViews(InItsView):
    """Says that it compares within views, and does not."""

    within = False


class ItsOwnNegative(InItsView):
    """Compares each anchor with itself."""

    def negatives(self, pairs, i, j):
        return torch.cat([super().negatives(pairs, i, j), pairs.own_sim(i, i)[:, None]], 1)


class WithoutFeatures(Sound):
    """Says that it reads features."""

    reads_features = True


class HeldBack(Sound):
    """Has a scale that gets no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))

    def scaled(self):
        return self.scale.detach()

    def terms(self, pairs):
        values, weights = super().terms(pairs)
        return values * self.scaled(), weights


class Learning(HeldBack):
    """Has a learned scale, which it logs."""

    def scaled(self):
        return self.scale

    def scalars(self):
        return {"scale": self.scale.detach()}


class LogsWithGradient(Learning):
    """Logs a number with its gradient."""

    def scalars(self):
        return {"scale": self.scale}


class Unregistered(Sound):
    """Learns a number that is no parameter."""

    compiles = False  # a law of what is compiled finds it too

    def __init__(self) -> None:
        super().__init__()
        self.__dict__["scale"] = torch.ones((), requires_grad=True)

    def terms(self, pairs):
        values, weights = super().terms(pairs)
        return values * self.scale, weights


class OwnKernel(ContrastiveObjective):
    """Takes a kernel, and has another."""

    on = "condition"
    value_types = ("continuous",)
    reads_queue = False

    def __init__(self, kernel: object = None) -> None:
        super().__init__()
        self.kernel = kernel

    def near(self, x, y):
        return torch.exp(-torch.cdist(x, y))

    def terms(self, pairs):
        z = pairs.everyone(self.on)
        keep = pairs.others()
        z = z[: keep.shape[1]]
        near = self.near(z[pairs.rows], z).to(pairs.anchors)
        rows = [
            ((pairs.sim(i, j).exp() * (1 - near) * keep).sum(1) / keep.sum(1).clamp_min(1))
            - pairs.own_sim(i, j)
            for i, j in pairs.cross()
        ]
        values = torch.stack(rows)
        return values, torch.ones_like(values)


class GivenKernel(OwnKernel):
    """Reads the condition through the kernel that it is given."""

    def near(self, x, y):
        return super().near(x, y) if self.kernel is None else self.kernel(x, y)


class Seeding(Sound):
    """Seeds the generator of all."""

    def terms(self, pairs):
        if not torch.compiler.is_compiling():
            torch.manual_seed(0)
        return super().terms(pairs)


class PerSample(ContrastiveObjective):
    """Weighs anchors by an average of each sample's loss."""

    reads_queue = False
    stops_gradient = True

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("average", None)
        self.register_buffer("pending", None, persistent=False)

    def setup(self, tables, sizes):
        self.average = self.pending = torch.zeros(sizes.samples)

    def place(self, pairs):
        return pairs.samples.index

    def terms(self, pairs):
        place, at = self.place(pairs), pairs.rows
        values = torch.stack([1 - pairs.own_sim(i, j) for i, j in pairs.cross()])
        self.pending = self.average.index_add(0, place[at], values.detach().mean(0))
        return values, torch.exp(-self.average[place[at]]).expand_as(values)

    def after_step(self):
        self.average = self.pending.clone()


class ByPlace(PerSample):
    """Keeps the averages by the place in a batch."""

    def place(self, pairs):
        return torch.arange(pairs.keys.shape[1]).to(pairs.samples.index)


class LateBuffer(Sound):
    """Has a state of which the constructor says nothing."""

    def setup(self, tables, sizes):
        self.register_buffer("factor", torch.ones(()))

    def terms(self, pairs):
        values, weights = super().terms(pairs)
        return values * self.factor, weights


class InPlace(Sound):
    """Writes into the indices of the samples."""

    def terms(self, pairs):
        if pairs.samples.index is not None:
            pairs.samples.index.clamp_(max=3)
        return super().terms(pairs)


class KeepsMask(ContrastiveObjective):
    """InfoNCE with the mask of the first pairs of a size."""

    compiles = False  # laws of what is compiled find it too

    def mask(self, pairs):
        return self.__dict__.setdefault("kept", {}).setdefault(
            (pairs.anchors.shape[1], pairs.queue is None), pairs.counted(pairs.negative)
        )

    def terms(self, pairs):
        self.refuse_draws(pairs)
        rows, keep = [], self.mask(pairs)
        for i, j in pairs.cross():
            sims = pairs.sim(i, j)
            if pairs.queue is not None:
                sims = torch.cat([sims, pairs.sim_queue(i)], 1)
            others = (5 * sims).masked_fill(~keep, -99.0).logsumexp(1)
            rows.append(softplus(others - 5 * pairs.own_sim(i, j)))
        values = torch.stack(rows)
        return values, torch.ones_like(values)


class KeepsNoMask(KeepsMask):
    """InfoNCE with the mask of these pairs."""

    def mask(self, pairs):
        return pairs.counted(pairs.negative)


class AnyNegative(KeepsMask):
    """Leaves out half of the negatives that are to be left out."""

    def mask(self, pairs):
        some = pairs.negative
        if some is not None:
            some = some | (torch.arange(some.shape[1]) > some.shape[1] // 2)
        return pairs.counted(some)


class ItselfInQueue(KeepsMask):
    """Compares each anchor with its own image in the queue."""

    def mask(self, pairs):
        keep = pairs.counted(pairs.negative)
        if pairs.queue is not None:
            keep[:, pairs.keys.shape[1] :] = pairs.queue.valid
        return keep


class LastStep(Sound):
    """Divides by the number of steps but one."""

    def progress(self, step, total):
        super().progress(step, total)
        self.factor = 1 + step / (total - 1)


class CountsBatches(Sound):
    """Counts batches in place of steps."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("batches", torch.zeros(()))

    def progress(self, step, total):
        super().progress(step, total)
        self.batches += 1

    def terms(self, pairs):
        values, weights = super().terms(pairs)
        return values * (1 + self.batches), weights


class KeepsGraph(Sound):
    """Divides by the last loss, and keeps how it was computed."""

    stops_gradient = True

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.ones(()))
        self.register_buffer("pending", torch.ones(()), persistent=False)

    def terms(self, pairs):
        values, weights = super().terms(pairs)
        if not torch.compiler.is_compiling():
            self.pending = values.mean()
        return values / self.last, weights

    def after_step(self):
        self.last = self.pending


class LogOfNothing(FairInfoNCE):
    """Has the value of an infinite logarithm where no other sample is of the class."""

    def terms(self, pairs):
        values, weights = super().terms(pairs)
        return torch.where(weights > 0, values, torch.full_like(values, torch.inf)), weights


class QueueFirst(Graded):
    """Takes the queue's condition values for the first."""

    def near(self, z):
        return super().near(z.roll(6, 0) if len(z) > 12 else z)


class BothWays(ContrastiveObjective):
    """Takes `symmetric` and compares both ways."""

    reads_queue = False

    def __init__(self, symmetric: bool = True) -> None:
        super().__init__()
        self.symmetric = symmetric

    def cross(self, pairs):
        return pairs.cross()

    def terms(self, pairs):
        rows = [(i + 1) * -pairs.own_sim(i, j) for i, j in self.cross(pairs)]
        values = torch.stack(rows)
        return values, torch.ones_like(values)


class OneWay(BothWays):
    """Takes `symmetric` and does as it says."""

    def cross(self, pairs):
        return pairs.cross(self.symmetric)


class FixedName(FairInfoNCE):
    """Takes the name of a condition, and reads another."""

    def where(self, pairs):
        return pairs.same_class("condition")


class ReadsOnce(Sound):
    """Takes the first value of a temperature that changes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.first = float(self.temperature)

    def terms(self, pairs):
        pairs = replace(pairs, anchors=pairs.anchors * (self.temperature / self.first))
        return super().terms(pairs)


class LogsTheFirst(Sound):
    """Logs the first value of a temperature that changes."""

    def scalars(self):
        return {name: value * 0 + 0.1 for name, value in super().scalars().items()}


class Covariance(ContrastiveObjective):
    """Covariances of embeddings and a condition, squared."""

    value_types = ("continuous",)
    measures_dependence = True
    distributed = "replicated"
    reads_queue = False
    min_views = 1
    on = "condition"
    sign = 1

    def terms(self, pairs):
        kept = (~pairs.own())[0] | True if pairs.samples.missing is None else ~pairs.samples.missing
        count = kept.sum().clamp_min(1)
        z = pairs.everyone(self.on)[: len(kept)].to(pairs.anchors) * kept[:, None]
        z = (z - z.sum(0) / count) * kept[:, None]
        values = self.sign * (pairs.anchors.transpose(1, 2) @ z / count).square().sum((1, 2))
        values = values[:, None].expand(-1, len(kept))
        return values, torch.ones_like(values)


class Remembers(Covariance):
    """The same with the sign of a loss that keeps the condition."""

    sign = -1


class FeaturesOfAll(Sound):
    """Reads features, and projections, which it denies."""

    reads_features = True
    reads_projections = False

    def terms(self, pairs):
        values, weights = super().terms(pairs)
        return values + pairs.samples.features.square().mean((0, 2)), weights


class FeaturesAndProjections(FeaturesOfAll):
    """Reads features and projections, and says so."""

    reads_projections = True


VIEWS, LEARNED = "compares_within_views_as_it_says", "learns_what_it_registers"
READS, NUMBERS = "reads_the_parameters_that_it_takes", "follows_a_schedule_of_each_number"
ORDER, NOTHING = "order_of_samples_does_not_matter", "loss_changes_nothing"
RESUMED, NEGATIVES = (
    "a_resumed_run_goes_on_as_it_would_have",
    "takes_the_negatives_that_it_is_given",
)
QUEUED = "reads_the_conditions_of_a_queue"
MEAN, TYPES = "is_a_mean_over_anchors", "takes_every_value_type_that_it_accepts"

BROKEN = {
    PerSample: set(),
    ByPlace: {ORDER},
    LateBuffer: {RESUMED},
    InPlace: {NOTHING},
    KeepsMask: {NOTHING, NEGATIVES, ORDER},
    KeepsNoMask: set(),
    AnyNegative: {NEGATIVES},
    ItselfInQueue: {VIEWS},
    CountsBatches: {"goes_through_a_step"},
    KeepsGraph: {"goes_through_a_step", ORDER, RESUMED, LEARNED, "scalars_are_numbers_to_log"},
    LogOfNothing: {
        "terms_average_to_the_loss",
        "gradient_is_that_of_the_value",
        "a_queue_is_read_as_far_as_it_is_filled",
    },
    QueueFirst: {ORDER},
    LastStep: {"goes_through_a_step"},
    BothWays: {READS},
    OneWay: set(),
    FixedName: {READS},
    ReadsOnce: {NUMBERS},
    LogsTheFirst: {NUMBERS},
    Covariance: set(),
    Remembers: {"forgets_what_it_says"},
    FeaturesOfAll: {"reads_features_and_patches_if_it_says_so"},
    FeaturesAndProjections: set(),
    Overflowing: {"small_temperatures_are_finite"},
    InItsView: set(),
    InItsViewUnsaid: {VIEWS},
    AcrossViews: {VIEWS},
    ItsOwnNegative: {VIEWS},
    WithoutFeatures: {"reads_features_and_patches_if_it_says_so"},
    HeldBack: {LEARNED},
    Learning: set(),
    LogsWithGradient: {"scalars_are_numbers_to_log"},
    Unregistered: {LEARNED},
    OwnKernel: {READS},
    GivenKernel: set(),
    Seeding: {"seeds_no_global_generator"},
    Summed: {MEAN},
    SummedOverBatch: {MEAN},
    MeanOverBatch: set(),
    DividedTwice: {MEAN},
    Sigmoid: set(),
    Graded: set(),
    OwnTemperature: set(),
    Relational: set(),
    EqualNumbers: {TYPES, "reads_the_conditions_it_declares"},
    Levels: set(),
    FirstLevel: {"reads_the_conditions_it_declares"},
    TakesNumbersAlone: {TYPES},
    ReadsNumbersAlone: {TYPES},
    Blind: {"reads_the_conditions_it_declares"},
    BlindInQueue: {QUEUED},
    Greedy: {NEGATIVES},
    Cubic: {"memory_grows_with_the_square_of_the_batch"},
    Wide: {"keeps_the_type_and_device_of_embeddings"},
    OnTheHost: {"keeps_the_type_and_device_of_embeddings"},
    Sound: set(),
    Centerd: set(),
    Undeclared: {"declares_what_it_reads", VIEWS},
    NoMean: {"terms_average_to_the_loss"},
    OneSided: {"gradient_reaches_every_view"},
    WrongGradient: {"gradient_is_that_of_the_value"},
    FirstCountsMore: {
        ORDER,
        "keeps_the_type_and_device_of_embeddings",
    },
    Counting: {NOTHING},
    Stumbling: {
        "goes_through_a_step",
        RESUMED,
        ORDER,
        READS,
        NUMBERS,
        "scalars_are_numbers_to_log",
        LEARNED,
    },
    Forgetful: {RESUMED},
    CalledOtherwise: {"is_called_on_embeddings"},
    LowPrecision: {"half_precision_is_computed_in_float32"},
    LocalCount: {"two_processes_equal_one", "anchors_may_be_taken_in_parts", MEAN},
    Looking: {"compiles_without_graph_breaks", "keeps_the_type_and_device_of_embeddings"},
    RootOfNothing: {"degenerate_batches_are_finite_or_refused"},
    CountsAll: {"samples_without_a_value_are_left_out", MEAN},
    Deaf: {"reads_a_queue_if_it_says_so"},
    DeafAndSaysSo: set(),
    FullQueue: {"a_queue_is_read_as_far_as_it_is_filled"},
}
