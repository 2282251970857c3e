"""Objectives through a kernel of several conditions: a joint variable without a column of its own."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest
import torch
from torch import nn

import ccl_plugins as ccl
from ccl_plugins.kernels import RBF, Cosine, Delta, Linear, Product, Sum
from ccl_plugins.methods import FeatureQueue
from ccl_plugins.numerics.conditional_operator import conditional_operator
from ccl_plugins.numerics.joint import Joint, joint_ids
from ccl_plugins.objectives import (
    ContrastiveObjective,
    FairCCLK,
    HardNegCCLK,
    InfoNCE,
    SoftInfoNCE,
    WeaklySupCCLK,
)
from ccl_plugins.pairs import Pairs, Samples, in_batch

B, D = 12, 6
exact = functools.partial(torch.testing.assert_close, rtol=1e-9, atol=1e-12)
same = functools.partial(torch.testing.assert_close, rtol=0, atol=0)
GENERATOR = torch.Generator().manual_seed(0)
SPECIES = torch.randint(0, 3, (B,), generator=GENERATOR)
CAMERA = torch.randint(0, 2, (B,), generator=GENERATOR)
AGE = torch.randn(B, generator=GENERATOR, dtype=torch.float64)
POSE = torch.randn(B, 2, generator=GENERATOR, dtype=torch.float64)
VIEWS = torch.randn(2, B, D, generator=GENERATOR, dtype=torch.float64)
OBJECTIVES = [
    FairCCLK,
    WeaklySupCCLK,
    HardNegCCLK,
    SoftInfoNCE,
    functools.partial(FairCCLK, form="released"),
    functools.partial(FairCCLK, negative_weights="keep", temperature=5.0),
]
every_objective = pytest.mark.parametrize(
    "objective", OBJECTIVES, ids=lambda each: getattr(each, "__name__", str(each)[:60])
)


class OfRows:
    """The kernel matrix written down: rows of it, by the number of each sample."""

    positive_definite = True

    def __init__(self, matrix):
        self.matrix = matrix

    def __call__(self, a, b):
        return self.matrix[a.long()[:, None], b.long()]


def value_and_gradient(objective, condition, views=VIEWS):
    views = views.clone().requires_grad_()
    loss = objective(*views, condition=condition)
    return loss.detach(), torch.autograd.grad(loss, views)[0]


@every_objective
@pytest.mark.parametrize("way", ["product", "sum"])
def test_a_joint_kernel_is_the_matrix_of_separately_computed_kernels(objective, way):
    parts = Delta()(SPECIES, SPECIES).double(), RBF(0.7)(AGE, AGE), Linear(2.0)(POSE, POSE)
    if way == "product":
        kernel = Product(on={"species": Delta(), "age": RBF(0.7), "pose": Linear(2.0)})
        matrix = parts[0] * parts[1] * parts[2]
    else:
        weights = {"age": 0.25, "pose": 1.0, "species": 2.0}
        kernel = Sum(on={"species": Delta(), "age": RBF(0.7), "pose": Linear(2.0)}, weights=weights)
        matrix = 2 * parts[0] + 0.25 * parts[1] + parts[2]
    condition = {"species": SPECIES, "age": AGE, "pose": POSE}
    same(kernel(condition, condition), matrix)
    found = value_and_gradient(objective(kernel), condition)
    exact(found, value_and_gradient(objective(OfRows(matrix)), torch.arange(B)))


@every_objective
def test_delta_of_two_conditions_is_delta_of_their_pair(objective):
    on = {"species": Delta(), "camera": Delta()}
    found = value_and_gradient(objective(Product(on=on)), {"species": SPECIES, "camera": CAMERA})
    exact(found, value_and_gradient(objective(Delta()), SPECIES * 2 + CAMERA))


@every_objective
@pytest.mark.parametrize("other", [RBF(2.0), Linear(), Delta()], ids=["rbf", "linear", "delta"])
def test_a_kernel_of_class_ids_need_not_tell_all_of_them_apart(objective, other):
    kernel = Product(on={"species": Delta(), "camera": other})
    matrix = Delta()(SPECIES, SPECIES).double() * other(CAMERA, CAMERA).double()
    found = value_and_gradient(objective(kernel), {"species": SPECIES, "camera": CAMERA})
    exact(found, value_and_gradient(objective(OfRows(matrix)), torch.arange(B)))


@pytest.mark.parametrize(
    ("kernel", "separates"),
    [
        (Product(on={"a": Delta(), "b": Delta()}), True),
        (Product(on={"a": Delta(), "b": Linear()}), True),  # of one-hot vectors
        (Product(on={"a": Delta(), "b": RBF(2.0)}), False),
        (Product([Product(on={"a": Delta()}), Product(on={"b": Linear()})]), True),
        (Product([Product(on={"a": Delta()}), Product(on={"b": RBF(1.0)})]), False),
        (Product([Delta(), Delta()]), None),
    ],
    ids=repr,
)
def test_a_product_says_whether_other_class_ids_have_a_similarity_of_0(kernel, separates):
    assert kernel.separates is separates


def test_a_sum_has_its_weights_as_they_were_given():
    assert Sum([RBF(), Linear()], [1.0, 2.0]).weights == [1.0, 2.0]
    assert Sum([RBF(), Linear()]).weights == [1.0, 1.0]
    on = {"age": RBF(), "pose": Linear()}
    assert Sum(on=on, weights={"pose": 3.0, "age": 2.0}).weights == {"pose": 3.0, "age": 2.0}
    assert Sum(on=on).weights == {"age": 1.0, "pose": 1.0}


def test_a_product_of_rbf_kernels_is_the_rbf_kernel_of_a_made_column():
    kernel = Product(on={"age": RBF(0.5), "pose": RBF(0.5)})
    found = value_and_gradient(FairCCLK(kernel), {"pose": POSE, "age": AGE})
    made = torch.cat([AGE[:, None], POSE], 1)
    exact(found, value_and_gradient(FairCCLK(RBF(0.5)), made))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("start", [0, 2**22, 2**24, 2**44, 2**53, 2**63 - 1 - B])
def test_every_class_id_is_told_apart_from_the_next(start, dtype):
    ids, views = torch.arange(B) // 2 + start, VIEWS.to(dtype)
    kernel = Product(on={"species": Delta(), "age": RBF(3.0)})
    age = AGE.to(dtype)
    found = FairCCLK(kernel)(*views, condition={"species": ids, "age": age})
    expected = FairCCLK(kernel)(*views, condition={"species": ids - start, "age": age})
    same(found, expected)
    packed = Joint(kernel).pack({"species": ids, "age": age})
    assert packed.dtype == dtype
    alone = WeaklySupCCLK(Product(on={"species": Delta(), "camera": Delta()}))
    again = [
        alone(*views, condition={"species": each, "camera": CAMERA}) for each in (ids, ids - start)
    ]
    same(*again)


def test_ids_of_a_joint_variable_are_equal_where_all_of_its_ids_are():
    ids = [torch.tensor([7, 7, 2**60, 7]), torch.tensor([1, 5, 1, 1]), torch.tensor([0, 0, 0, 0])]
    found = joint_ids(ids)
    expected = torch.stack([(each[:, None] == each) for each in ids]).all(0)
    assert torch.equal(found[:, None] == found, expected)


def test_the_median_of_a_condition_does_not_depend_on_the_others():
    kernel = Product(on={"age": RBF("median"), "pose": RBF("median"), "species": Delta()})
    condition = {"age": AGE, "pose": 100 * POSE, "species": SPECIES}
    parts = RBF("median")(AGE, AGE) * RBF("median")(POSE, POSE)
    expected = value_and_gradient(
        FairCCLK(OfRows(parts * Delta()(SPECIES, SPECIES))), torch.arange(B)
    )
    exact(value_and_gradient(FairCCLK(kernel), condition), expected)


def test_kernels_that_all_have_features_are_solved_in_the_primal():
    kernel = Product(on={"age": Linear(), "pose": Cosine()})
    joint = Joint(kernel)
    packed = joint.pack({"age": AGE, "pose": POSE})
    assert joint.rank(packed) == 2
    exact(joint.features(packed) @ joint.features(packed).T, joint(packed, packed))
    gram = Linear()(AGE, AGE) * Cosine()(POSE, POSE)
    expected = gram @ torch.linalg.inv(gram + 0.1 * torch.eye(B, dtype=torch.float64))
    kernel._combined = None  # it cannot be called: features are all that is read
    exact(conditional_operator(joint, packed, 0.1), expected)


def test_class_ids_have_no_features_beside_numbers():
    joint = Joint(Product(on={"species": Linear(), "age": Linear()}))
    packed = joint.pack({"species": SPECIES, "age": AGE})
    assert joint.rank(packed) is None
    gram = Linear()(SPECIES, SPECIES) * Linear()(AGE, AGE)
    expected = gram @ torch.linalg.inv(gram + 0.1 * torch.eye(B, dtype=torch.float64))
    exact(conditional_operator(joint, packed, 0.1), expected)


def queued(kernel_of, conditions, objective=FairCCLK, keep=True, **options):
    """The loss of a second batch over the queue of the first, with the queue."""
    criterion, queue = objective(kernel_of, **options), FeatureQueue(2 * B, D).double()
    if keep:
        queue.keep_statistics(criterion.statistics())
    unit = nn.functional.normalize(VIEWS, dim=-1)
    first = in_batch(
        unit.flip(0, 1), Samples({k: z.flip(0) for k, z in conditions.items()}, torch.arange(B))
    )
    queue.enqueue(first)
    pairs = in_batch(unit, Samples(conditions, torch.arange(B, 2 * B)))
    return criterion.loss(queue.add_to(pairs)), queue


@pytest.mark.parametrize("objective", [FairCCLK, WeaklySupCCLK, HardNegCCLK, SoftInfoNCE])
def test_a_queue_keeps_the_rows_of_each_condition(objective):
    kernel = Product(on={"species": Delta(), "camera": Delta()})
    found, queue = queued(kernel, {"species": SPECIES, "camera": CAMERA}, objective, keep=False)
    pair, _ = queued(Delta(), {"condition": SPECIES * 2 + CAMERA}, objective, keep=False)
    exact(found, pair)
    assert torch.equal(queue.condition("species", SPECIES)[:B], SPECIES.flip(0))
    assert not any("condition:condition" in name for name in queue.state_dict())


def test_a_queue_keeps_the_gram_matrix_of_joint_features():
    kernel = Product(on={"age": Linear(), "pose": Linear()})
    conditions = {"age": AGE, "pose": POSE}
    kept, queue = queued(kernel, conditions)
    (gram,) = queue.grams().values()
    phi = (AGE[:, None] * POSE).flip(0)
    exact(gram, phi.T @ phi)
    exact(kept, queued(kernel, conditions, keep=False)[0])
    # The tables are refreshed: its rows are read again, and the sums are of the new ones.
    queue.read_conditions(lambda index: {"age": 2 * AGE[index % B]})
    (gram,) = queue.grams().values()
    new = 2 * AGE[queue.index.clamp_min(0) % B][:B, None] * POSE.flip(0)
    exact(gram, new.T @ new)
    loaded = FeatureQueue(2 * B, D).double()
    loaded.keep_statistics(FairCCLK(kernel).statistics())
    loaded.load_state_dict(queue.state_dict())
    exact(*(next(iter(each.grams().values())) for each in (loaded, queue)))


def test_a_joint_kernel_takes_landmarks():
    kernel = Product(on={"species": Delta(), "age": RBF(50.0)})
    condition = {"species": SPECIES, "age": AGE}
    whole = value_and_gradient(FairCCLK(kernel, landmarks=B), condition)
    exact(whole, value_and_gradient(FairCCLK(kernel), condition))
    some = FairCCLK(kernel, landmarks=B - 2)(*VIEWS, condition=condition)
    torch.testing.assert_close(some, whole[0], rtol=0.05, atol=0)


def test_a_condition_that_differs_per_view_stands_beside_others():
    poses = torch.stack([POSE, POSE.flip(0)])
    kernel = Product(on={"species": Delta(), "pose": RBF(2.0)})
    found = FairCCLK(kernel)(*VIEWS, condition={"species": SPECIES, "pose": tuple(poses)})
    expected = 0
    for i, pose in enumerate(poses):
        matrix = Delta()(SPECIES, SPECIES) * RBF(2.0)(pose, pose)
        one_way = FairCCLK(OfRows(matrix), symmetric=False)
        expected += one_way(VIEWS[i], VIEWS[1 - i], condition=torch.arange(B)) / 2
    exact(found, expected)


def test_samples_without_one_of_the_values_are_left_out():
    kernel = Product(on={"species": Delta(), "age": RBF(1.0)})
    species, age = SPECIES.clone(), AGE.clone()
    species[2], age[5] = -1, torch.nan
    kept = torch.tensor([i for i in range(B) if i not in (2, 5)])
    found = FairCCLK(kernel)(*VIEWS, condition={"species": species, "age": age}, missing="ignore")
    views, rest = VIEWS[:, kept], {"species": SPECIES[kept], "age": AGE[kept]}
    exact(found, FairCCLK(kernel)(*views, condition=rest))
    with pytest.raises(ValueError, match="species holds class ids below 0 in 1 of 12 rows"):
        FairCCLK(kernel)(*VIEWS, condition={"species": species, "age": AGE})


def test_a_joint_kernel_excludes_likely_false_negatives():
    kernel = Product(on={"species": Delta(), "camera": Delta()})
    objective = InfoNCE(exclude=(kernel, 0.5))
    assert [*objective.conditions] == ["species", "camera"]
    found = value_and_gradient(objective, {"species": SPECIES, "camera": CAMERA})
    made = InfoNCE(exclude=(Delta(), 0.5))
    exact(found, value_and_gradient(made, SPECIES * 2 + CAMERA))
    with pytest.raises(
        ValueError, match=r"its kernel names \(species, camera\): leave out the name"
    ):
        InfoNCE(exclude=(kernel, 0.5, "species"))


class Repelled(ContrastiveObjective):
    """A stranger's objective, which knows of one condition and of no joint kernels."""

    def __init__(self, kernel, on="condition"):
        super().__init__()
        self.kernel, self.on = kernel, on

    def reads(self):
        return {self.on: ("categorical", "continuous")}

    def terms(self, pairs: Pairs):
        z = pairs.everyone(self.on)
        near = self.kernel(z[pairs.rows], z).to(pairs.anchors)
        values = torch.stack([(near * pairs.sim(i, j)).sum(1) for i, j in pairs.cross()])
        return values, torch.ones_like(values)


