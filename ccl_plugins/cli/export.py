"""``ccl export``: a run's backbone for other libraries."""

from __future__ import annotations

import argparse

from ccl_plugins.cli.commands import Command, argument, reporting_mistakes


def _run(options: argparse.Namespace) -> int:
    """Write a run's backbone as safetensors that timm.create_model loads."""
    from ccl_plugins.runs.export import export
    from ccl_plugins.runs.pipeline import load

    with reporting_mistakes():
        folder = export(load(options.run_folder), options.out, format=options.format)
    print(f'{folder}: timm.create_model("local-dir:{folder}", pretrained=True)')
    return 0


COMMAND = Command(
    _run,
    "ccl export runs/cacr_large --format timm --out exported",
    argument("run_folder", metavar="RUN", help="a folder that `ccl train` wrote"),
    argument("--format", default="timm", help="timm, the only format"),
    argument("--out", metavar="DIR", help="the folder to write (default: RUN/timm)"),
)
