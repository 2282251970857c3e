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


class FirstAlone(Titled):
    """Draws the first run alone."""

    def __call__(self, runs):
        title = next(iter(runs))
        return super().__call__({title: runs[title]})


class AllButTheLast(Titled):
    """Draws a part for each run but the last, if there are several."""

    side_by_side = True

    def __call__(self, runs):
        return super().__call__({title: runs[title] for title in [*runs][: len(runs) - 1 or 1]})


class MeanSideBySide(Titled):
    """Gets the first run of each configuration, and draws their mean."""

    side_by_side = True

    def __call__(self, runs):
        drawn = figure(2, 2)
        means = [float(run.features("test").features.mean()) for run in runs.values()]
        drawn.subplots().plot([np.mean(means)], "o")
        return drawn


class EvaluatedAlone(Titled):
    """Applies if all runs were evaluated."""

    def __call__(self, runs):
        if not all(run.metrics for run in runs.values()):
            raise DoesNotApply("a run was not evaluated")
        return super().__call__(runs)


class Measured(Titled):
    """Right: the numbers of the runs that were evaluated."""

    def __call__(self, runs):
        found = {title: self.numbers(run) for title, run in runs.items()}
        if not any(found.values()):
            raise DoesNotApply("no run was evaluated")
        drawn = figure(2, 2)
        panel = drawn.subplots()
        for title, numbers in found.items():
            panel.plot([*numbers], [*numbers.values()], "o", label=title)
        return drawn

    def numbers(self, run):
        return run.metrics


class NeverRefusing(Measured):
    """Draws nothing of a run that was not evaluated, and does not say so."""

    def __call__(self, runs):
        return super().__call__(runs) if any(r.metrics for r in runs.values()) else figure(2, 2)


class NamesOfTheFirst(Measured):
    """Expects that all runs have the measurements of the first."""

    def __call__(self, runs):
        self.names = [*next(iter(runs.values())).metrics]
        return super().__call__(runs)

    def numbers(self, run):
        return {name: run.metrics[name] for name in self.names}


class Intervals(Measured):
    """Expects that every measurement has an interval."""

    def numbers(self, run):
        measured = run.measurements("after")
        return {name: each.interval[0] for name, each in measured.items()}


class Gains(Measured):
    """Expects that what was measured after training was measured before, too."""

    def numbers(self, run):
        return {name: value - run.before[name] for name, value in run.metrics.items()}


class FewColors(Titled):
    """Has three colors, for as many runs."""

    def __call__(self, runs):
        drawn = super().__call__(runs)
        for line, number in zip(drawn.axes[0].lines, range(len(runs)), strict=True):
            line.set_color(["red", "green", "blue"][number])
        return drawn


class Text(Measured):
    """Right: a text and no axes."""

    def __call__(self, runs):
        rows = [f"{title}: {run.metrics}" for title, run in runs.items() if run.metrics]
        if not rows:
            raise DoesNotApply("no run was evaluated")
        drawn = figure(2, 2)
        drawn.text(0, 1, "\n".join(rows))
        return drawn


class Rows(Measured):
    """Right: a table."""

    def __call__(self, runs):
        rows = [[title, f"{len(run.metrics)}"] for title, run in runs.items() if run.metrics]
        if not rows:
            raise DoesNotApply("no run was evaluated")
        drawn = figure(2, 2)
        drawn.subplots().table(rows)
        return drawn


class Best(Measured):
    """Right: the highest number of all runs."""

    def __call__(self, runs):
        numbers = [(v, n) for run in runs.values() for n, v in run.metrics.items()]
        if not numbers:
            raise DoesNotApply("no run was evaluated")
        drawn = figure(2, 2)
        drawn.subplots().bar([max(numbers)[1]], [max(numbers)[0]])
        return drawn


class OfASet(Titled):
    """Draws names in the order of a set."""

    def __call__(self, runs):
        drawn = super().__call__(runs)
        drawn.text(0, 0, " ".join({f"name {number}" for number in range(20)}))
        return drawn


class OfFolders(Titled):
    """Names runs by their folders."""

    def __call__(self, runs):
        return super().__call__({run.path.name: run for run in runs.values()})


class KeptByTitle(Titled):
    """Draws runs of the same titles once."""

    def __init__(self):
        self.drawn = {}

    def __call__(self, runs):
        if tuple(runs) not in self.drawn:
            self.drawn[tuple(runs)] = super().__call__(runs)
        return self.drawn[tuple(runs)]


class SettingWhenMade(Titled):
    """Sets a setting of matplotlib when it is made."""

    def __init__(self):
        matplotlib.rcParams["lines.linewidth"] = 3


class Choosing(Titled):
    """Chooses a backend."""

    def __call__(self, runs):
        matplotlib.use("agg")
        return super().__call__(runs)


class Dropping(Measured):
    """Takes out the runs that were not evaluated."""

    def __call__(self, runs):
        for title in [title for title, run in runs.items() if not run.metrics]:
            del runs[title]
        return super().__call__(runs)


class Evaluating(Measured):
    """Evaluates the runs that were not."""

    def numbers(self, run):
        return run.metrics or run.evaluate()


class Saliency(Titled):
    """Leaves gradients at the weights."""

    def __call__(self, runs):
        for run in runs.values():
            sum(weights.sum() for weights in run.parts.method.parameters()).backward()
        return super().__call__(runs)


LEAVES, DRAWS = {"leaves_everything_as_it_is"}, {"draws_runs_or_says_why_not"}
WHAT_IT_CAN, EVERY, TITLES = (
    {"draws_what_it_can"},
    {"draws_every_run"},
    {"draws_each_run_under_its_title"},
)
OTHER = {"is_the_same_in_another_process"}
ALL = DRAWS | OTHER | WHAT_IT_CAN | EVERY | TITLES | {"can_be_saved"}
BROKEN = {
    Sound: set(),
    Panel: DRAWS | OTHER | EVERY | {"can_be_saved"},
    Silent: DRAWS,
    Lonely: ALL | LEAVES,
    Empty: DRAWS,
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
    Expecting: DRAWS | OTHER | WHAT_IT_CAN | LEAVES,
    Gathering: {"is_deterministic"},
    Titled: set(),
    Exchanged: {"draws_each_run_under_its_title"},
    Closed: set(),
    FirstAlone: EVERY,
    AllButTheLast: EVERY,
    MeanSideBySide: EVERY,
    EvaluatedAlone: WHAT_IT_CAN,
    Measured: set(),
    NeverRefusing: DRAWS,
    NamesOfTheFirst: DRAWS | OTHER | WHAT_IT_CAN | EVERY | LEAVES,
    Intervals: ALL | LEAVES | {"is_deterministic"},
    Gains: DRAWS | OTHER | EVERY | LEAVES,
    FewColors: DRAWS | OTHER | LEAVES,
    Text: set(),
    Rows: set(),
    Best: set(),
    OfFolders: TITLES,
    OfASet: OTHER,
    KeptByTitle: {"is_deterministic"},
    SettingWhenMade: LEAVES,
    Choosing: LEAVES,
    Dropping: LEAVES,
    Evaluating: LEAVES,
    Saliency: LEAVES,
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
