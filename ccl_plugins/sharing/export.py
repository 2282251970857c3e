"""``ccl export``: a run's backbone for other libraries."""

from __future__ import annotations

import argparse

from ccl_plugins.commands.base import add_run, reporting_mistakes
from ccl_plugins.commands.evaluate import opened


class Export:
    """Write a run's backbone for timm, or for PyTorch alone, without this library."""

    example = "ccl export runs/cacr_large --out exported"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_run(parser)
        parser.add_argument(
            "--format", help="timm or torch (default: timm for a model that timm has, else torch)"
        )
        parser.add_argument(
            "--out", metavar="DIR", help="the folder to write (default: RUN/timm or RUN/torch)"
        )

    def run(self, arguments: argparse.Namespace) -> int:
        from ccl_plugins.experiments.export import PROGRAM

        run = opened(arguments.run_folder)
        with reporting_mistakes():
            folder = run.export(arguments.out, format=arguments.format)
        if (folder / PROGRAM).exists():
            print(f'{folder}: torch.export.load("{folder / PROGRAM}").module()')
        else:
            print(f'{folder}: timm.create_model("local-dir:{folder}", pretrained=True).eval()')
        return 0
