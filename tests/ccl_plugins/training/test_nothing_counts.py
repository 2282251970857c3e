"""Training in which no anchor counts says so once, and names the setting."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.training_fakes import FakeDataset, fit, make_parts
from support.training_ranks import make_method
from torch import nn

from ccl_plugins.conditions import Label
from ccl_plugins.methods import SimCLR
from ccl_plugins.objectives import SCL, FairInfoNCE, InfoNCE, NTXent
from ccl_plugins.training.findings import Findings
from ccl_plugins.training.settings import FitSettings
from ccl_plugins.training.step_checks import nothing_counts


def run(
    out: Path, objective: nn.Module, classes: int = 4, method: Any = None, **settings: Any
) -> None:
    parts = make_parts(
        dataset=FakeDataset(16, classes),
        method=method or make_method("simclr"),
        objective=objective,
        conditions={"condition": Label()},
    )
    given = {"epochs": 2, "batch_size": 8, "workers": 0, "log_every": 1, **settings}
    fit(parts, FitSettings(**given), out, {}, progress=False)


@pytest.mark.parametrize(
    ("objective", "settings", "setting"),
    [
        (InfoNCE(), {"batch_size": 1}, "batch_size = 1 leaves no other sample"),
        (
            SCL(),
            {"classes": 1},
            "its 8 samples have 1 value of condition 'condition'; take another",
        ),
        (FairInfoNCE(), {"classes": 16}, "its 8 samples have 8 values of condition 'condition'"),
        (SCL(), {"classes": 1, "epochs": 1, "log_every": 50}, "its 8 samples have 1 value"),
    ],
)
def test_training_that_learns_nothing_says_so_once(
    tmp_path: Path, objective: Any, settings: Any, setting: str
) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(tmp_path, objective, **settings)
    (message,) = [str(each.message) for each in caught if "no anchor" in str(each.message)]
    name = type(objective).__name__
    assert message.startswith(f"step 1: no anchor of the batch counts in the loss of {name}, so")
    assert setting in message
    assert "\n" not in message


def test_a_method_without_other_samples_is_named_as_the_reason(tmp_path: Path) -> None:
    class OwnKeysAlone(SimCLR):
        def pairs(self, embedded: Any, samples: Any) -> Any:
            pairs = super().pairs(embedded, samples)
            return replace(pairs, negative=torch.zeros_like(pairs.own()))

    method = OwnKeysAlone(4, 4, backbone=make_method("simclr").backbone)
    with pytest.warns(UserWarning, match="own keys alone; take an objective without negatives"):
        run(tmp_path, NTXent(), method=method)


def test_training_that_begins_to_learn_nothing_says_so(tmp_path: Path) -> None:
    class Later(InfoNCE):
        calls = 0

        def terms(self, pairs: Any) -> Any:
            self.calls += 1
            values, weights = super().terms(pairs)
            return (values, weights) if self.calls < 5 else (values * 0, weights * 0)

    with pytest.warns(UserWarning, match=r"^step \d+: no anchor of the batch counts") as caught:
        run(tmp_path, Later(), epochs=8, log_every=2)
    assert len(caught) == 1


@pytest.mark.parametrize("method", ["simclr", "moco_v2"])
def test_training_that_learns_is_quiet(
    tmp_path: Path, method: str, recwarn: pytest.WarningsRecorder
) -> None:
    """A batch of one, too, if there is a queue to compare it with."""
    batch_size = 1 if method == "moco_v2" else 8
    run(tmp_path, InfoNCE(), method=make_method(method), batch_size=batch_size)
    assert not [str(each.message) for each in recwarn if "no anchor" in str(each.message)]


def test_a_loss_that_is_solved_is_no_loss_without_anchors(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    class Solved(InfoNCE):
        def terms(self, pairs: Any) -> Any:
            values, weights = super().terms(pairs)
            return values * 0, weights

    run(tmp_path, Solved())
    assert [str(each.message) for each in recwarn] == []


def test_looking_for_anchors_does_not_wait_for_the_device_in_each_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = []
    monkeypatch.setattr(
        "ccl_plugins.training.module.nothing_counts", lambda *_: bool(looked.append(1))
    )
    run(tmp_path, InfoNCE(), epochs=8)
    assert len(looked) == 1
    assert nothing_counts(torch.ones(()), None, None, 1, Findings()) is False


class Blind(InfoNCE):
    """Its value is right, and its gradient is lost, as torch 2.11 lost that of `ldexp`."""

    def loss(self, pairs):
        loss = super().loss(pairs)
        return loss.detach() + 0 * loss


@pytest.mark.parametrize(("objective", "said"), [(Blind(), True), (InfoNCE(), False)])
def test_a_loss_whose_gradient_is_0_is_named(tmp_path: Path, objective: Any, said: bool) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(tmp_path, objective)
    lines = [
        str(w.message) for w in caught if "all gradients of the networks are" in str(w.message)
    ]
    assert len(lines) == said
    assert all(
        "step 1: the loss of Blind" in line and "no-gradient-reaches" in line for line in lines
    )
