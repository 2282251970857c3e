"""Numbers of an objective that are scheduled over training, or learned."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from support.slow_infonce import random_batch

from ccl_plugins.kernels import RBF, Linear
from ccl_plugins.objectives import (
    CACR,
    HCL,
    HSCL,
    HUCL,
    CACRMoCoV3,
    ClInfoNCE,
    FairCCLK,
    InfoNCE,
    Mixture,
    count_epochs,
)
from ccl_plugins.objectives.scalars import changing, lowest


def scheduled(schedule, start=0.5, end=0.1):
    return {"schedule": schedule, "start": start, "end": end}


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("linear", [0.5, 0.4, 0.3, 0.2, 0.1]),
        ("cosine", [0.1 + 0.2 * (1 + math.cos(math.pi * k / 4)) for k in range(5)]),
    ],
)
def test_a_schedule_runs_from_its_start_in_the_first_step_to_its_end_in_the_last(
    schedule, expected
):
    objective, found = InfoNCE(scheduled(schedule)), []
    for step in range(5):
        objective.progress(step, 5)
        found.append(objective.scalars()["temperature"].item())
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("objective", "options"),
    [(HUCL, {}), (HSCL, {"positives": "all"}), (HCL, {}), (HUCL, {"weight_gradient": False})],
)
def test_a_scheduled_beta_of_0_is_that_of_0(objective, options):
    (x, y), ids = random_batch()
    given = {"condition": ids} if objective is HSCL else {}
    found = []
    for beta in (0.0, scheduled("linear", 0.0, 0.0)):
        loss = objective(beta=beta, **options)(x, y, **given)
        found.append((loss.detach(), *torch.autograd.grad(loss, x)))
    torch.testing.assert_close(found[1], found[0], rtol=1e-9, atol=1e-12)


def test_a_cosine_with_a_period_is_the_printed_equation():
    """Kukleva et al. (2023), from τ₊ = 1 down to τ₋ = 0.1 and back every T = 400 epochs."""
    high, low, period = 1.0, 0.1, 400
    given = {"schedule": "cosine", "start": high, "end": low, "period": period}
    objective = InfoNCE(given, exclude=(Linear(), {**given, "start": low, "end": high}))
    for epoch in [0, 1, 57, 100, 200, 399, 400, 401, 1000, 1999]:
        objective.progress(epoch, 2000)
        printed = (high - low) * (1 + math.cos(2 * math.pi * epoch / period)) / 2 + low
        found = objective.scalars()
        torch.testing.assert_close(found["temperature"].item(), printed, rtol=1e-6, atol=1e-7)
        # With start and end exchanged it begins at the other end.
        mirrored = found["exclude_threshold"].item()
        torch.testing.assert_close(mirrored, high + low - printed, rtol=1e-6, atol=1e-7)


def test_a_line_with_a_period_goes_to_its_end_and_back():
    objective, found = InfoNCE({**scheduled("linear"), "period": 4}), []
    for step in range(9):
        objective.progress(step, 7)  # whatever the number of steps, and beyond it
        found.append(objective.scalars()["temperature"].item())
    expected = [0.5, 0.3, 0.1, 0.3, 0.5, 0.3, 0.1, 0.3, 0.5]
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)


def test_a_period_counts_epochs_of_many_steps():
    part = InfoNCE({**scheduled("cosine"), "period": 3})
    objective = Mixture([part], [{**scheduled("linear", 0, 1), "period": 6}])
    count_epochs(objective, 10)
    objective.progress(15, 1000)  # half a period of the temperature, and a quarter of the weight's
    found = objective.scalars()
    torch.testing.assert_close(found["0/temperature"].item(), 0.1, rtol=1e-6, atol=0)
    torch.testing.assert_close(found["0/weight"].item(), 0.5, rtol=1e-6, atol=0)


def test_a_warm_up_ends_after_its_epochs_whatever_the_length_of_the_run():
    objective, found = InfoNCE({**scheduled("linear"), "epochs": 2}), []
    count_epochs(objective, 2)
    for step in range(6):
        objective.progress(step, 100)
        found.append(objective.scalars()["temperature"].item())
    torch.testing.assert_close(found, [0.5, 0.4, 0.3, 0.2, 0.1, 0.1], rtol=1e-6, atol=0)


def test_before_any_progress_it_has_its_start_and_beyond_the_last_step_its_end():
    objective = InfoNCE(scheduled("linear"))
    torch.testing.assert_close(objective.temperature, torch.tensor(0.5))
    objective.progress(7, 5)
    torch.testing.assert_close(objective.temperature, torch.tensor(0.1))


def test_a_run_of_one_step_has_the_start():
    objective = InfoNCE(scheduled("linear"))
    objective.progress(0, 1)
    torch.testing.assert_close(objective.temperature, torch.tensor(0.5))


@pytest.mark.parametrize(
    "given", [0.2, {"schedule": "constant", "start": 0.2}, {"learn": False, "start": 0.2}]
)
def test_what_does_not_change_is_a_plain_number(given):
    objective = InfoNCE(given)
    assert objective.temperature == 0.2
    assert not objective.scalars()
    assert not objective.state_dict()


def test_a_learned_temperature_is_a_parameter_that_stays_above_0():
    (x, y), _ = random_batch()
    objective = InfoNCE({"learn": True, "start": 0.07})
    (parameter,) = objective.parameters()
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    torch.testing.assert_close(parameter.exp(), torch.tensor(0.07))
    for _ in range(3):
        optimizer.zero_grad()
        objective(x, y).backward()
        assert parameter.grad != 0
        optimizer.step()
        assert 0 < objective.temperature != 0.07
    assert objective.scalars()["temperature"] == parameter.exp()


def test_a_learned_temperature_does_not_fall_below_its_bound_and_rises_from_it():
    objective = InfoNCE({"learn": True, "start": 0.02, "lowest": 0.01})
    (parameter,) = objective.parameters()
    with torch.no_grad():
        parameter.fill_(math.log(0.001))  # as a step that is too long
    torch.testing.assert_close(objective.temperature.detach(), torch.tensor(0.01))
    assert torch.autograd.grad(objective.temperature, parameter)[0] > 0
    objective.progress(1, 10)
    torch.testing.assert_close(parameter.detach().exp(), torch.tensor(0.01))
    InfoNCE({"learn": True, "start": 0.02, "lowest": 0.02})
    for bound in (0, 0.03):
        with pytest.raises(ValueError, match=f"at most the start, 0.02, not {bound}"):
            InfoNCE({"learn": True, "start": 0.02, "lowest": bound})


def test_the_gradient_of_a_learned_temperature_is_that_of_the_loss():
    (x, y), _ = random_batch()
    objective = InfoNCE({"learn": True, "start": 0.3}).double()
    (parameter,) = objective.parameters()
    (gradient,) = torch.autograd.grad(objective(x, y), parameter)
    step, start = 1e-6, parameter.exp().item()
    up, down = (InfoNCE(start * math.exp(sign * step))(x, y) for sign in (1, -1))
    torch.testing.assert_close(gradient, (up - down) / (2 * step), rtol=1e-6, atol=0)


def test_the_threshold_of_what_is_excluded_takes_a_schedule():
    (x, y), ids = random_batch()
    objective = InfoNCE(exclude=(Linear(), scheduled("linear", 2, 1)))
    torch.testing.assert_close(objective(x, y, condition=ids), InfoNCE()(x, y))
    objective.progress(9, 10)
    expected = InfoNCE(exclude=(Linear(), 1))(x, y, condition=ids)
    torch.testing.assert_close(objective(x, y, condition=ids), expected)
    assert expected != InfoNCE()(x, y)


def test_a_number_can_be_set_anew():
    objective = InfoNCE(scheduled("linear"))
    objective.temperature = 0.3
    assert objective.temperature == 0.3
    assert not objective.scalars()
    with pytest.raises(ValueError, match=r"temperature must be .* above 0, not -1"):
        objective.temperature = -1


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: InfoNCE({"schedule": "linear", "start": 1}), TypeError, "end = ...} or {learn"),
        (lambda: InfoNCE({"start": 1}), TypeError, "temperature must be a number, {schedule"),
        (lambda: InfoNCE({**scheduled("linear"), "warmup": 3}), TypeError, "'warmup': 3"),
        (
            lambda: InfoNCE({**scheduled("cosine"), "period": 0}),
            ValueError,
            "temperature.period must be a finite number above 0, not 0",
        ),
        (lambda: InfoNCE({**scheduled("cosine"), "period": "3"}), TypeError, "period must be a n"),
        (lambda: InfoNCE({**scheduled("linear"), "epochs": 0}), ValueError, "epochs must be a fin"),
        (
            lambda: InfoNCE({**scheduled("linear"), "epochs": 1, "period": 3}),
            TypeError,
            "temperature must be a number",
        ),
        (
            lambda: InfoNCE({"schedule": "constant", "start": 1, "epochs": 3}),
            TypeError,
            "end = ..., epochs = EPOCHS}",
        ),
        (
            lambda: InfoNCE({"schedule": "constant", "start": 1, "period": 3}),
            TypeError,
            "end = ..., period = EPOCHS}",
        ),
        (lambda: HSCL(o=scheduled("linear", -1)), ValueError, "o.start .* above 0, not -1"),
        (lambda: HSCL(o=True), TypeError, "o must be a number, not True"),
        (lambda: CACR(tau_plus=scheduled("linear", 0, 1)), ValueError, "tau_plus.end .* below 1"),
        (
            lambda: FairCCLK(RBF(), ridge={"learn": True, "start": 1}),
            ValueError,
            "ridge cannot be learned: give a number or a schedule",
        ),
        (
            lambda: FairCCLK(RBF(), ridge=scheduled("linear", 0.1, 0.0)),
            ValueError,
            "ridge must be at least 1e-12 if it changes over training",
        ),
        (
            lambda: CACRMoCoV3({"learn": True, "start": 1}),
            ValueError,
            "temperature cannot be learned",
        ),
        (
            lambda: ClInfoNCE({"learn": True, "start": 1}, form="released"),
            ValueError,
            "would fall, because this lowers the factor",
        ),
    ],
)
def test_what_cannot_be_is_named(build, error, words):
    with pytest.raises(error, match=words):
        build()


def test_a_scheduled_number_prints_its_schedule():
    for more, words in (
        ({}, ""),
        ({"epochs": 30}, " in 30 epochs"),
        ({"period": 400}, " and back in 400 epochs"),
    ):
        shown = repr(InfoNCE({**scheduled("cosine"), **more}))
        assert f"(_temperature): Scheduled(cosine, 0.5 to 0.1{words})" in shown


def test_a_constant_schedule_may_name_its_end_if_it_is_the_start():
    assert InfoNCE({"schedule": "constant", "start": 0.2, "end": 0.2}).temperature == 0.2
    with pytest.raises(TypeError, match="temperature must be a number"):
        InfoNCE(scheduled("constant"))


def test_numpy_s_numbers_and_whole_numbers_are_numbers():
    assert InfoNCE(np.float32(0.5)).temperature == 0.5
    assert InfoNCE(1).temperature == 1
    torch.testing.assert_close(
        InfoNCE({"learn": True, "start": 2}).temperature.detach(), torch.tensor(2.0)
    )
    torch.testing.assert_close(InfoNCE(scheduled("linear", 2, 1)).temperature, torch.tensor(2.0))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"learn": True, "start": 0.1, "end": 1}, " or {learn = true, start = ...}"),
        ({"learn": "yes", "start": 0.1}, " or {learn = true, start = ...}"),
        ({"schedule": 3, "start": 0.1, "end": 1}, " or {learn = true, start = ...}"),
    ],
)
def test_a_table_of_another_form_is_quoted_with_the_forms_that_fit(given, message):
    forms = 'a number, {schedule = "linear" or "cosine", start = ..., end = ...}'
    with pytest.raises(TypeError) as error:
        InfoNCE(given)
    assert str(error.value) == f"temperature must be {forms}{message}, not {given!r}"
    with pytest.raises(TypeError) as error:
        CACRMoCoV3(given)
    assert str(error.value) == f"temperature must be {forms}, not {given!r}"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (scheduled("linear", start=0), "temperature.start must be a finite number above 0, not 0"),
        (scheduled("cosine", end=-1), "temperature.end must be a finite number above 0, not -1"),
        (scheduled("linear", start="1"), "temperature.start must be a number, not '1'"),
        (scheduled("linear", end=None), "temperature.end must be a number, not None"),
        ({"learn": True, "start": -2}, "temperature.start must be a finite number above 0, not -2"),
        ({"learn": False, "start": True}, "temperature.start must be a number, not True"),
        (
            scheduled("step"),
            "temperature.schedule must be one of 'constant', 'linear', 'cosine', not 'step'",
        ),
    ],
)
def test_what_is_wrong_in_a_table_is_named_with_its_key(given, message):
    with pytest.raises((TypeError, ValueError)) as error:
        InfoNCE(given)
    assert str(error.value) == message


def test_a_number_that_may_be_a_word_is_one_of_these():
    with pytest.raises(ValueError) as error:  # noqa: PT011  # the whole message is compared
        HSCL(o="all")
    assert str(error.value) == "o must be one of 'batch', 'negatives', not 'all'"
    assert HSCL(o=2).o == 2


def test_the_class_has_the_default():
    assert InfoNCE.temperature == 0.1


def test_the_least_value_is_a_number_s_own_or_that_of_the_lower_end():
    given = (0.3, scheduled("linear"), scheduled("linear", 0.1, 0.5))
    assert [lowest(InfoNCE(x), "temperature") for x in given] == [0.3, 0.1, 0.1]
    found = lowest(InfoNCE({"learn": True, "start": 0.2}), "temperature")
    assert found == pytest.approx(0.2, rel=1e-6)


def test_what_changes_is_its_own_and_not_its_members():
    outer = torch.nn.Module()
    outer.inner = InfoNCE(scheduled("linear"))
    assert not changing(outer)
    assert list(changing(outer.inner)) == ["temperature"]
