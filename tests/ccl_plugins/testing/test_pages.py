"""The code on the page about the kit runs."""

from __future__ import annotations

import re

from support.imports import ROOT

PAGE = ROOT / "docs" / "how-to" / "test-a-plugin.md"

SOURCE = '''
import torch

from ccl_plugins.datasets import InMemory
from ccl_plugins.kernels import RBF
from ccl_plugins.samplers import Uniform


class Ring(RBF):
    """A ring around the origin."""


class Bootstrap(Uniform):
    """Draws with replacement."""

    def __init__(self, *, size: int, batch_size: int, seed: int) -> None:
        super().__init__(size=size, batch_size=batch_size, seed=seed)
        self.total = size, batch_size

    def batches(self, epoch, start=0):
        for number in range(start, len(self)):
            draws = np.random.default_rng((self.seed, epoch, number))
            drawn = draws.integers(self.total[0], size=self.total[1])
            yield torch.from_numpy(drawn)


class Photos:
    """Black or white images with labels from a file."""

    def __init__(self, path: str = "labels.txt") -> None:
        self.path = path

    def __call__(self, split):
        if split not in ("train", "test"):
            raise ValueError(split)
        label = torch.tensor([int(word) for word in open(self.path).read().split()])
        images = torch.full((len(label), 3, 8, 8), 255 * (split == "test")).byte()
        return InMemory(images, label, {"label": label})

    def schema(self):
        return {"label": "categorical"}
'''


def test_the_how_to_runs(install_plugin):
    points = {
        "ccl_plugins.kernel": {"ring": "ccl_ring_of_page:Ring"},
        "ccl_plugins.sampler": {"bootstrap": "ccl_ring_of_page:Bootstrap"},
        "ccl_plugins.dataset": {"photos": "ccl_ring_of_page:Photos"},
    }
    install_plugin("ccl-ring", points, {"ccl_ring_of_page.py": SOURCE})
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    names: dict = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    (mark,) = names["test_conformance_but_for_the_bootstrap"].pytestmark
    expected = [parameter for parameter in mark.args[1] if parameter.marks]
    assert {parameter.id for parameter in expected} == {
        "sampler/bootstrap-ranks_share_no_sample",
        "sampler/bootstrap-an_epoch_visits_every_sample_once",
    }
    (mark,) = names["test_conformance_with_files"].pytestmark
    for parameter in mark.args[1]:
        if "bootstrap" not in parameter.id:
            names["test_conformance_with_files"](*parameter.values)
