"""``ccl export``: a run's backbone for other libraries."""

from __future__ import annotations

import argparse

from ccl_plugins.cli.commands import Command, argument, reporting_mistakes
from ccl_plugins.cli.evaluate import opened


def _run(options: argparse.Namespace) -> int:
    """Write a run's backbone for timm, or for PyTorch alone, without this library."""
    from ccl_plugins.experiments.layout import PROGRAM

    run = opened(options.run_folder)
    with reporting_mistakes():
        folder = run.export(options.out, format=options.format)
    if (folder / PROGRAM).exists():
        print(f'{folder}: torch.export.load("{folder / PROGRAM}").module()')
    else:
        print(f'{folder}: timm.create_model("local-dir:{folder}", pretrained=True).eval()')
    return 0


COMMAND = Command(
    _run,
    "ccl export runs/cacr_large --out exported",
    argument("run_folder", metavar="RUN", help="a folder that `ccl train` wrote"),
    argument(
        "--format", help="timm or torch (default: timm for a model that timm has, else torch)"
    ),
    argument("--out", metavar="DIR", help="the folder to write (default: RUN/timm or RUN/torch)"),
)
