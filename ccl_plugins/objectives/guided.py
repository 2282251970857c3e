"""Guided: an objective with guides, which keep or suppress conditions in the embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional

from ccl_plugins.arguments import one_of
from ccl_plugins.numerics.distributed import gather
from ccl_plugins.objectives.gradient_norms import gradient_norms, meeting_point
from ccl_plugins.objectives.guide import (
    Guide,
    names_of,
    objective_of,
    read_guide,
    refuse_clashes,
    suppression_of,
)
from ccl_plugins.objectives.guide_head import At, GuideHead, reverse_gradient
from ccl_plugins.objectives.mixture import Mixture, Part
from ccl_plugins.pairs.pairs import Pairs
from ccl_plugins.protocols import Condition, Objective, trait


class Guided(Mixture):
    r"""An objective with guides: each guide keeps or suppresses a condition in the embeddings.

    ``base + Σ_g w_g L_g``.  Positives and negatives are those of the base, and of guides that are
    objectives. A guide is a table with the keys of `Guide`; its loss follows from ``by`` and
    ``keep``:

    - a head (`GuideHead`), such as ``classification``, ``regression`` or ``prototypes``.  ``keep = true``:
      encoder and head learn to predict, both with weight w.  ``keep = false``: the head learns with weight
      1, whatever w is; ``suppress = "reversal"`` gives the encoder -w times the head's gradient,
      ``"uniform"`` w times the gradient of the cross-entropy with a uniform target, through the
      current head. ``"least_squares"`` gives the encoder -w times the gradient of the squared error
      of the linear head that is best on the batch. It is the default of a linear regression,
      because reversal is unbounded there.
    - another objective. ``keep = true``: the objective, such as ``cl_infonce``, is minimized; one
      that hides the condition is refused. ``keep = false``: an objective that hides the condition,
      such as ``fair_cclk``, is minimized; for another one set ``suppress = "reversal"``, for a reversed
      gradient, or ``"objective"``, if minimizing it hides the condition.
    - a measure of dependence: ``hsic`` is minimized to suppress, and maximized to keep.

    A guide reads backbone ``features`` or the ``projection``, in every view with equal weight; with
    momentum keys, in the anchors' views. A guide that is an objective on features does not use the
    queue.

    ``balance="gradient"`` brings each guide's gradient to w times the norm of the base's: both are
    measured at the features, over the samples of all processes, in every batch (with
    ``accumulate``, in every batch of a step). So the base goes backward through the projection
    twice, and the objective is not compiled.

    Equation:
        \mathcal{L}_{\text{base}} + \sum_g w_g \mathcal{L}_g

    Args:
        base: The objective that is guided.
        guides: One or more guides, as tables or `Guide`.
        balance: ``"gradient"``; None: the weights are used as they are.

    Raises:
        TypeError: For a guide of another form.
        ValueError: For unknown keys, for combinations without a meaning, and for two guides on one
            condition that are alike or contrary.

    Source:
        Ganin et al., Domain-Adversarial Training of Neural Networks (2016), eq. (9), for reversal; Tzeng
        et al., Simultaneous Deep Transfer Across Domains and Tasks (2015), eq. (4), for the uniform
        target.  Kinds of guides and their balance are after Gardès et al., Who Needs Labels? Adapting
        Vision Foundation Models With the Metadata You Already Have (2026), FINO: prototypes with momentum
        and a contrastive loss for discrete metadata, regression for continuous, reversal for what is
        spurious. The formulas are our own: they were written from the paper's abstract and public
        summaries, without its text or code.
    """

    EXAMPLE: ClassVar[Mapping[str, Any]] = {
        "base": "infonce",
        "guides": [
            {"on": "color", "keep": False, "by": {"use": "fair_cclk", "kernel": "rbf"}},
            {"on": "digit", "keep": True, "by": "cl_infonce", "weight": 0.1},
        ],
    }

    def __init__(
        self,
        base: Objective,
        guides: Sequence[Guide],
        *,
        balance: Literal["gradient"] | None = None,
        gather_distributed: bool = False,
    ) -> None:
        super(Mixture, self).__init__(gather_distributed=gather_distributed)
        read = [read_guide(table, i) for i, table in enumerate(guides)]
        if not read:
            raise ValueError(f"give one or more guides, not {guides!r}")
        refuse_clashes(read)
        if balance is not None:
            one_of("balance", balance, ("gradient",))
        self.balance = balance
        parts = {"base": Part(base, 1.0)}
        for guide, name in zip(read, names_of(read), strict=True):
            parts[name] = GuidePart(guide, base.embedding)
        self._hold(parts)
        inexact = any(part.reversed or not part.guide.keep for part in self._guides())
        self.stops_gradient = self.stops_gradient or inexact or balance is not None
        self.adversarial = any(not part.guide.keep for part in self._guides())
        self.compiles = balance is None
        self.register_buffer("losses", torch.zeros(len(parts)), persistent=False)
        self.register_buffer("factors", torch.zeros(len(parts) - 1), persistent=False)

    losses: Tensor
    """The loss of each part in the last batch, over all processes."""
    factors: Tensor
    """The factor of each guide's loss, if balanced."""

    def _guides(self) -> list[GuidePart]:
        return [part for part in self.parts.values() if isinstance(part, GuidePart)]

    def check_read(self, name: str, condition: Condition) -> None:
        """Refuse a condition of a pipeline that a guide on it cannot take."""
        for part in self._guides():
            if part.guide.on != name:
                continue
            accepted = part.objective.conditions[name]
            if condition.value_type not in accepted:
                raise ValueError(
                    f"{part.guide} needs a {' or '.join(accepted)} condition, but this one is "
                    f"{condition.value_type}: take by = 'classification' for class ids and 0/1 "
                    "columns,"
                    " 'regression' for numbers, or 'hsic' for any"
                )
        super().check_read(name, condition)

    def statistics(self) -> dict[str, Any]:
        """The statistics that objectives ask a queue to keep; guides of features do not read the queue."""
        unread = [part.objective for part in self._guides() if part.at == "features"]
        names = {name for objective in unread for name in trait(objective, "statistics")()}
        return {k: x for k, x in super().statistics().items() if k not in names}

    def scalars(self) -> dict[str, Tensor]:
        """Each part's loss, each head's quality, and the numbers that change, as ``"<part>/<number>"``."""
        numbers = {f"{name}/loss": loss for name, loss in zip(self.parts, self.losses, strict=True)}
        if self.balance is not None:
            names = [name for name in self.parts if name != "base"]
            numbers |= {f"{n}/factor": f for n, f in zip(names, self.factors, strict=True)}
        return {**numbers, **super().scalars()}

    def _term_factors(self, pairs: Pairs) -> Sequence[Any]:
        if not self._is_balanced(pairs):
            return super()._term_factors(pairs)
        losses = [part.objective.loss(given) for part, given in self._with_pairs(pairs)]
        return self._factors(losses, pairs)

    def _sum(self, pairs: Pairs, loss: Callable[[Any, Pairs], Tensor]) -> Tensor:
        with torch.autocast(pairs.anchors.device.type, enabled=False):
            parts = [*self._with_pairs(pairs)]
            losses = [loss(part.objective, given) for part, given in parts]
            factors = self._factors(losses, pairs)
            total = torch.stack([f * part for f, part in zip(factors, losses, strict=True)]).sum(0)
            for learned in [part.learning(given) for part, given in parts]:
                if learned is not None:  # this adds its gradient alone
                    total = total + (learned - learned.detach())
            if torch.is_grad_enabled():
                self._observe(pairs, losses, factors)
        return total

    def _with_pairs(self, pairs: Pairs) -> Iterator[tuple[Part, Pairs]]:
        """Each part with the pairs as it reads them."""
        for part, given in super()._with_pairs(pairs):
            yield part, part.read(given) if isinstance(part, GuidePart) else given

    def _is_balanced(self, pairs: Pairs) -> bool:
        """Whether there are gradients to balance."""
        if self.balance is None or not torch.is_grad_enabled():
            return False
        return meeting_point(pairs).requires_grad

    def _factors(self, losses: Sequence[Tensor], pairs: Pairs) -> list[Any]:
        """The factor of each loss."""
        weights = [part.weight for part in self.parts.values()]
        if not self._is_balanced(pairs):
            return weights
        base, *norms = gradient_norms(losses, pairs)
        # A guide that is constant has a gradient of rounding errors, which must stay small.
        info = torch.finfo(base.dtype)
        least = (base * info.eps**0.5).clamp_min(info.tiny)
        balanced = [
            weight * base / torch.maximum(norm, least)
            for weight, norm in zip(weights[1:], norms, strict=True)
        ]
        return [weights[0], *balanced]

    @torch.no_grad()
    def _observe(self, pairs: Pairs, losses: Sequence[Tensor], factors: Sequence[Any]) -> None:
        """Keep the losses of all processes and the factors, for `scalars`."""
        values = torch.stack([x.detach().to(self.losses.dtype) for x in losses])
        self.losses.copy_(gather(values[None]).mean(0) if pairs.processes > 1 else values)
        if isinstance(factors[-1], Tensor) and self.balance is not None:
            self.factors.copy_(torch.stack([x.to(values.dtype) for x in factors[1:]]))


