from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from lightly.utils import dist

import ccl_plugins as ccl
from ccl_plugins.kernels import Cosine, Linear, Polynomial
from ccl_plugins.methods.feature_queue import FeatureQueue, holds_conditions
from ccl_plugins.numerics.gram import ExactFeatures, Statistic
from ccl_plugins.numerics.joint import Joint
from ccl_plugins.pairs import Samples, with_keys


def write_all(queue, size, batches):
    """Batches of rows that hold their running number; all numbers in order."""
    start = 0
    for count in batches:
        numbers = torch.arange(start, start + count)
        rows = {"label": numbers, "a.b": numbers[:, None].double()}
        queue.write(numbers[:, None].float().expand(-1, 2), numbers, rows)
        start += count
    return torch.arange(start)


@pytest.mark.parametrize("batches", [[3], [3, 3], [5, 5], [3, 3, 3, 3], [7], [4, 7, 2]])
def test_the_newest_keys_stay_and_none_is_lost_at_the_wrap(batches):
    queue = FeatureQueue(7, 2)
    numbers = write_all(queue, 7, batches)
    kept = numbers[-7:]
    found = queue.index[queue.valid]
    assert sorted(found.tolist()) == kept.tolist()
    torch.testing.assert_close(queue.keys[queue.valid], found[:, None].float().expand(-1, 2))
    for name in ("label", "a.b"):
        rows = queue.condition(name, torch.zeros(1))[queue.valid]
        torch.testing.assert_close(rows.flatten().long(), found)
    assert bool(queue.full) == (len(numbers) >= 7)


def test_more_keys_than_places_are_refused():
    with pytest.raises(ValueError, match="a batch of 8 keys does not fit into a queue of 7"):
        FeatureQueue(7, 2).write(torch.zeros(8, 2))


def test_a_fractional_size_is_refused():
    with pytest.raises(TypeError, match=r"size must be a whole number, not 2\.5"):
        FeatureQueue(2.5, 2)


def test_another_embedding_is_refused_by_name():
    queries, keys = torch.randn(2, 3, 4)
    with pytest.raises(ValueError, match=r"^embedding must be one of 'sphere', 'raw', not 'flat'"):
        FeatureQueue(8, 4).pairs(queries, keys, embedding="flat")


@pytest.mark.parametrize(("size", "name"), [((0, 2), "size"), ((2, 0), "dim")])
def test_an_empty_queue_is_refused(size, name):
    with pytest.raises(ValueError, match=f"{name} must be 1 or more, not 0"):
        FeatureQueue(*size)


def test_a_queue_may_hold_one_number():
    queue = FeatureQueue(1, 1)
    assert (queue.index.tolist(), bool(queue.full)) == ([-1], False)
    queue.write(torch.ones(1, 1))
    assert queue.full


def test_a_batch_of_the_queues_size_fits():
    queue = FeatureQueue(7, 2)
    queue.check_batch(7)
    with pytest.raises(
        ValueError, match=r"batch of 8 .* queue of 7: give the method queue_size=8 "
    ):
        queue.check_batch(8)


def test_keys_without_an_index_have_none():
    queue = FeatureQueue(4, 2)
    queue.write(torch.zeros(3, 2), torch.arange(3))
    queue.write(torch.zeros(2, 2))
    assert queue.index.tolist() == [-1, 1, 2, -1]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_keys_of_any_precision_are_stored(dtype):
    queue = FeatureQueue(4, 2)
    queue.write(torch.full((3, 2), 0.5, dtype=dtype))
    assert queue.keys.dtype == torch.float32
    assert queue.keys[:3].eq(0.5).all()


def test_a_state_dict_restores_conditions_too():
    queue, other = FeatureQueue(7, 2), FeatureQueue(7, 2)
    write_all(queue, 7, [5, 5])
    other.load_state_dict(queue.state_dict())
    torch.testing.assert_close(dict(other.named_buffers()), dict(queue.named_buffers()))
    write_all(queue, 7, [3])
    write_all(other, 7, [3])
    torch.testing.assert_close(other.state_dict(), queue.state_dict())


