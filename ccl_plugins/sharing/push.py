"""``ccl push``: a run's backbone on the Hugging Face Hub."""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from ccl_plugins.commands.base import add_run, reporting_mistakes
from ccl_plugins.commands.evaluate import opened
from ccl_plugins.files.messages import printable
from ccl_registry import Mistake


class Push:
    """Share a finished run's backbone on the Hugging Face Hub.

    A repository has the weights, a loader that does not need this library, and a card, with the
    training data, the condition, and what the features hold of each column.
    """

    example = "ccl push runs/color_digits_fair me/fair-digits --license mit"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_run(parser)
        parser.add_argument(
            "repository", nargs="?", metavar="NAME", help="of the repository, such as me/model"
        )
        parser.add_argument(
            "--license",
            "--licence",
            metavar="ID",
            help="the license of the weights by its name on the Hub, such as mit; needed for an upload",
        )
        parser.add_argument("--private", action="store_true", help="create a private repository")
        parser.add_argument(
            "--dry-run", metavar="OUT", help="write the folder, new or empty, and upload nothing"
        )

    def run(self, arguments: argparse.Namespace) -> int:
        from ccl_plugins.sharing.folder import write_folder
        from ccl_plugins.sharing.hub import check_license, check_repository, require_login, upload

        repository, license = arguments.repository, arguments.license
        with reporting_mistakes():
            if license is not None:
                check_license(license)
            if repository is not None:
                check_repository(repository)
            if arguments.dry_run is None:
                _require_all(arguments)
                require_login()
        run = opened(arguments.run_folder)
        with TemporaryDirectory(prefix="ccl-push-") as temporary:
            folder = Path(arguments.dry_run or temporary).expanduser()
            with reporting_mistakes():
                notes = write_folder(run, folder, repository=repository, license=license)
            for note in notes:
                print(printable(note))
            if arguments.dry_run is not None:
                print(f"{folder}: read its README.md; nothing was uploaded")
                return 0
            address = upload(folder, repository, private=arguments.private)
        print(f"{address}: uploaded")
        return 0


def _require_all(options: argparse.Namespace) -> None:
    """Refuse an upload without a repository or a license."""
    if options.repository is None:
        raise Mistake("name the repository, as in ccl push RUN me/model, or give --dry-run OUT")
    if options.license is None:
        raise Mistake(
            "give the license of these weights, such as --license mit: without one nobody may use "
            "them"
        )
