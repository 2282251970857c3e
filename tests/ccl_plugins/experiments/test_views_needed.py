"""A method without the views that its objective needs is refused before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

import ccl_plugins as ccl


@pytest.mark.parametrize("method", ["simclr", "moco_v2", "moco_v3"])
def test_too_few_views_are_refused_when_a_pipeline_is_composed(method: str) -> None:
    given = {"dataset": "color_digits", "backbone": "lenet5", "method": method}
    with pytest.raises(
        ValueError,
        match="CACR needs at least 5 views, and this transform gives 2: use transform multi",
    ):
        ccl.Pipeline(**given, objective=ccl.objective("cacr", positives=4))


def test_a_mistake_in_settings_leaves_a_run_that_is_to_be_overwritten(tmp_path: Path) -> None:
    (tmp_path / "weights.pt").write_bytes(b"mine")
    (tmp_path / "pipeline.json").write_text("{}")
    pipeline = ccl.Pipeline(dataset="color_digits", backbone="lenet5", objective="infonce")
    with pytest.raises(ValueError, match="cannot be shared by 3 processes"):
        pipeline.fit(out=tmp_path, overwrite=True, devices=3, batch_size=256)
    assert (tmp_path / "weights.pt").read_bytes() == b"mine"
