from __future__ import annotations

import pytest
import torch

from ccl_plugins.kernels import Polynomial
from ccl_plugins.methods.feature_queue import FeatureQueue
from ccl_plugins.numerics.gram import Statistic, exact_features


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
    with pytest.raises(TypeError, match=r"size of the queue must be a whole number, not 2\.5"):
        FeatureQueue(2.5, 2)


@pytest.mark.parametrize("size", [(0, 2), (2, 0)])
def test_an_empty_queue_is_refused(size):
    with pytest.raises(ValueError, match="must be 1 or more, not 0"):
        FeatureQueue(*size)


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


def test_conditions_are_read_again_by_index():
    queue, table = FeatureQueue(5, 2), torch.arange(30) // 10
    queue.write(torch.zeros(3, 2), torch.tensor([4, 14, 24]), {"cluster": torch.tensor([7, 7, 7])})
    queue.read_conditions(lambda index: {"cluster": table[index]})
    assert queue.condition("cluster", table)[:3].tolist() == [0, 1, 2]


def test_keys_without_an_index_keep_their_conditions():
    queue, rows = FeatureQueue(5, 2), torch.tensor([7.0, 8.0])
    queue.write(torch.zeros(2, 2), None, {"age": rows})
    queue.read_conditions(lambda index: {"age": torch.full((len(index),), torch.nan)})
    assert queue.condition("age", rows).tolist() == [7, 8, 0, 0, 0]


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
    features = exact_features(Polynomial(2, coef0=1.0))
    assert features(torch.zeros(1, 1)).any()
    queue = FeatureQueue(7, 2)
    queue.keep_statistics({"gram": Statistic("z", features)})
    for step in range(4):  # the third batch wraps
        queue.write(torch.zeros(3, 2), None, {"z": torch.randn(3, 1)})
        phi = features(queue.condition("z", torch.zeros(1, 1))[queue.valid])
        assert len(phi) == min(3 * step + 3, 7)
        torch.testing.assert_close(queue.grams()["gram"], phi.T @ phi)
