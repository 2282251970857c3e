"""``ccl embed``: a run's features for programs that show embeddings."""

from __future__ import annotations

import argparse

from ccl_plugins.commands.base import add_run, reporting_mistakes
from ccl_plugins.commands.evaluate import opened


class Embed:
    """Write a run's features as Parquet, with coordinates, neighbors and all columns of the samples.

    Embedding Atlas, FiftyOne and Spotlight read the file.
    """

    example = "ccl embed runs/color_digits_fair fair.parquet"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_run(parser)
        parser.add_argument(
            "file", metavar="FILE.parquet", help="the file to write; one that is there is replaced"
        )
        parser.add_argument(
            "--split", default="both", help="train, test or both (default: %(default)s)"
        )
        parser.add_argument(
            "--method",
            help="of the coordinates: pca, tsne or umap (default: tsne up to 10,000 samples, else pca)",
        )
        parser.add_argument(
            "--neighbors",
            type=int,
            default=15,
            metavar="K",
            help="nearest neighbors of each sample, 0 for none (default: %(default)s)",
        )

    def run(self, arguments: argparse.Namespace) -> int:
        from ccl_plugins.explore.viewer_file import embed

        run = opened(arguments.run_folder)
        given = {
            "split": arguments.split,
            "method": arguments.method,
            "neighbors": arguments.neighbors,
        }
        with reporting_mistakes():
            file = embed(run, arguments.file, **given)
        words = "--x projection_x --y projection_y"
        if arguments.neighbors:
            words += " --neighbors neighbors"
        print(f"{file}: embedding-atlas {file} {words}")
        return 0
