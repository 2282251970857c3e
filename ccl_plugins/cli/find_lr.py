"""``ccl find-lr``: a learning rate for a pipeline, from a short training."""

from __future__ import annotations

import argparse
import math

from ccl_plugins.cli.commands import JSON, Command, argument, reporting_mistakes, show, values_set
from ccl_plugins.cli.tables import TextTable


def _run(options: argparse.Namespace) -> int:
    """Suggest a learning rate, from a short training in which it rises; nothing is kept."""
    show(options, lambda: _table(options))
    return 0


COMMAND = Command(
    _run,
    "ccl find-lr examples/color_digits_fair.toml --plot rates.png",
    argument("file", metavar="FILE.toml", help="a configuration file"),
    argument("--least", type=float, default=1e-6, help="the first rate (default: %(default)s)"),
    argument("--most", type=float, default=10.0, help="the last rate (default: %(default)s)"),
    argument("--steps", type=int, default=100, help="optimizer steps (default: %(default)s)"),
    values_set("file", "fit.batch_size=512"),
    argument("--plot", metavar="FILE.png", help="draw the losses into this file"),
    argument("--quiet", action="store_true", help="no progress bar"),
    JSON,
)


def _table(options: argparse.Namespace) -> TextTable:
    from ccl_plugins.experiments.overrides import parse
    from ccl_plugins.experiments.pipeline import Pipeline

    with reporting_mistakes(options.file):
        changes = [parse(text) for text in options.set]
        pipeline = Pipeline.from_toml(options.file, changes=changes)
        tried = pipeline.find_lr(
            options.least, options.most, options.steps, progress=not options.quiet
        )
        if options.plot:
            tried.plot(options.plot)
    suggestion = tried.suggestion
    rows = [
        {
            "lr": rate,
            "loss": loss if math.isfinite(loss) else None,
            "suggested": "*" if rate == suggestion else None,
        }
        for rate, loss in zip(tried.rates, tried.losses, strict=True)
    ]
    if not options.json:
        rows = [row for i, row in enumerate(rows) if i % 10 == 0 or row["suggested"]]
    if suggestion is None:
        return TextTable(rows, ["no suggestion: the loss does not fall between these rates"])
    return TextTable(rows, [f"--set fit.optimizer.lr={suggestion:.2g}"])
