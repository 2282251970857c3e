"""Figures that break one law each."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import pytest
from support.broken import broken_laws, law_tests, names

from ccl_plugins.figures import figure
from ccl_plugins.protocols import DoesNotApply

pytestmark = pytest.mark.filterwarnings("ignore:More than 20 figures")  # of one that keeps them


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


class Popping(Sound):
    """Takes runs away from those that it was given."""

    def __call__(self, runs):
        drawn = super().__call__(runs)
        runs.pop("plain", None)
        return drawn


class Relabeling(Sound):
    """Changes the labels of a run."""

    def __call__(self, runs):
        for run in runs.values():
            run.features("test").metadata["label"].add_(1)
        return super().__call__(runs)


class Sorting(Sound):
    """Sorts the tables of conditions in place."""

    def __call__(self, runs):
        for run in runs.values():
            for table in run.condition_tables().values():
                table.values.copy_(table.values.flip(0))
        return super().__call__(runs)


class Marking(Sound):
    """Keeps something at a run, for the next call."""

    def __call__(self, runs):
        for run in runs.values():
            run.seen = True
        return super().__call__(runs)


class WritingHere(Sound):
    """Leaves a file where Python runs."""

    def __call__(self, runs):
        drawn = super().__call__(runs)
        Path("drawn.txt").write_text("drawn")
        return drawn


class Closing(Sound):
    """Closes all figures of the user."""

    def __call__(self, runs):
        import matplotlib.pyplot as plt

        plt.close("all")
        return super().__call__(runs)


class Seeding(Sound):
    """Seeds numpy's generator, to be the same each time."""

    def __call__(self, runs):
        np.random.seed(0)
        return super().__call__(runs)


class SettingOnce(Sound):
    """Sets a setting of matplotlib, each time to the same value."""

    def __call__(self, runs):
        matplotlib.rcParams["font.size"] = 20
        return super().__call__(runs)


class Bare(Sound):
    """Draws axes alone."""

    def __call__(self, runs):
        drawn = figure(2, 2)
        drawn.subplots()
        return drawn


class Expecting(Sound):
    """Expects that every run was evaluated."""

    def __call__(self, runs):
        return super().__call__(runs) if min(len(each.metrics) for each in runs.values()) else 1 / 0


class Gathering(Sound):
    """Draws the runs of earlier calls, too."""

    def __init__(self):
        self.runs = {}

    def __call__(self, runs):
        self.runs |= runs
        return super().__call__(self.runs)


class Titled(Sound):
    """Right: numbers of each run under its title."""

    def __call__(self, runs):
        drawn = figure(2, 2)
        panel = drawn.subplots()
        for title, run in runs.items():
            panel.plot([run.features("test").features.mean()], "o", label=title)
        return drawn


class Exchanged(Titled):
    """Sorts the titles, and not the runs."""

    def __call__(self, runs):
        return super().__call__(dict(zip(sorted(runs), runs.values(), strict=True)))


class Closed(Titled):
    """Right: draws by pyplot under its own style, and closes what it drew."""

    def __call__(self, runs):
        import matplotlib.pyplot as plt

        with plt.rc_context({"font.size": 7}):
            drawn, panel = plt.subplots()
            panel.bar([*runs], [len(run.metrics) for run in runs.values()])
            plt.close(drawn)
        return drawn


LEAVES, DRAWS = {"leaves_everything_as_it_is"}, {"draws_runs_or_says_why_not"}
ALL = DRAWS | {"can_be_saved", "draws_each_run_under_its_title"}
BROKEN = {
    Sound: set(),
    Panel: DRAWS | {"can_be_saved"},
    Silent: DRAWS,
    Lonely: ALL | LEAVES,
    Empty: DRAWS | {"can_be_saved"},
    Counting: {"is_deterministic"},
    Writing: LEAVES,
    WritingTheSame: LEAVES,
    Normalizing: LEAVES,
    Training: LEAVES,
    Setting: LEAVES,
    Kept: LEAVES,
    Popping: LEAVES,
    Relabeling: LEAVES,
    Sorting: LEAVES,
    Marking: LEAVES,
    WritingHere: LEAVES,
    Closing: LEAVES,
    Seeding: LEAVES,
    SettingOnce: LEAVES,
    Bare: DRAWS,
    Expecting: DRAWS,
    Gathering: {"is_deterministic"},
    Titled: set(),
    Exchanged: {"draws_each_run_under_its_title"},
    Closed: set(),
}


@pytest.fixture(autouse=True)
def _as_before(monkeypatch, tmp_path):
    """What broken figures leave behind is not for the next one."""
    monkeypatch.chdir(tmp_path)
    with matplotlib.rc_context():
        yield
    import matplotlib.pyplot as plt

    plt.close("all")


def of_figures(kind, broken):
    return broken_laws(kind, broken) & names(kind)


test_the_law_that_is_broken_is_named, test_every_law_is_broken_once = law_tests(
    "figure", BROKEN, of_figures
)
