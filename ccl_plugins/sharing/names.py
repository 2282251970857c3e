"""What a repository and a license are called on the Hugging Face Hub; no network is used."""

from __future__ import annotations

import re

HUB_LICENSES = "https://huggingface.co/docs/hub/repositories-licenses"


def check_license(license: str) -> str:
    """The identifier of a license, if it has the form of one.

    Raises:
        ValueError: If it has not.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", license):
        raise ValueError(
            f"a license is named by its identifier on the Hub, as 'mit' or 'cc-by-nc-4.0', not {license!r}:"
            f" {HUB_LICENSES} lists them"
        )
    return license


def check_repository(repository: str) -> str:
    """The name of a repository, if the Hub takes it.

    Raises:
        ValueError: If it does not.
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repository)
    except HFValidationError as error:
        raise ValueError(f"a repository is named as 'me/model': {error}") from error
    if "/" not in repository:
        raise ValueError(f"a repository is named as 'me/model', not {repository!r}")
    return repository
