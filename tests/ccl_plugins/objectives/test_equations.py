"""Slow loops that read the printed TeX literally equal what objectives and kernels compute.

A loop is written from the section ``Equation`` of a docstring, from its text and from
docs/reference/notation.md alone, in their letters: who changes an equation changes its loop.
"""

from __future__ import annotations

import inspect
import itertools
from dataclasses import replace
from functools import partial

import lightly.loss
import numpy as np
import pytest
import torch
from numpy import exp, log, maximum, mean, minimum
from numpy.linalg import inv, norm
from torch import tensor

import ccl_plugins as ccl
from ccl_plugins.commands.docstrings import equation
from ccl_plugins.kinds import registry
from ccl_plugins.pairs import PatchScores, Queue, Samples, in_batch, with_keys
from ccl_plugins.protocols import Sizes, Table, trait

N, QUEUED, D, C = 7, 3, 5, 3
TAU, TAU_T, BETA, TAU_PLUS, FACTOR, RIDGE, SIGMA, EPS = 0.4, 0.3, 0.7, 0.5, 2.5, 0.05, 0.8, 0.01
T_PLUS, T_MINUS, T, ALPHA, A, R, U = 1.3, 0.9, 1.7, 1.5, 0.6, 0.8, 0.3
LIKELY = 1e-3
"""A similarity from which on a sample is likely a false negative."""
RANDOM = np.random.default_rng(0)
RAW, RAW_KEYS = RANDOM.normal(size=(N, D)) + RANDOM.normal(size=(2, 3, N, D))
RAW_QUEUE, CENTER = RANDOM.normal(size=(QUEUED, D)), RANDOM.normal(size=D)
NUMBERS, BITS = RANDOM.normal(size=(N + QUEUED, C)), RANDOM.integers(0, 2, (N, 8)) * 1.0
MU, DEVIATION, M = NUMBERS.mean(0), NUMBERS.std(0), RAW[0] @ RAW[0].T
IDS = np.array([0, 1, 0, 2, 1, 0, 3, 1, 4, 0])
RBF, LAPLACIAN = {"use": "rbf", "scale": SIGMA}, {"use": "laplacian", "scale": SIGMA}
TWO = {"kernels": [RBF, LAPLACIAN]}
POLYNOMIAL = {"degree": 2, "coef0": T, "scale": SIGMA}
CCLK = {"kernel": RBF, "ridge": RIDGE}
KEEP = {**CCLK, "negative_weights": "keep"}
OF_COSINES = {"kernel": "cosine", "target_temperature": T}
WITHIN, ACROSS, ONE_WAY = {"within_view": True}, {"within_view": False}, {"symmetric": False}
ALL = {"positives": "all"}
SCALES = {"t_plus": T_PLUS, "t_minus": T_MINUS}
CACR = {**SCALES, "attraction_weight": A, "repulsion_weight": R}
UNIFORM = {"conditional_positives": False, "conditional_negatives": False}
ALIGN = {"power": ALPHA, "precision": T, "align_weight": A, "uniform_weight": U}
HSIC = {"kernel": LAPLACIAN, "embedding_kernel": RBF}

KERNELS = {
    "rbf": ({"scale": SIGMA}, NUMBERS, lambda a, b: exp(-(norm(a - b) ** 2) / SIGMA)),
    "laplacian": ({"scale": SIGMA}, NUMBERS, lambda a, b: exp(-norm(a - b) / SIGMA)),
    "linear": ({"scale": SIGMA}, NUMBERS, lambda a, b: a @ b / SIGMA),
    "cosine": ({}, NUMBERS, lambda a, b: a @ b / (norm(a) * norm(b))),
    "polynomial": (POLYNOMIAL, NUMBERS, lambda a, b: (a @ b + T) ** 2 / SIGMA),
    "delta": ({}, NUMBERS.round(), lambda a, b: (a == b).all()),
    "jaccard": ({}, BITS, lambda a, b: minimum(a, b).sum() / maximum(a, b).sum()),
    "precomputed": ({"matrix": tensor(M)}, np.arange(N), lambda i, j: M[i, j]),
    "product": (TWO, NUMBERS, lambda a, b: rbf(a, b) * laplacian(a, b)),
    "sum": ({**TWO, "weights": [A, R]}, NUMBERS, lambda a, b: A * rbf(a, b) + R * laplacian(a, b)),
}
"""Parameters, values to compare, and k(a, b)."""
rbf, laplacian, cosine = (KERNELS[name][2] for name in ("rbf", "laplacian", "cosine"))


