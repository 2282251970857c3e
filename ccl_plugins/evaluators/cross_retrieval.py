"""Retrieval of texts by images and of images by texts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ccl_plugins.arguments import one_of, whole, wholes
from ccl_plugins.evaluators.columns import SAMPLES, SPLITS, Split, fixed_part, name_prefix, score
from ccl_plugins.evaluators.intervals import Estimate, estimate, mean, over_rows, over_shared
from ccl_plugins.evaluators.projections import BLOCK, images_of, texts_of, towers_of
from ccl_plugins.evaluators.retrieval import hit_by_chance
from ccl_plugins.files.tables import choose
from ccl_plugins.protocols import Dataset, Frozen, Measurement, UndefinedMetric, trait


class CrossRetrieval:
    """Retrieval of captions by images and of images by captions, by the cosine of their projections.

    Each image ranks all different texts of its split, and its own caption is right. Each different
    text ranks all images, and the images with this caption are right. The rank of a query is the
    place of the first right candidate; equally similar wrong candidates come before it. Gives, for
    each k, ``"cross_retrieval/image_to_text_recall_at_1"`` and
    ``"cross_retrieval/text_to_image_recall_at_1"``, the fraction of queries with a rank of at most
    k, and ``".../image_to_text_median_rank"`` and ``".../text_to_image_median_rank"``. For another
    column than ``caption``, ``"cross_retrieval-<column>/..."``. The method must have a text tower,
    such as that of ``dual``.
    If samples belong together and a text has images of several groups, texts get no interval.

    Split: queries and candidates are from ``split``; nothing is fitted and nothing selected.

    Args:
        k: Ranks of the recall, 1 or more each, at most the number of different texts.
        column: The data set's column of texts.
        samples: The most samples, 2 or more; of a larger split, the first of a fixed shuffle, the
            same for all runs. The time grows with the square of their number.
        split: ``"test"`` or ``"train"``.
        dataset: The data set whose columns of texts are checked; supplied by the pipeline.

    Raises:
        ValueError: If a parameter is out of its range, or the data set has no such texts; on use, if there
            is no text tower, there are fewer different texts than k, or a projection is not finite.
        UndefinedMetric: If all texts are equal.

    Source:
        Radford et al., Learning Transferable Visual Models From Natural Language Supervision (2021),
        appendix E; recall@k and median rank as in Karpathy and Fei-Fei, Deep Visual-Semantic Alignments
        for Generating Image Descriptions (2015), section 4.1.
    """

    reads_towers = True

    def __init__(
        self,
        k: Sequence[int] = (1, 5, 10),
        column: str = "caption",
        samples: int = 10_000,
        split: Split = "test",
        *,
        dataset: Dataset | None = None,
    ) -> None:
        self.k = wholes("k", k, 1)
        self.column = column
        self.samples = whole("samples", samples, 2)
        self.split = one_of("split", split, SPLITS)
        texts = trait(dataset, "texts")
        if texts and column not in texts():
            listed = ", ".join(map(repr, texts())) or "none"
            raise ValueError(
                f"cross_retrieval reads the texts {column!r}, but the data set's columns of texts "
                f"are {listed}"
            )

    def __call__(self, train: Frozen, test: Frozen) -> list[Measurement]:
        """``cross_retrieval/image_to_text_recall_at_1``, ..."""
        frozen = test if self.split == "test" else train
        towers = towers_of(frozen, "cross_retrieval")
        captions = choose(towers.captions, [self.column], "the data set's texts")[self.column]
        rows = fixed_part(len(captions), self.samples)
        own = [captions[row] for row in rows.tolist()]
        texts = [*dict.fromkeys(own)]
        if len(texts) < 2:
            raise UndefinedMetric(
                f"all of {len(own)} measured samples have the same {self.column!r}, {texts[0]!r}:"
                " retrieval is undefined"
            )
        if self.k and max(self.k) > len(texts):
            raise ValueError(f"k={max(self.k)} needs more different texts than {len(texts)}")
        places = {text: place for place, text in enumerate(texts)}
        of_image = torch.tensor([places[text] for text in own])
        of_text = torch.arange(len(texts))
        images, vectors = images_of(towers, rows), texts_of(towers, texts)
        of_texts = ranks(images, vectors, of_image, of_text)
        of_images = ranks(vectors, images, of_text, of_image)
        one_right = torch.ones(1)  # each image has one right text
        ways = (
            ("image", "text", of_texts, len(texts), one_right, torch.arange(len(own))),
            ("text", "image", of_images, len(own), of_image.bincount(), of_image),
        )
        begin = name_prefix("cross_retrieval", self.column, main="caption")
        words = {"image": "image", "text": self.column}
        measurements = []
        for query, other, rank, candidates, right, asked in ways:
            queries, kind = f"the {words[query]}s of the {SAMPLES[self.split]}", words[other]
            with over_rows(rows, len(captions)), over_shared(asked):
                hits, middle = [mean(rank <= k) for k in self.k], median(rank)
            for k, hit in zip(self.k, hits, strict=True):
                name = f"{begin}/{query}_to_{other}_recall_at_{k}"
                share = f"the share of {queries} whose own {kind} is among the {k} most similar"
                chance = hit_by_chance(candidates, right, k).mean().item()
                measurements.append(score(name, None, hit, share, chance))
            name = f"{begin}/{query}_to_{other}_median_rank"
            place = f"the median, over {queries}, of the place of the own {kind} among all by similarity"
            measurements.append(Measurement(name, **middle, sentence=place, direction="lower"))
        return measurements


def ranks(queries: Tensor, candidates: Tensor, of_query: Tensor, of_candidate: Tensor) -> Tensor:
    """(q,) the rank of each query's most similar right candidate, from 1.

    Equally similar wrong candidates come before it.

    Args:
        queries: (q, d) of unit length.
        candidates: (m, d) of unit length.
        of_query: (q,) ids; each query has one or more candidates of the same id, which are right.
        of_candidate: (m,) ids.
    """
    blocks = []
    for rows in torch.arange(len(queries)).split(max(1, BLOCK // len(candidates))):
        similar = queries[rows] @ candidates.T
        right = of_query[rows, None] == of_candidate
        best = similar.masked_fill(~right, -torch.inf).amax(dim=1, keepdim=True)
        blocks.append(1 + ((similar >= best) & ~right).sum(dim=1))
    return torch.cat(blocks)


def median(values: Tensor) -> Estimate:
    """The median of a number per query (q,), or the mean of the two middle ones."""
    order = values.argsort(stable=True)
    ordered = values[order].double()

    def of_draws(counts: Tensor) -> Tensor:
        passed = counts[:, order].cumsum(dim=1)
        half = passed[:, -1:] / 2
        low, high = (torch.searchsorted(passed, half, right=right) for right in (False, True))
        return ((ordered[low] + ordered[high]) / 2)[:, 0]

    return estimate(len(values), of_draws)
