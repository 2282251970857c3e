"""``ccl embed``: a run's features for programs that show embeddings."""

from __future__ import annotations

import argparse

from ccl_plugins.cli.commands import Command, argument, reporting_mistakes
from ccl_plugins.cli.evaluate import opened


def _run(options: argparse.Namespace) -> int:
    """Write a run's features as Parquet, with coordinates, neighbors and all that is known of the samples.

    Embedding Atlas, FiftyOne and Spotlight read the file.
    """
    from ccl_plugins.experiments.embed import embed

    run = opened(options.run_folder)
    given = {"split": options.split, "method": options.method, "neighbors": options.neighbors}
    with reporting_mistakes():
        file = embed(run, options.file, **given)
    words = "--x projection_x --y projection_y"
    if options.neighbors:
        words += " --neighbors neighbors"
    print(f"{file}: embedding-atlas {file} {words}")
    return 0


COMMAND = Command(
    _run,
    "ccl embed runs/color_digits_fair fair.parquet",
    argument("run_folder", metavar="RUN", help="a folder that `ccl train` wrote"),
    argument(
        "file", metavar="FILE.parquet", help="the file to write; one that is there is replaced"
    ),
    argument("--split", default="both", help="train, test or both (default: %(default)s)"),
    argument(
        "--method",
        help="of the coordinates: pca, tsne or umap (default: tsne for at most 10,000 samples, else pca)",
    ),
    argument(
        "--neighbors",
        type=int,
        default=15,
        metavar="K",
        help="nearest neighbors of each sample, 0 for none (default: %(default)s)",
    ),
)