def create(name, **params):
    if "temperature" in inspect.signature(registry().find("objective", name).load()).parameters:
        params["temperature"] = TAU
    return ccl.create("objective", name, **params).double()


def unit(x):
    return x / norm(x, axis=-1, keepdims=True)


def softmax(scores):
    return exp(scores) / exp(scores).sum()


def matrix(k, rows, columns):
    return np.array([[k(a, b) for b in columns] for a in rows])


class Batch:
    """Anchors x[v][i], keys y[w][j] and values z[j]; of samples j the last are the queue's."""

    def __init__(self, name, params, which):
        self.objective = create(name, **params)
        self.x = unit(RAW[: 3 if which == "three views" else 2])
        queue = unit(RAW_QUEUE[: QUEUED if which == "keys and queue" else 0])
        self.keys = unit(RAW_KEYS[:2]) if len(queue) else self.x
        self.y = np.array([[*view, *queue] for view in self.keys])
        self.b, self.views = len(self.y[0]), range(len(self.x))
        self.ordered = [*itertools.permutations(self.views, 2)]
        accepted = self.objective.conditions.get("condition", ())
        self.z = (NUMBERS if "continuous" in accepted else IDS)[: self.b]
        z = (self.x, queue) if name == "hardneg_cclk" else (self.z[:N], self.z[N:])
        batch, earlier = ({"condition": tensor(each)} if accepted else {} for each in z)
        self.pairs = in_batch(tensor(self.x), Samples(batch))
        if len(queue):
            queue = Queue(tensor(queue), torch.ones(QUEUED, dtype=torch.bool), earlier)
            self.pairs = replace(self.pairs, keys=tensor(self.keys), shared=False, queue=queue)


class Anchor:
    """Sample i of view v as the anchor, and view w, whose keys it is compared with."""

    def __init__(self, batch, v, w, i):
        self.batch, self.v, self.w, self.i, self.b = batch, v, w, i, batch.b
        self.x, self.y, self.z = batch.x[v], batch.y[w], batch.z
        self.s = self.y @ self.x[i] / TAU
        self.own = exp(self.s[i])
        self.others = [j for j in range(self.b) if j != i]
        self.alike = [j for j in self.others if np.all(self.z[j] == self.z[i])]
        self.unlike = [j for j in self.others if j not in self.alike]

    def far(self, keys):
        """Squared distances to keys."""
        return norm(self.x[self.i] - np.array(keys), axis=1) ** 2

    def both(self, samples):
        """The scores of all keys of some samples: of both views, or the one in the queue."""
        own_view = self.batch.y[self.v] @ self.x[self.i] / TAU
        return np.array([*self.s[samples], *own_view[[j for j in samples if j < N]]])


def infonce(own, negatives):
    return -log(own / (own + exp(negatives).sum())) if len(negatives) else None


def share(scores, positives):
    return -mean([log(exp(scores[p]) / exp(scores).sum()) for p in positives])


def inside(scores, positives):
    return -log(mean([exp(scores[p]) / exp(scores).sum() for p in positives]))


def sincere(scores, positives, average=lambda shares: -mean(log(shares))):
    negatives = np.delete(exp(scores), positives).sum()
    return average([exp(scores[p]) / (exp(scores[p]) + negatives) for p in positives])


def supcon(a, share=share):
    keys = [(w, j) for w in a.batch.views for j in range(N) if (w, j) != (a.v, a.i)]
    keys += [(0, j) for j in range(N, a.b)]
    scores = np.array([a.batch.y[w][j] @ a.x[a.i] / TAU for w, j in keys])
    return share(scores, [p for p, (_, j) in enumerate(keys) if a.z[j] == a.z[a.i]])


def soft_infonce(a):
    k = np.array([rbf(a.z[a.i], z) for z in a.z])
    return -sum(k / k.sum() * log(softmax(a.s)))


def x_clr(a):
    """Of both views, with a softmax of cosines as targets."""
    samples = [*range(a.b), *(j for j in a.others if j < N)]
    scores = np.array([*a.s, *a.both(a.others)[a.b - 1 :]])
    return -softmax(np.array([cosine(a.z[a.i], a.z[j]) for j in samples]) / T) @ log(
        softmax(scores)
    )


