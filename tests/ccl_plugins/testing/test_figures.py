"""Figures that break one law each."""

from __future__ import annotations

import matplotlib
import pytest
from support.broken import broken_laws, law_tests, names

from ccl_plugins.figures import figure
from ccl_plugins.protocols import DoesNotApply


class Sound:
    """A dot for each run, if one is conditional."""

    def __call__(self, runs):
        if "conditional" not in runs:
            raise DoesNotApply("no run is conditional")
        drawn = figure(2, 2)
        drawn.subplots().plot([len(each.metrics) for each in runs.values()], "o")
        return drawn


class Panel(Sound):
    """Returns what it drew on."""

    def __call__(self, runs):
        return super().__call__(runs).axes[0]


class Silent(Sound):
    """Says not why it does not apply."""

    def __call__(self, runs):
        raise DoesNotApply


class Lonely(Sound):
    """Cannot draw several runs."""

    def __call__(self, runs):
        ((_, run),) = runs.items()
        return super().__call__({"conditional": run})


class Empty(Sound):
    """Draws nothing."""

    def __call__(self, runs):
        return figure(2, 2)


class Counting(Sound):
    """Counts its calls."""

    calls = 0

    def __call__(self, runs):
        Counting.calls += 1
        drawn = super().__call__(runs)
        drawn.axes[0].set_title(str(Counting.calls))
        return drawn


class Writing(Sound):
    """Leaves a file in the folder of a run."""

    def __call__(self, runs):
        for run in runs.values():
            with (run.path / "seen.txt").open("a") as file:
                file.write("again")
        return super().__call__(runs)


class WritingTheSame(Sound):
    """Leaves the same file in the folder of a run each time, and drew before."""

    def __call__(self, runs):
        for run in runs.values():
            (run.path / "drawn.txt").write_text("drawn")
        return super().__call__(runs)


class Normalizing(Sound):
    """Normalizes the features of a run in place."""

    def __call__(self, runs):
        for run in runs.values():
            features = run.features("test").features
            features /= features.norm(dim=1, keepdim=True).clamp_min(1e-9) * 2
        return super().__call__(runs)


class Training(Sound):
    """Changes the weights."""

    def __call__(self, runs):
        for run in runs.values():
            for weights in run.parts.method.state_dict().values():
                weights.add_(1)
        return super().__call__(runs)


class Setting(Sound):
    """Changes the settings of matplotlib."""

    def __call__(self, runs):
        matplotlib.rcParams["font.size"] += 1
        return super().__call__(runs)


class Kept(Sound):
    """Leaves a figure to pyplot."""

    def __call__(self, runs):
        import matplotlib.pyplot as plt

        drawn, panel = plt.subplots()
        panel.plot([1], "o")
        return drawn


LEAVES = {"leaves_everything_as_it_is"}
BROKEN = {
    Sound: set(),
    Panel: {"draws_runs_or_says_why_not", "can_be_saved"},
    Silent: {"draws_runs_or_says_why_not"},
    Lonely: {"draws_runs_or_says_why_not", "can_be_saved"},
    Empty: {"can_be_saved"},
    Counting: {"is_deterministic"},
    Writing: LEAVES,
    WritingTheSame: LEAVES,
    Normalizing: LEAVES,
    Training: LEAVES,
    Setting: LEAVES,
    Kept: LEAVES,
}


@pytest.fixture(autouse=True)
def _as_before():
    """What broken figures leave behind is not for the next one."""
    with matplotlib.rc_context():
        yield
    import matplotlib.pyplot as plt

    plt.close("all")


def of_figures(kind, broken):
    return broken_laws(kind, broken) & names(kind)


test_the_law_that_is_broken_is_named, test_every_law_is_broken_once = law_tests(
    "figure", BROKEN, of_figures
)
