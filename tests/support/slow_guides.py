"""Guides computed sample by sample, written from their formulas."""

from __future__ import annotations

import torch


def log_softmax_at(logits, k):
    """The log-probability of class k, by a loop over classes."""
    top = max(each.item() for each in logits)
    total = sum(torch.exp(each - top) for each in logits)
    return logits[k] - top - torch.log(total)


def linear(x, weight, bias):
    return [sum(weight[c, k] * x[k] for k in range(len(x))) + bias[c] for c in range(len(weight))]


def cross_entropy(views, ids, weight, bias):
    found = []
    for view in views:
        for x, k in zip(view, ids.tolist(), strict=True):
            found.append(-log_softmax_at(linear(x, weight, bias), k))
    return sum(found) / len(found)


def to_uniform(views, weight, bias):
    found = []
    for view in views:
        for x in view:
            logits = linear(x, weight, bias)
            every = [-log_softmax_at(logits, c) for c in range(len(weight))]
            found.append(sum(every) / len(every))
    return sum(found) / len(found)


def binary_cross_entropy(views, bits, weight, bias):
    found = []
    for view in views:
        for x, row in zip(view, bits.tolist(), strict=True):
            each = []
            for logit, bit in zip(linear(x, weight, bias), row, strict=True):
                p = 1 / (1 + torch.exp(-logit))
                each.append(-torch.log(p) if bit else -torch.log(1 - p))
            found.append(sum(each) / len(each))
    return sum(found) / len(found)


def squared_error(views, z, weight, bias, table):
    """Of values in units of the table's deviations."""
    found = []
    for view in views:
        for x, row in zip(view, z, strict=True):
            errors = []
            for c, predicted in enumerate(linear(x, weight, bias)):
                column = table[:, c]
                mean = sum(column) / len(column)
                deviation = (sum((v - mean) ** 2 for v in column) / len(column)) ** 0.5
                errors.append((predicted - (row[c] - mean) / deviation) ** 2)
            found.append(sum(errors) / len(errors))
    return sum(found) / len(found)


def unit(x):
    return x / torch.sqrt(sum(each * each for each in x))


def begun_only(views, ids, prototypes, temperature):
    """Of the samples whose class has a prototype, the log-probabilities of these classes, and the own."""
    begun = [c for c, p in enumerate(prototypes) if p is not None]
    for view in views:
        for x, k in zip(view, ids.tolist(), strict=True):
            if k in begun:
                logits = [(unit(x) * prototypes[c]).sum() / temperature for c in begun]
                every = [log_softmax_at(logits, c) for c in range(len(begun))]
                yield every, every[begun.index(k)]


def near_prototypes(*given):
    """The cross-entropy of the samples whose class has a prototype, among those classes."""
    found = [-own for _, own in begun_only(*given)]
    return sum(found) / len(found)


def between_prototypes(*given):
    """The same samples' cross-entropy with a target that is uniform over those classes."""
    found = [-sum(every) / len(every) for every, _ in begun_only(*given)]
    return sum(found) / len(found)


def moved(prototypes, views, ids, momentum):
    """The prototypes after a step."""
    result = []
    for c, before in enumerate(prototypes):
        own = [unit(x) for view in views for x, k in zip(view, ids.tolist(), strict=True) if k == c]
        if not own:
            result.append(before)
            continue
        mean = sum(own) / len(own)
        result.append(unit(mean if before is None else momentum * before + (1 - momentum) * mean))
    return result


def gaussian(a, b, scale):
    return torch.exp(-((a - b) ** 2).sum() / scale)


def median_of_squares(x):
    """The median squared distance of different rows, without gradient."""
    x = x.detach()
    found = sorted(
        float(((a - b) ** 2).sum()) for i, a in enumerate(x) for j, b in enumerate(x) if i != j
    )
    return found[(len(found) - 1) // 2]


def matrix(x):
    x = x.reshape(len(x), -1)
    scale, one = median_of_squares(x), torch.ones((), dtype=x.dtype)
    rows = range(len(x))
    return [[gaussian(x[i], x[j], scale) if i != j else one for j in rows] for i in rows]


def hsic(x, z, estimator):
    """HSIC of one view, by sums over tuples of different samples, or by centered matrices."""
    k, of_z, n = matrix(x), matrix(z), len(x)
    if estimator == "biased":

        def centered(m):
            rows = [sum(m[i]) / n for i in range(n)]
            columns = [sum(m[i][j] for i in range(n)) / n for j in range(n)]
            whole = sum(rows) / n
            return [[m[i][j] - rows[i] - columns[j] + whole for j in range(n)] for i in range(n)]

        a, b = centered(k), centered(of_z)
        return sum(a[i][j] * b[j][i] for i in range(n) for j in range(n)) / (n - 1) ** 2
    # The U-statistic: means over tuples of different samples.
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    first = sum(k[i][j] * of_z[i][j] for i, j in pairs) / (n * (n - 1))
    triples = [(i, j, m) for i, j in pairs for m in range(n) if m not in (i, j)]
    second = sum(k[i][j] * of_z[i][m] for i, j, m in triples) / (n * (n - 1) * (n - 2))
    fours = [(i, j, m, o) for i, j, m in triples for o in range(n) if o not in (i, j, m)]
    third = sum(k[i][j] * of_z[m][o] for i, j, m, o in fours) / (n * (n - 1) * (n - 2) * (n - 3))
    return first + third - 2 * second
