"""``ccl export``: a run's backbone for other libraries."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ccl_plugins.cli.commands import command, reporting_mistakes

if TYPE_CHECKING:
    from ccl_plugins.cli.commands import Commands


def add(commands: Commands) -> None:
    """Add the sub-command."""
    parser = command(
        commands,
        "export",
        "Write a run's backbone as safetensors that timm.create_model loads.",
        "ccl export runs/cacr_large --format timm --out exported",
    )
    parser.add_argument("run_folder", metavar="RUN", help="a folder that `ccl train` wrote")
    parser.add_argument("--format", default="timm", help="timm, the only format")
    parser.add_argument("--out", metavar="DIR", help="the folder to write (RUN/timm)")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from ccl_plugins.runs.export import export
    from ccl_plugins.runs.pipeline import load

    with reporting_mistakes():
        folder = export(load(options.run_folder), options.out, format=options.format)
    print(f'{folder}: timm.create_model("local-dir:{folder}", pretrained=True)')
    return 0