def ressl(a):
    """Without the own key."""
    targets = softmax(np.array([cosine(a.z[a.i], a.z[j]) for j in a.others]) / T)
    return -targets @ log(softmax(a.s[a.others]))


def ucl(a, o, negatives, beta=0, positives=None):
    """Of one positive, or of each of several."""
    own = a.own if positives is None else exp(positives)
    expected = softmax(beta * negatives) @ exp(negatives)
    return log(1 + o * expected / own) if len(negatives) else None


def hscl(a, o, beta=0, least=0):
    """Each key of the class as the positive."""
    negatives, positives = a.both(a.unlike), np.array([a.s[a.i], *a.both(a.alike)])
    return ucl(a, o, negatives[exp(negatives) >= least], beta, positives)


def hcl(a, s, beta, tau_plus=TAU_PLUS):
    expected = max((softmax(beta * s) @ exp(s) - tau_plus * a.own) / (1 - tau_plus), exp(-1 / TAU))
    return log(1 + len(s) * expected / a.own)


def c(a, values, least=-np.inf):
    K = matrix(rbf, values, values)
    W = inv(K + RIDGE * np.eye(a.b)) @ K
    return sum(max(W[j, a.i], least) * exp(a.s[j]) for j in range(a.b))


def fair_cclk(a, c_i):
    return -log(a.own / (a.own + (a.b - 1) * c_i))


def released_c(a):
    """(c_i, the sum of e_ij over both views) of the released code, without and with the own key."""
    K = matrix(rbf, a.z, a.z)
    np.fill_diagonal(K, 1)
    w = (inv(K + RIDGE * np.eye(a.b)) @ K)[:, a.i]
    w[w < 1e-6] = 0
    weights = [w[j] for j in a.others] + [w[j] for j in a.others if j < N]
    e = exp(a.both(a.others))
    return weights @ e, e.sum() + a.own


def fair_released(a):
    return log(np.clip(a.own + (a.b - 1) * released_c(a)[0], 1e-7, 1e20) / a.own)


def weaklysup_released(a):
    c_i, others = released_c(a)
    c_i = np.clip(c_i, 1e-7, 1e20)
    return log(np.clip(c_i + others, 1e-7, 1e20) / c_i)


def positives_of(a):
    """d² to the own keys of the other views."""
    return a.far([a.batch.y[v][a.i] for v in a.batch.views if v != a.v])


def queries_of(a):
    """d² to the other queries and the queue."""
    return a.far([x_j for j, x_j in enumerate([*a.x, *a.y[N:]]) if j != a.i])


def keys_of(a):
    """d² to the other samples' keys and the queue."""
    return a.far([a.y[j] for j in a.others])


def attraction(a):
    far = positives_of(a)
    return softmax(T_PLUS * far) @ far


def repulsion(near):
    return -softmax(-T_MINUS * near) @ near


def cacr(a):
    return A * attraction(a) + R * repulsion(queries_of(a))


def without_false_negatives(a):
    repelled = repulsion(queries_of(a)) + TAU_PLUS * mean(positives_of(a))
    return attraction(a) + repelled / (1 - TAU_PLUS)


def cacr_moco_v3(a, cost):
    views = [a.batch.x[v][a.i] for v in a.batch.views if v != a.w]
    d = np.array([[norm(x - y_j) ** 2 for y_j in a.y] for x in views])
    return softmax(d[:, a.i] / TAU) @ [cost(row, a) for row in d]


def rbf_cost(d, a):
    return d[a.i] + 2 * TAU * log(exp(-d / (2 * TAU)).sum())


def euclidean_cost(d, a):
    """As released, the sum over the batch in place of the mean."""
    near = d[a.others] / 2
    return (d[a.i] / 2 - softmax(-near / TAU) @ near) * N