def test_any_objective_reads_several_conditions_by_its_kernel():
    kernel = Product(on={"species": Delta(), "age": RBF(1.0)})
    objective, condition = Repelled(kernel), {"species": SPECIES, "age": AGE}
    assert objective.conditions == dict.fromkeys(condition, ("categorical", "continuous"))
    matrix = Delta()(SPECIES, SPECIES) * RBF(1.0)(AGE, AGE)
    exact(
        objective(*VIEWS, condition=condition),
        Repelled(OfRows(matrix))(*VIEWS, condition=torch.arange(B)),
    )
    mixture = ccl.create("objective", "mixture", objectives=[objective, "infonce"])
    assert [*mixture.conditions] == ["species", "age"]
    mixture(*VIEWS, condition=condition)


class Learned(nn.Module):
    """A kernel of two conditions that is a module."""

    positive_definite = True
    conditions = {"age": ("continuous",), "pose": ("continuous",)}  # noqa: RUF012

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, a, b):
        return (a["age"] @ b["age"].T) * (a["pose"] @ b["pose"].T) * self.scale


def test_a_kernel_may_be_a_module_that_names_its_conditions():
    objective = FairCCLK(Learned())
    assert objective.conditions == {"age": ("continuous",), "pose": ("continuous",)}
    assert "kernel.scale" in objective.state_dict()
    expected = FairCCLK(Product(on={"age": Linear(), "pose": Linear()}))
    condition = {"age": AGE, "pose": POSE}
    exact(objective(*VIEWS, condition=condition), expected(*VIEWS, condition=condition))


