"""What a released version recorded, this one loads."""

from __future__ import annotations

import json
import warnings

import pytest
from support.records import RECORDS

import ccl_plugins as ccl


@pytest.mark.parametrize("file", sorted(RECORDS.glob("*.json")), ids=lambda file: file.stem)
def test_the_record_of_a_released_version_loads_and_is_written_with_the_names_of_today(file):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of old names
        pipeline = ccl.Pipeline.from_dict(json.loads(file.read_text("utf-8")))
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        assert ccl.Pipeline.from_dict(pipeline.to_dict()).to_dict() == pipeline.to_dict()


@pytest.mark.skipif(".dev" in ccl.__version__, reason="between releases")
def test_this_version_has_its_record():
    assert (RECORDS / f"{ccl.__version__}.json").is_file(), (
        "run PYTHONPATH=tests python -m support.records"
    )