def test_writing_compiles_once_without_graph_breaks():
    from torch._dynamo.testing import CompileCounter

    torch.compiler.reset()
    plain, compiled, counter = FeatureQueue(7, 2), FeatureQueue(7, 2), CompileCounter()
    for queue in (plain, compiled):
        queue.condition("label", torch.zeros(1, dtype=torch.long))
    write = torch.compile(compiled.write, fullgraph=True, backend=counter)
    for step in range(5):
        batch = torch.randn(3, 2), torch.arange(3) + step, {"label": torch.arange(3)}
        plain.write(*batch)
        write(*batch)
    torch.testing.assert_close(compiled.state_dict(), plain.state_dict())
    assert counter.frame_count == 1


def test_gram_statistics_subtract_nothing_for_places_that_had_no_key_before():
    """The features of the zeros in an empty place are not 0 under this kernel."""
    features = ExactFeatures(Polynomial(degree=2, coef0=1.0))
    assert features(torch.zeros(1, 1)).any()
    queue = FeatureQueue(7, 2)
    queue.keep_statistics({"gram": Statistic("z", features)})
    for step in range(4):  # the third batch wraps
        queue.write(torch.zeros(3, 2), None, {"z": torch.randn(3, 1)})
        phi = features(queue.condition("z", torch.zeros(1, 1))[queue.valid])
        assert len(phi) == min(3 * step + 3, 7)
        torch.testing.assert_close(queue.grams()["gram"], phi.T @ phi)