def test_value_types_are_those_that_both_kernel_and_objective_accept():
    class OfIds(Learned):
        conditions = {"species": ("categorical", "multi_label")}  # noqa: RUF012

    assert Repelled(OfIds()).conditions == {"species": ("categorical",)}

    class OfFlags(Learned):
        conditions = {"tags": ("multi_label",)}  # noqa: RUF012

    with pytest.raises(ValueError, match="OfFlags reads a multi_label condition 'tags', but its"):
        _ = Repelled(OfFlags()).conditions


def test_a_strangers_objective_compiles_with_missing_values_of_several_conditions():
    objective = Repelled(Product(on={"species": Delta(), "age": RBF(1.0)}))
    age = AGE.clone()
    age[4] = torch.nan
    unit = nn.functional.normalize(VIEWS, dim=-1)
    condition = {"species": SPECIES, "age": age}
    pairs = in_batch(unit, Samples(condition, ignored=("species", "age")))
    compiled = torch.compile(objective.loss, backend="eager", fullgraph=True)
    exact(compiled(pairs), objective.loss(pairs))
    exact(compiled(pairs), objective(*VIEWS, condition=condition, missing="ignore"))


def test_the_kernel_of_an_objective_takes_values_by_name_too():
    condition = {"species": SPECIES, "age": AGE}
    kernel = Product(on={"species": Delta(), "age": RBF(1.0)})
    same(FairCCLK(kernel).kernel(condition, condition), kernel(condition, condition))


