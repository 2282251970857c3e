"""A type checker reports which members a component lacks."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from support.imports import ROOT

SOURCE = """
from __future__ import annotations

from collections.abc import Iterator, Mapping

from ccl_plugins.backbones import LeNet5
from ccl_plugins.conditions import Column, Embedding
from ccl_plugins.kernels import RBF
from ccl_plugins.methods import MoCoV2, MoCoV3
from ccl_plugins.objectives import FairCCLK
from ccl_plugins.protocols import (
    Evaluator,
    FittedCondition,
    Frozen,
    Kernel,
    Method,
    Objective,
    BatchCondition,
    Sampler,
    Transform,
)
from ccl_plugins.transforms import SimCLRTransform
from torch import Tensor


class Ring:
    positive_definite = True

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        return a @ b.T


class WithoutACall:
    positive_definite = True


class OfOneArgument:
    positive_definite = True

    def __call__(self, a: Tensor) -> Tensor:
        return a @ a.T


class WithoutStart:
    def __len__(self) -> int:
        return 1

    def batches(self, epoch: int) -> Iterator[Tensor]:
        return iter(())


class OfWords:
    def __call__(self, train: Frozen, test: Frozen) -> dict[str, str]:
        return {"top1": "high"}


right: Kernel = Ring()
ours: Kernel = RBF()
read: FittedCondition = Column("color")
seen: BatchCondition = Embedding()
loss: Objective = FairCCLK(RBF())
transform: Transform = SimCLRTransform()
queued: Method = MoCoV2(backbone=LeNet5())
third: Method = MoCoV3(backbone=LeNet5())
lacking: Kernel = WithoutACall()
narrow: Kernel = OfOneArgument()
restarting: Sampler = WithoutStart()
wordy: Evaluator = OfWords()
"""


WRONG = {
    "lacking": ['"WithoutACall" is missing following "Kernel" protocol member', "__call__"],
    "narrow": ["Expected:", "__call__(self, a: Tensor, b: Tensor)", "Got:"],
    "restarting": ["batches(self, epoch: int, start: int = ...)", "Got:"],
    "wordy": ["-> Sequence[Measurement]", "-> dict[str, str]"],
}


@pytest.fixture
def said(tmp_path):
    """The messages of mypy, by the name that is assigned."""
    (tmp_path / "mine.py").write_text(SOURCE)
    # The settings and the cache of checking the packages: what torch says of itself is read once for both.
    options = [f"--config-file={ROOT / 'pyproject.toml'}", f"--cache-dir={ROOT / '.mypy_cache'}"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "mine.py"],
        env={**os.environ, "MYPYPATH": str(ROOT)},  # it does not see what is installed to be edited
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    lines = SOURCE.splitlines()
    told: dict[str, str] = {}
    for number, text in re.findall(r"^mine\.py:(\d+): (.*)$", done.stdout, re.MULTILINE):
        name = lines[int(number) - 1].partition(":")[0]
        told[name] = f"{told.get(name, '')}{text}\n"
    return told


@pytest.mark.slow
def test_of_what_is_wrong_alone_the_member_is_named(said):
    """In one test, for which mypy reads torch once."""
    assert said.keys() == WRONG.keys()
    for name, parts in WRONG.items():
        for part in parts:
            assert part in said[name]
