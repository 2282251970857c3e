"""CCL-K against slow loops, value and gradient."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ccl_plugins.kernels import RBF, Cosine, Laplacian, Linear, Polynomial, Sum
from ccl_plugins.objectives import FairCCLK, HardNegCCLK, WeaklySupCCLK
from ccl_plugins.pairs import Pairs, Queue, Samples, in_batch

KERNELS = {
    "rbf": RBF,
    "laplacian": Laplacian,
    "linear": Linear,
    "polynomial": Polynomial,
    "cosine": Cosine,
}
OBJECTIVES = {"weaklysup": WeaklySupCCLK, "fair": FairCCLK, "hardneg": HardNegCCLK}


def make_kernel(name, scale):
    return Cosine() if name == "cosine" else KERNELS[name](scale=scale)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", OBJECTIVES)
def test_class_ids_count_as_one_hot_vectors(kind, kernel):
    torch.manual_seed(1)
    x, y = torch.randn(9, 4).double(), torch.randn(9, 4).double()
    ids = torch.randint(3, (9,))
    objective = OBJECTIVES[kind](make_kernel(kernel, 0.7))
    one_hot = torch.nn.functional.one_hot(ids, 3).double()
    torch.testing.assert_close(
        objective(x, y, condition=ids), objective(x, y, condition=one_hot), rtol=1e-6, atol=0
    )


@pytest.mark.parametrize("kernel", [Linear(), Cosine(), Polynomial(normalize=True)])
def test_an_anchor_that_nothing_is_like_has_no_positive_and_does_not_count(kernel):
    x, y = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(2)).double()
    z = torch.rand(6, 3, generator=torch.Generator().manual_seed(3)).double()
    z[2] = 0
    pairs = in_batch(
        torch.nn.functional.normalize(torch.stack([x, y]), dim=-1), Samples({"condition": z})
    )
    objective = WeaklySupCCLK(kernel)
    values, weights = objective.terms(pairs)
    assert weights.tolist() == [[1, 1, 0, 1, 1, 1]] * 2
    assert values.max() < 50
    expected = values[weights > 0].mean()
    torch.testing.assert_close(objective(x, y, condition=z), expected)


def test_a_single_sample_has_no_negatives():
    x = torch.nn.functional.normalize(torch.randn(2, 1, 4), dim=-1).requires_grad_()
    loss = FairCCLK(RBF()).loss(in_batch(x, Samples({"condition": torch.rand(1, 3)})))
    assert loss == 0
    assert torch.autograd.grad(loss, x)[0].isfinite().all()


def test_ridge_0_with_a_singular_kernel_says_so():
    x = torch.randn(4, 3)
    with pytest.raises(ValueError, match="singular, and ridge is 0"):
        FairCCLK(Linear(), ridge=0.0)(x, x, condition=torch.zeros(4).long())


def test_an_indefinite_kernel_is_refused():
    class Indefinite:
        positive_definite = False

        def __call__(self, a, b):
            return a @ b.T

    with pytest.raises(ValueError, match="FairCCLK needs a positive definite kernel"):
        FairCCLK(Indefinite())


@pytest.mark.parametrize("kernel", [torch.dot, "rbf"])
@pytest.mark.parametrize("build", [*OBJECTIVES.values(), lambda kernel: Sum([RBF(), kernel])])
def test_a_kernel_that_does_not_declare_whether_it_is_positive_definite_is_refused(build, kernel):
    with pytest.raises(
        TypeError,
        match=r"^[A-Z]\w+ needs a kernel(, such as RBF| with the member positive_definite)",
    ):
        build(kernel)


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_a_loss_that_literal_weights_make_undefined_ends_with_the_setting_to_change(kind):
    generator = torch.Generator().manual_seed(5)
    x, y = torch.randn(2, 7, 5, generator=generator, dtype=torch.float64)
    z = torch.randn(7, 3, generator=generator, dtype=torch.float64)
    literal = OBJECTIVES[kind](Linear(scale=1.7), 0.4, ridge=0.3, negative_weights="keep")
    words = r"is undefined for \d of 7 anchors: \[.*\]: the log of a number not above 0; "
    with pytest.raises(ValueError, match=words + 'negative_weights="clip" is always defined$'):
        literal(x, y, condition=z)
    assert FairCCLK(RBF()).undefined_hint() == ""


def test_what_the_released_form_refuses_is_quoted():
    released = {"form": "released"}
    for more, message in (
        (
            {"negative_weights": "keep"},
            'form="released" drops negative weights: negative_weights="keep" is for form="paper"',
        ),
        ({"landmarks": 8}, 'landmarks=8 is for form="paper", not "released"'),
    ):
        with pytest.raises(ValueError) as error:  # noqa: PT011  # the whole message is compared
            FairCCLK(RBF(), **released, **more)
        assert str(error.value) == message


def test_the_warning_about_a_low_temperature_quotes_it_at_the_line_that_builds():
    with pytest.warns(UserWarning) as found:  # noqa: PT030  # the whole message is compared
        FairCCLK(RBF(), 0.02, form="released")
    assert str(found[0].message) == (
        'FairCCLK with form="released" clamps sums of exponentials at 1e20, and scores reach this at a'
        " temperature below 0.022: temperature=0.02 makes the loss meaningless; use a higher one, or"
        ' form="paper"'
    )
    assert found[0].filename == __file__


def test_a_gram_matrix_is_named_by_the_condition_and_the_place_in_a_mixture():
    objective = FairCCLK(Linear(), on="color")
    assert objective.gram_name == "color/gram/"
    objective.set_place("fair")
    assert list(objective.statistics()) == ["color/gram/fair"]
    assert objective.statistics()["color/gram/fair"].on == "color"


def queue_of(x, z):
    """Pairs of momentum queries with a queue of the last half."""
    unit = torch.nn.functional.normalize(x, dim=-1)
    return Pairs(
        unit[:1, :6],
        unit[1:, :6].detach(),
        (0,),
        (1,),
        samples=Samples(condition={"condition": z[:6]}),
        queue=Queue(unit[1, 6:].detach(), torch.arange(6) < 5, {"condition": z[6:]}),
    )


def test_the_released_form_reads_a_queue_as_more_samples():
    """With the queue's samples in the batch, their keys of that view count the same."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, 12, 5, generator=generator, dtype=torch.float64)
    z = torch.randn(12, 3, generator=generator, dtype=torch.float64)
    unit = torch.nn.functional.normalize(x, dim=-1)[:, :11]
    for kind in ("weaklysup", "fair"):
        objective = OBJECTIVES[kind](RBF(), 0.4, form="released")
        queued = objective.terms(queue_of(x, z))[0]
        whole = Pairs(
            unit[:1], unit[1:], (0,), (1,), samples=Samples(condition={"condition": z[:11]})
        )
        torch.testing.assert_close(queued[0], objective.terms(whole)[0][0, :6])


