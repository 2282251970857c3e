from __future__ import annotations

import pytest
import torch
from support.condition_splits import Split

from ccl_plugins.conditions import Attributes, Clusters, Column, Embedding, Label, Saved
from ccl_plugins.metadata.fitted import fit, load_table, save_table, summarize
from ccl_plugins.protocols import Table


class Images(Split):
    def __init__(self, n=5, seed=0):
        self.images = torch.rand(n, 1, 2, 2, generator=torch.Generator().manual_seed(seed))
        super().__init__(label=torch.arange(n) % 2)

    def __getitem__(self, i):
        return self.images[i], 0


def test_a_table_says_what_it_holds():
    ids = torch.tensor([0, 0, 4, -1, 4, 4])
    found = summarize(Table(ids, {"centroids_5": torch.zeros(5, 3)}), "categorical")
    assert str(found) == (
        "categorical (6,); 2 values, 2 to 3 samples each; missing in 1 samples; centroids_5 (5, 3)"
    )
    torch.testing.assert_close(found.counts, (torch.tensor([2, 3]),))
    levels = summarize(Table(torch.stack([ids, torch.zeros(6).long()], 1)), "categorical")
    assert levels.metrics() == {
        "missing": 1,
        **{"0/values": 2, "0/fewest": 2, "0/most": 3, "1/values": 1, "1/fewest": 6, "1/most": 6},
    }
    binary = summarize(Table(torch.tensor([[1.0, 0], [1, 1], [1, 0]])), "multi_label")
    assert str(binary) == "multi_label (3, 2); 2 columns, 1 to 3 samples with 1 in each"
    assert str(summarize(Table(torch.rand(3, 2)), "continuous")) == "continuous (3, 2)"


def test_a_saved_condition_is_the_one_that_was_fitted(tmp_path):
    split, file = Images(), tmp_path / "z.safetensors"
    condition = Clusters(2, of=Column("place", value_type="continuous"))
    split.metadata["place"] = torch.tensor([[0.0], [0], [5], [5], [0]])
    table = fit(condition, split)
    save_table(file, table, condition.value_type, split)
    again = Saved(file)
    assert again.value_type == "categorical"
    found = fit(again, split)
    torch.testing.assert_close((found.values, found.extras), (table.values, table.extras))


def test_a_saved_condition_of_another_data_set_is_refused(tmp_path):
    file = tmp_path / "z.safetensors"
    save_table(file, fit(Label(), Images()), "categorical", Images())
    with pytest.raises(ValueError, match="5 rows, but the data set has 4 samples"):
        fit(Saved(file), Images(4))
    with pytest.raises(ValueError, match="belongs to another data set"):
        fit(Saved(file), Images(seed=1))


def test_a_file_that_is_no_condition_is_named(tmp_path):
    from safetensors.torch import save_file

    save_file({"weight": torch.zeros(2)}, tmp_path / "w.safetensors")
    with pytest.raises(ValueError, match="holds no fitted condition"):
        load_table(tmp_path / "w.safetensors")
    with pytest.raises(ValueError, match="holds no fitted condition"):
        _ = Saved(tmp_path / "w.safetensors").value_type
    with pytest.raises(FileNotFoundError, match="no file"):
        _ = Saved(tmp_path / "z.safetensors").value_type


def test_conditions_that_have_no_table_alone_say_so():
    with pytest.raises(ValueError, match="computed in every step"):
        fit(Embedding(), Images())
    with pytest.raises(ValueError, match="Clusters asks for the model's embeddings"):
        fit(Clusters(2), Images())
    assert fit(Attributes(["label"]), Images()).values.shape == (5, 1)
