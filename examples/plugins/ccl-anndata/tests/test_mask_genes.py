"""Genes are masked at random, after counts are scaled."""

import pytest
import torch

from ccl_anndata.mask_genes import MaskGenes


def test_genes_are_masked_after_counts_are_scaled():
    counts = torch.tensor([[4.0, 0.0, 12.0], [0.0, 0.0, 0.0]])
    transform = MaskGenes(total=8, log1p=True)
    plain = transform.plain(counts)
    torch.testing.assert_close(plain, torch.tensor([[2.0, 0.0, 6.0], [0.0, 0.0, 0.0]]).log1p())
    many = torch.ones(4, 5000)
    (view,) = MaskGenes(mask=0.3, count=1)(many)
    assert set(view.unique().tolist()) == {0.0, 1.0}
    assert abs(view.mean() - 0.7) < 0.02
    (drawn,) = {t for t in MaskGenes(mask=0.3).batch_transforms}
    batch = drawn(many, torch.arange(4))
    assert abs(batch.mean() - 0.7) < 0.02
    assert not batch[0].equal(batch[1])
    with pytest.raises(ValueError, match="is for counts, and the data hold -1"):
        MaskGenes(log1p=True).plain(-many)
    for wrong in ({"mask": 1}, {"total": 0}, {"count": 0}):
        with pytest.raises(ValueError, match="must be"):
            MaskGenes(**wrong)
