"""The sub-command ``ccl export``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ccl_plugins.cli.commands import command, understood

if TYPE_CHECKING:
    from ccl_plugins.cli.commands import Commands


def add(commands: Commands) -> None:
    """Add it to the others."""
    parser = command(
        commands,
        "export",
        "Write a run's backbone as safetensors that timm.create_model loads.",
        "ccl export runs/cacr_large --format timm --out exported",
    )
    parser.add_argument("run_folder", metavar="RUN", help="a folder that `ccl train` left")
    parser.add_argument("--format", default="timm", help="timm, the only one there is")
    parser.add_argument("--out", metavar="DIR", help="where to (RUN/timm)")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from ccl_plugins.runs.export import export
    from ccl_plugins.runs.run import Run

    run = understood(Run, options.run_folder)
    folder = understood(export, run, options.out, format=options.format)
    print(f'{folder}: timm.create_model("local-dir:{folder}", pretrained=True)')
    return 0
