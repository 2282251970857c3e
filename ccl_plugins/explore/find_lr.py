"""``ccl find-lr``: a learning rate for a pipeline, from a short training."""

from __future__ import annotations

import argparse
import math

from ccl_plugins.commands.base import add_json, add_set, reporting_mistakes, show
from ccl_plugins.commands.tables import TextTable


class FindLR:
    """Suggest a learning rate, from a short training in which it rises; nothing is kept."""

    example = "ccl find-lr examples/color_digits_fair.toml --plot rates.png"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE.toml", help="a configuration file")
        parser.add_argument(
            "--least", type=float, default=1e-6, help="the first rate (default: %(default)s)"
        )
        parser.add_argument(
            "--most", type=float, default=10.0, help="the last rate (default: %(default)s)"
        )
        parser.add_argument(
            "--steps", type=int, default=100, help="optimizer steps (default: %(default)s)"
        )
        add_set(parser, "file", "fit.batch_size=512")
        parser.add_argument("--plot", metavar="FILE.png", help="draw the losses into this file")
        parser.add_argument("--quiet", action="store_true", help="no progress bar")
        add_json(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        show(arguments, lambda: _table(arguments))
        return 0


def _table(options: argparse.Namespace) -> TextTable:
    from ccl_plugins.experiments.configuration import parse
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