ANCHORS = {
    "infonce": ({}, lambda a: infonce(a.own, a.s[a.others])),
    "infonce, within view": (WITHIN, lambda a: infonce(a.own, a.both(a.others))),
    "infonce, one way": (ONE_WAY, lambda a: infonce(a.own, a.s[a.others]) if a.v < a.w else None),
    "infonce, excluding": (
        {"exclude": [RBF, LIKELY]},
        lambda a: infonce(a.own, a.s[[j for j in a.others if rbf(a.z[a.i], a.z[j]) < LIKELY]]),
    ),
    "nt_xent": ({}, lambda a: infonce(a.own, a.both(a.others))),
    "fair_infonce": ({}, lambda a: infonce(a.own, a.s[a.alike])),
    "fair_infonce, within view": (WITHIN, lambda a: infonce(a.own, a.both(a.alike))),
    "hardneg_infonce": ({"nearest": 3}, lambda a: infonce(a.own, sorted(a.s[a.others])[-3:])),
    "weaklysup_infonce": ({}, lambda a: share(a.s, [a.i, *a.alike])),
    "supcon": ({}, supcon),
    "supcon, inside": ({"summation": "inside"}, partial(supcon, share=inside)),
    "supcon, one": ({"contrast_mode": "one"}, lambda a: None if a.v else supcon(a)),
    "supcon, sincere": ({"denominator": "negatives"}, partial(supcon, share=sincere)),
    "supcon, sincere inside": (
        {"denominator": "negatives", "summation": "inside"},
        partial(supcon, share=partial(sincere, average=lambda shares: -log(mean(shares)))),
    ),
    "cl_infonce": ({}, supcon),
    "cl_infonce, released": ({"form": "released"}, lambda a: supcon(a) * TAU / 0.07),
    "soft_infonce": ({"kernel": RBF}, soft_infonce),
    "soft_infonce, x-clr": ({**OF_COSINES, **WITHIN}, x_clr),
    "soft_infonce, ressl": ({**OF_COSINES, "own": False}, ressl),
    "ucl": ({"o": FACTOR}, lambda a: ucl(a, FACTOR, a.both(a.others))),
    "ucl, one view": ({"o": FACTOR, **ACROSS}, lambda a: ucl(a, FACTOR, a.s[a.others])),
    "hucl": ({"beta": BETA}, lambda a: ucl(a, N, a.both(a.others), BETA)),
    "hucl, threshold": (
        {"beta": BETA, "threshold": 1.0},
        lambda a: ucl(a, N, np.array([g for g in a.both(a.others) if g >= 0]), BETA),
    ),
    "scl": ({"o": "negatives"}, lambda a: ucl(a, len(a.both(a.others)), a.both(a.unlike))),
    "scl, all": ({**ALL, "o": FACTOR}, lambda a: hscl(a, FACTOR)),
    "hscl": ({"beta": BETA}, lambda a: ucl(a, N, a.both(a.unlike), BETA)),
    "hscl, all by anchors": (
        {**ALL, "beta": BETA, "threshold": 0.6, "average": "anchors"},
        lambda a: None if (values := hscl(a, N, BETA, 0.6)) is None else mean(values),
    ),
    "hcl": (
        {"beta": BETA, "tau_plus": TAU_PLUS},
        lambda a: hcl(a, a.both(a.others), BETA),
    ),
    "hcl, steep": (
        {"beta": 5.0, "tau_plus": 0.8, **ACROSS},
        lambda a: hcl(a, a.s[a.others], 5.0, 0.8),
    ),
    "debiased": ({"tau_plus": TAU_PLUS}, lambda a: hcl(a, a.both(a.others), 0)),
    "fair_cclk": (CCLK, lambda a: fair_cclk(a, c(a, a.z, least=0))),
    "fair_cclk, printed": (KEEP, lambda a: fair_cclk(a, c(a, a.z))),
    "fair_cclk, released": ({**CCLK, "form": "released"}, fair_released),
    "hardneg_cclk": (KEEP, lambda a: fair_cclk(a, c(a, [*a.x, *a.y[N:]]))),
    "weaklysup_cclk": (KEEP, lambda a: infonce(c(a, a.z), a.s[a.others])),
    "weaklysup_cclk, clipped": (CCLK, lambda a: infonce(c(a, a.z, least=0), a.s[a.others])),
    "weaklysup_cclk, released": ({**CCLK, "form": "released"}, weaklysup_released),
    "cacr": (CACR, cacr),
    "cacr, one way": ({**CACR, **ONE_WAY}, lambda a: cacr(a) if a.v == 0 else None),
    "cacr, uniform": (UNIFORM, lambda a: mean(positives_of(a)) - mean(queries_of(a))),
    "cacr, debiased": ({**SCALES, "tau_plus": TAU_PLUS}, without_false_negatives),
    "cacr, other view": (
        {**SCALES, "negatives": "other_view"},
        lambda a: attraction(a) + repulsion(keys_of(a)),
    ),
    "cacr_moco_v3": ({}, partial(cacr_moco_v3, cost=rbf_cost)),
    "cacr_moco_v3, euclidean": (
        {"cost": "euclidean"},
        partial(cacr_moco_v3, cost=euclidean_cost),
    ),
}
"""Parameters, and the loss of an anchor, or of each of its positives; None for one that does not count."""