def test_the_queue_s_gram_is_not_read_where_another_condition_leaves_samples_out():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, 12, 5, generator=generator, dtype=torch.float64)
    z = torch.randn(12, 3, generator=generator, dtype=torch.float64)
    objective = FairCCLK(Linear(), 0.4, exclude=(RBF(), 2.0, "size"))
    wrong = {objective.gram_name: torch.eye(3, dtype=torch.float64)}
    pairs = queue_of(x, z)
    condition = {**pairs.samples.condition, "size": z[:6, :1]}
    queue = replace(pairs.queue, condition={**pairs.queue.condition, "size": z[6:, :1]})
    found = [
        objective.loss(
            replace(
                pairs,
                samples=Samples(condition, ignored=ignored),
                queue=replace(queue, grams=grams),
            )
        )
        for grams in (wrong, {})
        for ignored in ((), ("size",), ("condition",))
    ]
    assert (found[0] - found[3]).abs() > 1e-6
    torch.testing.assert_close(found[1], found[4])
    assert (found[2] - found[5]).abs() > 1e-6


def test_landmarks_approximate_the_operator_of_a_queue():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, 12, 5, generator=generator, dtype=torch.float64)
    z = torch.randn(12, 3, generator=generator, dtype=torch.float64)
    pairs = queue_of(x, z)
    exact, near = (FairCCLK(RBF(), landmarks=k).loss(pairs) for k in (None, 2))
    assert near.isfinite()
    assert (near - exact).abs() > 1e-6
