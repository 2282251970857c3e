"""The Hugging Face Hub: names of repositories and licenses, and the upload of a folder."""

from __future__ import annotations

import re
from pathlib import Path

from ccl_plugins.sharing.card import FILES
from ccl_registry.errors import Mistake

HUB_LICENSES = "https://huggingface.co/docs/hub/repositories-licenses"


def check_license(license: str) -> str:
    """The identifier of a license, after a check of its form.

    Raises:
        ValueError: For another form.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", license):
        raise ValueError(
            f"a license is named by its identifier on the Hub, such as 'mit' or 'cc-by-nc-4.0', not"
            f" {license!r}: {HUB_LICENSES} lists them"
        )
    return license


def check_repository(repository: str) -> str:
    """The name of a repository, after a check that the Hub accepts it.

    Raises:
        ValueError: If the Hub does not.
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repository)
    except HFValidationError as error:
        raise ValueError(f"a repository is named like 'me/model': {error}") from error
    if "/" not in repository:
        raise ValueError(f"a repository is named like 'me/model', not {repository!r}")
    return repository


class NotUploaded(OSError, Mistake):
    """An upload that was not done; the message says why."""


def require_login() -> None:
    """Refuse an upload that cannot work, before anything is computed; no network is used.

    Raises:
        NotUploaded: If there is no token.
    """
    from huggingface_hub import get_token

    if get_token() is None:
        raise NotUploaded(
            "you are not logged in to the Hugging Face Hub: run hf auth login, or set HF_TOKEN"
        )


def upload(folder: Path, repository: str, *, private: bool = False) -> str:
    """Upload a folder of `write_folder` as a model of the Hub, in one commit.

    It replaces an earlier upload; other files of the repository stay.

    Args:
        folder: The folder.
        repository: A name such as ``"me/model"``; the repository is created if it does not exist.
        private: Whether a new repository is private. An existing public repository is refused.

    Returns:
        The address of the repository.

    Raises:
        NotUploaded: If the Hub cannot be reached or refuses the upload, or if the repository is
            public although ``private`` is set.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HTTPError

    api = HfApi(library_name="ccl-plugins")
    try:
        address = api.create_repo(repository, private=private, exist_ok=True)
        if private and not api.model_info(repository).private:
            raise NotUploaded(
                f"{repository} already exists and is public: make it private on the Hub, name "
                "another, or leave --private out"
            )
        api.upload_folder(
            repo_id=repository,
            folder_path=folder,
            commit_message="Upload a backbone trained with ccl-plugins",
            delete_patterns=list(FILES),
        )
    except NotUploaded:
        raise
    except (OSError, HTTPError) as error:
        raise NotUploaded(
            f"{repository} was not uploaded: {' '.join(str(error).split()) or type(error).__name__}"
        ) from error
    return str(address)