def over_anchors(loss, t):
    losses = [loss(Anchor(t, v, w, i)) for v, w in t.ordered for i in range(N)]
    return mean(np.hstack([each for each in losses if each is not None]))


def core(t):
    """The first view with each other."""
    loss = over_anchors(lambda a: share(a.s, [a.i]) if 0 in (a.v, a.w) else None, t)
    return sum(0 in pair for pair in t.ordered) * loss


def later_view(t):
    near = over_anchors(lambda a: repulsion(keys_of(a)) if a.v < a.w else None, t)
    return over_anchors(attraction, t) + near


def cacr_rbf(t):
    """The log of the mean kernel value of each view's queries."""
    values = []
    for v in t.views:
        near = [queries_of(Anchor(t, v, v, i)) for i in range(N)]
        values.append(log(mean([softmax(-T_MINUS * d) @ exp(-T * d) for d in near])))
    return over_anchors(attraction, t) + mean(values)


def align_uniform(t, v, w):
    x, pairs = [*t.x[v], *t.y[w][N:]], [(i, j) for i in range(N) for j in range(i + 1, t.b)]
    uniform = log(mean([exp(-T * norm(x[i] - x[j]) ** 2) for i, j in pairs]))
    return A * mean(norm(t.x[v] - t.keys[w], axis=1) ** ALPHA) + U * uniform


def koleo(x, i):
    return -log(min(norm(x[i] - x[j] + EPS) for j in range(N) if j != i) + EPS)


def unbiased(K, L):
    n, one = len(K), np.ones(len(K))
    K, L = K * (1 - np.eye(n)), L * (1 - np.eye(n))
    means = (one @ K @ one) * (one @ L @ one) / ((n - 1) * (n - 2))
    return (np.trace(K @ L) + means - 2 / (n - 2) * (one @ K @ L @ one)) / (n * (n - 3))


def biased(K, L):
    H = np.eye(N) - np.ones((N, N)) / N
    return np.trace(K @ H @ L @ H) / (N - 1) ** 2


def hsic(estimate, t):
    L = matrix(laplacian, t.z[:N], t.z[:N])
    return mean([estimate(matrix(rbf, x, x), L) for x in t.x])


BATCHES = {
    **{name: (params, partial(over_anchors, loss)) for name, (params, loss) in ANCHORS.items()},
    "cmc": ({}, lambda t: len(t.ordered) * over_anchors(lambda a: share(a.s, [a.i]), t)),
    "cmc, mean": ({"reduction": "mean"}, partial(over_anchors, lambda a: share(a.s, [a.i]))),
    "cmc, core": ({"graph": "core"}, core),
    "cacr, later view": ({**SCALES, "negatives": "later_view"}, later_view),
    "cacr, rbf": ({**SCALES, "cost": "rbf", "precision": T}, cacr_rbf),
    "align_uniform": (ALIGN, lambda t: mean([align_uniform(t, v, w) for v, w in t.ordered])),
    "koleo": ({"eps": EPS}, lambda t: mean([koleo(x, i) for x in t.x for i in range(N)])),
    "hsic": (HSIC, partial(hsic, unbiased)),
    "hsic, biased": ({**HSIC, "estimator": "biased"}, partial(hsic, biased)),
}
"""Parameters, and the loss of a batch."""


def of_batch(label, which):
    params, loss = BATCHES[label]
    t = Batch(label.partition(",")[0], params, which)
    return t.objective.loss(t.pairs), loss(t)


def h(head, f):
    return head.weight.detach().numpy() @ f + head.bias.detach().numpy()


def prototypes(head, f, z, i):
    p = head.prototypes.numpy()
    begun = [c for c in range(len(p)) if p[c].any()]
    q = softmax([unit(f[i]) @ p[c] / TAU for c in begun])
    return -log(q[begun.index(z[i])]) if z[i] in begun else None


def relational(head, f, z, i):
    f, z, others = unit(f), unit(z), [j for j in range(N) if j != i]
    p, q = softmax(z[others] @ z[i] / TAU), softmax(f[others] @ f[i] / TAU)
    return sum(p * log(p / q))