class GuidePart(Part):
    """A guide in a `Guided`."""

    def __init__(self, guide: Guide, embedding: Literal["sphere", "raw"]) -> None:
        objective = objective_of(guide)
        suppress = suppression_of(guide, objective)
        super().__init__(objective, guide.weight)
        self.guide = replace(guide, by=objective)
        head, measure = isinstance(objective, GuideHead), objective.measures_dependence
        self.at: At = guide.guided_at
        self.reversed = not head and (suppress == "reversal" or (guide.keep and measure))
        """Whether the vectors that the objective reads get a reversed gradient; a head does this itself."""
        self.normalized = objective.embedding == "sphere" and not measure
        if isinstance(objective, GuideHead):
            objective.serve(self.at, suppress)
        elif self.at == "features":
            objective.reads_features = True
        if self.at == "features" or head or measure:
            objective.embedding = embedding  # it takes the features, or any projection

    def read(self, pairs: Pairs) -> Pairs:
        """The pairs as the guide reads them."""
        if self.at == "features" and not isinstance(self.objective, GuideHead):
            pairs = on_features(pairs, self.normalized, self.guide, self.objective.min_views)
        return reversed_pairs(pairs) if self.reversed else pairs

    def learning(self, pairs: Pairs) -> Tensor | None:
        """The loss of a head that suppresses."""
        head = self.objective
        return head.learning(pairs) if isinstance(head, GuideHead) else None