def keyed(n=4, views=3, seed=0, **condition):
    """Pairs of one view with the keys of the next views, 3 wide."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(views + 1, n, 3, generator=generator)
    return with_keys(x[:1], x[1:], Samples(condition, torch.arange(n)), first_key_view=1)


def test_pairs_are_compared_with_the_queue_and_while_it_fills_with_the_batch():
    queue, pairs = FeatureQueue(6, 3), keyed(age=torch.rand(4, 2), view=torch.rand(3, 4, 5))
    pairs = replace(pairs, samples=replace(pairs.samples, extras={"centers": torch.rand(2)}))
    queue.keep_statistics({"gram": Statistic("age", ExactFeatures(Linear()))})
    for batches in (1, 2):
        queue.enqueue(pairs)
        found = queue.add_to(pairs)
        assert found.queue.keys is queue.keys
        assert found.queue.index is queue.index
        assert torch.equal(found.queue.valid, queue.valid)
        assert bool(found.batch_candidates) == (batches == 1)
        for name, width in (("age", 2), ("view", 5)):
            assert found.queue.condition[name] is queue.condition(name, torch.zeros(1, width))
        assert found.samples.extras["centers"] is pairs.samples.extras["centers"]
        assert torch.equal(found.queue.grams["gram"], queue.grams()["gram"])
        assert queue.add_to(pairs, "negative").queue.index is None


def test_the_last_views_keys_and_values_enter():
    queue, pairs = FeatureQueue(6, 3), keyed(view=torch.rand(3, 4, 5), label=torch.arange(4))
    queue.enqueue(pairs)
    assert torch.equal(queue.keys[:4], pairs.keys[2])
    assert torch.equal(
        queue.condition("view", torch.zeros(1))[:4], pairs.samples.condition["view"][2]
    )
    assert torch.equal(queue.condition("label", torch.zeros(1))[:4], torch.arange(4))
    assert queue.index[:4].tolist() == [0, 1, 2, 3]


def test_keys_of_partners_enter_as_the_partners_own():
    queue, pairs = FeatureQueue(6, 3), keyed(age=torch.zeros(4), label=torch.arange(4))
    partner = torch.tensor([9, 8, 7, 6])
    pairs = replace(
        pairs,
        samples=replace(pairs.samples, partner=partner, partner_condition={"age": torch.ones(4)}),
    )
    queue.enqueue(pairs)
    assert torch.equal(queue.index[:4], partner)
    assert queue.condition("age", torch.zeros(1))[:4].tolist() == [1] * 4
    assert queue.condition("label", torch.zeros(1))[:4].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("index", [True, False])
def test_keys_of_all_processes_enter_once(monkeypatch, index):
    monkeypatch.setattr(dist, "world_size", lambda: 2)
    monkeypatch.setattr(dist, "rank", lambda: 1)
    monkeypatch.setattr(dist, "gather", lambda x: (x + 1, x))
    x, age, ids = torch.rand(2, 3, 4), torch.rand(3, 2), torch.arange(3) if index else None
    for gathered in (False, True):
        queue = FeatureQueue(9, 4)
        given = {"first_key_view": 1, "gather_distributed": gathered}
        queue.enqueue(with_keys(x[:1], x[1:], Samples({"age": age}, ids), **given))
        assert int(queue.filled) == 6
        torch.testing.assert_close(queue.keys[:6], torch.cat([x[1] + 1, x[1]]))
        held = queue.condition("age", torch.zeros(1))
        torch.testing.assert_close(held[:6], torch.cat([age + 1, age]))
        assert queue.index.tolist() == ([1, 2, 3, 0, 1, 2] if index else [-1] * 6) + [-1] * 3


def test_rows_have_the_type_of_the_first_whatever_comes_later():
    queue = FeatureQueue(6, 2)
    queue.keep_statistics({"gram": Statistic("age", ExactFeatures(Linear()))})
    first, later = torch.rand(3, 1), torch.rand(3, 1, dtype=torch.float64)
    queue.write(torch.zeros(3, 2), None, {"age": first})
    queue.write(torch.zeros(3, 2), None, {"age": later})
    held = queue.condition("age", later)
    assert torch.equal(held, torch.cat([first, later.float()]))
    torch.testing.assert_close(queue.grams()["gram"], held.double().T @ held.double())


def test_a_batch_without_a_condition_that_is_held_is_refused():
    queue = FeatureQueue(6, 2)
    queue.write(torch.zeros(3, 2), None, {"age": torch.ones(3), "site": torch.arange(3)})
    before = {name: z.clone() for name, z in queue.state_dict().items()}
    with pytest.raises(ValueError, match="the queue holds 'site', and a batch has none"):
        queue.write(torch.ones(3, 2), None, {"age": torch.zeros(3)})
    assert all(torch.equal(z, before[name]) for name, z in queue.state_dict().items())


def test_counters_stay_exact_in_a_model_of_half_precision():
    queue = FeatureQueue(5000, 2).half()
    queue.write(torch.zeros(4097, 2))
    assert (int(queue.filled), int(queue.pointer)) == (4097, 4097)
    assert queue.filled.dtype == queue.pointer.dtype == torch.long


def test_conditions_of_several_columns_are_read_again_and_the_first_sample_too():
    queue, table = FeatureQueue(5, 2), torch.rand(4, 3)
    ids = torch.tensor([1, 0, 3])
    queue.write(torch.zeros(3, 2), ids, {"color": torch.zeros(3, 3), "kind": torch.zeros(3)})
    queue.write(torch.zeros(1, 2), None, {"color": torch.ones(1, 3), "kind": torch.ones(1)})
    queue.read_conditions(lambda index: {"color": table[index], "kind": table[index, 0]})
    color = queue.condition("color", table)
    torch.testing.assert_close(color, torch.cat([table[ids], torch.ones(1, 3), torch.zeros(1, 3)]))
    kind = queue.condition("kind", table[:, 0])
    torch.testing.assert_close(kind, torch.cat([table[ids, 0], torch.ones(1), torch.zeros(1)]))


def with_statistics(size=16):
    """A queue that wrapped, with two statistics of one condition and one of another."""
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(40, 2, dtype=torch.float64, generator=generator)
    queue = FeatureQueue(size, 3)
    queue.keep_statistics(
        {
            "age": Statistic("age", ExactFeatures(Linear())),
            "kind": Statistic("kind", ExactFeatures(Linear())),
            "squares": Statistic("age", ExactFeatures(Polynomial(degree=2, coef0=1.0))),
            "a.b": Statistic("a.b", ExactFeatures(Cosine())),
        }
    )
    for first in range(0, 40, 4):
        index = torch.arange(first, first + 4)
        rows = {"age": table[index].float(), "kind": index % 3, "a.b": table[index, :1]}
        queue.write(torch.randn(4, 3, generator=generator), index, rows)
    return queue, table


def test_rows_that_are_as_before_leave_gram_matrices_as_they_are():
    """Else a run that is resumed in the middle of an epoch would differ in the last bit."""
    queue, table = with_statistics()
    before = {name: gram.clone() for name, gram in queue.grams().items()}
    queue.read_conditions(lambda index: {"age": table[index]})
    for name, gram in queue.grams().items():
        assert torch.equal(gram, before[name])
    queue.read_conditions(lambda index: {"age": 2 * table[index]})
    torch.testing.assert_close(queue.grams()["age"], 4 * before["age"])
    assert torch.equal(queue.grams()["a.b"], before["a.b"])


def test_statistics_are_kept_of_vectors_with_fewer_features_than_places():
    queue, _ = with_statistics()
    assert [*queue.grams()] == ["age", "squares", "a.b"]
    assert [len(gram) for gram in queue.grams().values()] == [2, 6, 1]
    for size, kept in ((6, ["age", "a.b"]), (7, ["age", "squares", "a.b"])):
        assert [*with_statistics(size)[0].grams()] == kept


def test_a_statistic_of_two_conditions_begins_when_both_are_there():
    features = ExactFeatures(Joint(ccl.create("kernel", "sum", on={"a": "linear", "b": "cosine"})))
    queue = FeatureQueue(8, 2)
    queue.keep_statistics({"gram": Statistic("a", features)})
    for _ in range(3):  # the third batch wraps
        queue.write(torch.zeros(3, 2), None, {"a": torch.randn(3, 2), "b": torch.rand(3, 4)})
        a, b = queue.condition("a", torch.zeros(1, 2)), queue.condition("b", torch.zeros(1, 4))
        packed = features.kernel.pack({"a": a, "b": b})[queue.valid]
        phi = features(packed)
        torch.testing.assert_close(queue.grams()["gram"], phi.T @ phi)


def test_statistics_may_begin_when_the_queue_holds_rows():
    features = ExactFeatures(Polynomial(degree=2, coef0=1.0))
    queue, rows = FeatureQueue(12, 2), torch.randn(4, 2)
    queue.write(torch.zeros(4, 2), None, {"z": rows})
    queue.keep_statistics({"gram": Statistic("z", features)})
    phi = features(rows)
    torch.testing.assert_close(queue.grams()["gram"], phi.T @ phi)
    queue.read_conditions(lambda index: {})
    queue.index[:4] = torch.arange(4)
    queue.read_conditions(lambda index: {"z": 2 * rows[index]})
    phi = features(2 * rows)
    torch.testing.assert_close(queue.grams()["gram"], phi.T @ phi)


def test_a_state_dict_restores_the_statistics_that_are_read():
    (queue, _), (other, _) = with_statistics(), with_statistics()
    kind = torch.zeros(4, dtype=torch.long)
    rows = {"age": torch.ones(4, 2), "kind": kind, "a.b": torch.ones(4, 1)}
    queue.write(torch.ones(4, 3), None, rows)
    other.load_state_dict(queue.state_dict())
    torch.testing.assert_close(other.grams(), queue.grams())
    nested = torch.nn.ModuleDict({"deep": torch.nn.ModuleDict({"queue": with_statistics()[0]})})
    outer = torch.nn.ModuleDict({"deep": torch.nn.ModuleDict({"queue": queue})})
    nested.load_state_dict(outer.state_dict())
    torch.testing.assert_close(nested.state_dict(), outer.state_dict())
    plain = FeatureQueue(16, 3)
    plain.load_state_dict(queue.state_dict())
    assert plain.grams() == {}


def test_conditions_are_saved_under_their_names():
    queue = FeatureQueue(3, 1)
    names = ("age", "a.b", "a%2Eb")
    queue.write(
        torch.zeros(1, 1), None, {name: torch.tensor([i + 1]) for i, name in enumerate(names)}
    )
    rows = {"condition:age", "condition:a%2Eb", "condition:a%252Eb"}
    assert {key for key in queue.state_dict() if holds_conditions(key)} == rows
    assert [queue.condition(name, torch.zeros(1)).max() for name in ("a.b", "a%2Eb")] == [2, 3]
    assert holds_conditions("method.queue.condition:age")
    assert not holds_conditions("method.queue.index")