def test_sums_of_products_read_the_conditions_of_all():
    kernel = Sum(
        [
            Product(on={"species": Delta(), "age": RBF(1.0)}),
            Product(on={"age": Linear(), "pose": Cosine()}),
        ],
        [1.0, 0.5],
    )
    assert [*kernel.conditions] == ["species", "age", "pose"]
    condition = {"species": SPECIES, "age": AGE, "pose": POSE}
    matrix = Delta()(SPECIES, SPECIES) * RBF(1.0)(AGE, AGE)
    matrix = matrix + 0.5 * Linear()(AGE, AGE) * Cosine()(POSE, POSE)
    expected = value_and_gradient(FairCCLK(OfRows(matrix)), torch.arange(B))
    exact(value_and_gradient(FairCCLK(kernel), condition), expected)
    pairs = Product([Product(on={"species": Delta()}), Product(on={"camera": Delta()})])
    found = value_and_gradient(FairCCLK(pairs), {"species": SPECIES, "camera": CAMERA})
    exact(found, value_and_gradient(FairCCLK(Delta()), SPECIES * 2 + CAMERA))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Product(), r"kernels=\[...\] of one condition, or on=.* not none"),
        (lambda: Product([RBF()], {"age": RBF()}), "give exactly one, not both"),
        (lambda: Product(on={}), "one or more kernels, not {}"),
        (
            lambda: Sum(on={"age": Product(on={"pose": RBF()})}),
            "kernels of one condition each, but one kernel names 'pose' itself",
        ),
        (
            lambda: Sum([Product(on={"pose": RBF()}), Delta()]),
            r"names the conditions 'pose', and Delta\(\), which names none",
        ),
        (
            lambda: Sum(on={"age": RBF(), "pose": RBF()}, weights={"age": 1}),
            r"for each of 2 kernels, by name \(age, pose\), not {'age': 1}",
        ),
        (lambda: Sum(on={"age": RBF()}, weights=[1.0]), r"by name \(age\), not \[1.0\]"),
        (lambda: Sum(on={"age": RBF()}, weights={"age": 0}), r"weights\['age'\] must be a finite"),
        (
            lambda: FairCCLK(Product(on={"age": RBF()}), on="pose"),
            r"the conditions that its kernel names \(age\): leave out on='pose'",
        ),
        (
            lambda: SoftInfoNCE(Product(on={"age": RBF()}), on="pose"),
            r"the conditions that its kernel names \(age\): leave out on='pose'",
        ),
        (lambda: Repelled(Product(on={"age": RBF()}), "pose").conditions, "leave out on='pose'"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(build, message):
    with pytest.raises(ValueError, match=message) as error:
        build()
    assert "\n" not in str(error.value)


def test_values_that_do_not_fit_are_refused_by_name():
    objective = FairCCLK(Product(on={"species": Delta(), "age": RBF()}))
    with pytest.raises(TypeError, match=r"reads several conditions .* give them by name"):
        objective(*VIEWS, condition=AGE)
    with pytest.raises(TypeError, match="reads the condition 'age', but got"):
        objective(*VIEWS, condition={"species": SPECIES})
    with pytest.raises(ValueError, match="age holds NaN or inf in 1 of 12 rows"):
        objective(
            *VIEWS,
            condition={
                "species": SPECIES,
                "age": AGE.clone().index_fill_(0, torch.tensor(3), torch.nan),
            },
        )
    reads = "conditions 'species', 'age': give their values by name, not"
    for given, quoted in ((AGE, r"\(12,\)"), ({"pose": AGE, "age": AGE}, r"\['age', 'pose'\]")):
        with pytest.raises(TypeError, match=f"{reads} {quoted}"):
            objective.kernel.kernel(given, given)


def test_widths_may_change_from_call_to_call():
    objective = FairCCLK(Product(on={"species": Delta(), "age": RBF(1.0)}))
    wide = torch.cat([AGE[:, None], torch.zeros(B, 2)], 1)
    found = [
        objective(*VIEWS, condition={"species": SPECIES, "age": age})
        for age in (AGE, wide, AGE[:, None], SPECIES)
    ]
    exact(found[1], found[0])
    same(found[2], found[0])
    assert not torch.equal(found[3], found[0])


def test_pairs_given_by_masks_take_several_conditions():
    same_camera = CAMERA[:, None] == CAMERA
    unit = nn.functional.normalize(VIEWS, dim=-1)
    conditions = {"species": SPECIES, "camera": CAMERA, "condition": SPECIES * 2 + CAMERA}
    pairs = Pairs.from_masks(unit, same_camera, samples=Samples(conditions))
    kernel = Product(on={"species": Delta(), "camera": Delta()})
    exact(WeaklySupCCLK(kernel).loss(pairs), WeaklySupCCLK(Delta()).loss(pairs))
    exact(FairCCLK(kernel).loss(replace(pairs)), FairCCLK(Delta()).loss(pairs))


def test_a_kernel_reads_the_conditions_that_it_names_or_the_one_of_on():
    kernel = Product(on={"species": Delta(), "age": RBF()})
    assert FairCCLK(kernel).read_by_kernel == ("species", "age")
    assert FairCCLK(RBF(), on="age").read_by_kernel == ("age",)