def on_features(pairs: Pairs, normalized: bool, guide: Guide, min_views: int) -> Pairs:
    """The backbone features of these pairs compared with each other, without the queue."""
    x = pairs.samples.features
    if x is None:
        raise ValueError(f"{guide} reads features, and these pairs have none")
    if len(x) < min_views:
        raise ValueError(
            f"{guide} compares {min_views} views, and this method has features of {len(x)}: give it"
            ' at = "projection"'
        )
    if normalized:
        x = functional.normalize(x, dim=-1)
    keys = gather(x, 1) if pairs.processes > 1 else x
    m = keys.shape[1]
    return replace(
        pairs,
        anchors=x,
        keys=keys,
        shared=True,
        anchor_views=tuple(range(len(x))),
        key_views=tuple(range(len(x))),
        queue=None,
        batch_candidates=None,
        positive=None if pairs.positive is None else pairs.positive[:, :m],
        negative=None if pairs.negative is None else pairs.negative[:, :m],
    )


def reversed_pairs(pairs: Pairs) -> Pairs:
    """These pairs with a reversed gradient."""
    anchors = reverse_gradient(pairs.anchors)
    keys = anchors if pairs.keys is pairs.anchors else reverse_gradient(pairs.keys)
    features = pairs.samples.features
    samples = replace(
        pairs.samples, features=None if features is None else reverse_gradient(features)
    )
    return replace(pairs, anchors=anchors, keys=keys, samples=samples)