HEADS = {
    "classification": lambda o, f, z, i: -log(softmax(h(o, f[i]))[z[i]]),
    "cluster_cross_entropy": lambda o, f, z, i: -log(softmax(h(o.head, f[i]))[z[i]]),
    "regression": lambda o, f, z, i: mean((h(o, f[i]) - (z[i] - MU) / DEVIATION) ** 2),
    "prototypes": prototypes,
    "distillation": lambda o, f, z, i: 1 - unit(f[i]) @ unit(z[i]),
    "distillation, relational": relational,
}
"""The loss of a sample in one view."""


def of_features(label):
    name, _, form = label.partition(", ")
    head = create(name, **({"form": form} if form else {}))
    values = {"regression": NUMBERS, "distillation": RAW_KEYS[0]}.get(name, IDS)
    trait(head, "setup")({"condition": Table(tensor(values))}, Sizes(len(values), D, D, steps=9))
    head.double()
    if name == "prototypes":
        head.prototypes[:QUEUED] = tensor(unit(RAW_QUEUE))
    views = tensor(RAW[:2])
    found = head(*views, condition=tensor(values[:N]), features=tuple(views))
    losses = [HEADS[label](head, f, values[:N], i) for f in RAW[:2] for i in range(N)]
    return found, mean([each for each in losses if each is not None])


def teacher(name):
    objective = create(name, teacher_temperature=TAU_T, dim=D)
    objective.center.copy_(tensor(CENTER))
    return objective, lambda x, y: -softmax((y - CENTER) / TAU_T) @ log(softmax(x / TAU))


def dino():
    """Three views of a student, two of a teacher."""
    objective, loss = teacher("dino")
    pairs = with_keys(tensor(RAW), tensor(RAW_KEYS[:2]), first_key_view=0)
    views = [(RAW[v], RAW_KEYS[w]) for v in range(3) for w in range(2) if v != w]
    return objective.loss(pairs), mean([loss(x[i], y[i]) for x, y in views for i in range(N)])


def ibot():
    """Two views of two images with 2, 3, 1 and no masked patches."""
    objective, loss = teacher("ibot")
    x, y = RAW[0, :6], RAW_KEYS[0, :6]
    patches = PatchScores(tensor(x), tensor(y), tensor([[2, 3], [1, 0]]))
    of_views = [mean([loss(x[p], y[p]) for p in some]) for some in ([0, 1], [2, 3, 4], [5])]
    return objective(*tensor(RAW[:2, :2]), patches=patches), mean([*of_views, 0])


def of_lightly():
    views, loss = tensor(RAW), lightly.loss.VICRegLoss()
    expected = mean([loss(x, y).item() for x, y in itertools.combinations(views, 2)])
    return create("lightly", loss="VICRegLoss")(*views), expected


def of_parts(name):
    """Two objectives, the second with weight R."""
    views, z = tensor(RAW[:2]), tensor(IDS[:N])
    one, two = create("infonce"), create("supcon")
    guide = {"on": "condition", "keep": True, "by": two, "weight": R}
    guided, mixed = {"base": one, "guides": [guide]}, {"objectives": (one, two), "weights": (1, R)}
    both = create(name, **(guided if name == "guided" else mixed))
    return both(*views, condition=z), one(*views).item() + R * two(*views, condition=z).item()


def of_kernel(name):
    params, values, k = KERNELS[name]
    a, b = values[:4], values[2:]
    return ccl.create("kernel", name, **params)(tensor(a), tensor(b)), matrix(k, a, b)


OF_BATCH = itertools.product(BATCHES, ("two views", "three views", "keys and queue"))
CASES = {
    **{", ".join(each): partial(of_batch, *each) for each in OF_BATCH},
    **{label: partial(of_features, label) for label in HEADS},
    **{name: partial(of_parts, name) for name in ("mixture", "guided")},
    **{name: partial(of_kernel, name) for name in KERNELS},
    **{"dino": dino, "ibot": ibot, "lightly": of_lightly},
}
"""By component and setting, what returns the value of the component and that of its equation."""


@pytest.mark.parametrize("case", CASES)
def test_the_printed_equation_is_what_is_computed(case):
    found, expected = CASES[case]()
    np.testing.assert_allclose(found.detach(), expected, rtol=1e-9, atol=1e-9)


def test_every_equation_is_read():
    specs = [*registry().specs("objective"), *registry().specs("kernel")]
    printed = {s.name for s in specs if s.plugin == registry().host and equation(s.load())}
    assert {case.partition(",")[0] for case in CASES} == printed
