"""``ccl push``: what is uploaded, and what is refused before."""

from __future__ import annotations

from types import SimpleNamespace

import huggingface_hub
import pytest
from huggingface_hub.errors import HfHubHTTPError, HTTPError

from ccl_plugins.cli import main


class Hub:
    """The Hub, without a network."""

    def __init__(self):
        self.calls, self.private, self.error = [], False, None

    def __call__(self, **_):
        return self

    def create_repo(self, repository, *, private, exist_ok):
        if self.error:
            raise self.error
        self.calls.append(("create", repository, private, exist_ok))
        return f"https://huggingface.co/{repository}"

    def model_info(self, repository):
        return SimpleNamespace(private=self.private)

    def upload_folder(self, *, repo_id, folder_path, commit_message, delete_patterns):
        files = {file.name for file in folder_path.iterdir()}
        self.calls.append(("upload", repo_id, files))
        assert files <= {*delete_patterns}


@pytest.fixture
def hub(monkeypatch):
    found = Hub()
    monkeypatch.setattr(huggingface_hub, "HfApi", found)
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: "hf_secret")
    return found


def push(run, *words):
    return main(["push", str(run.path), *words])


@pytest.mark.parametrize("words", [("--license", "mit"), ("--licence", "mit")])
def test_it_creates_a_repository_and_uploads_the_folder(hub, timm_run, capsys, words):
    assert push(timm_run, "me/model", *words) == 0
    created, uploaded = hub.calls
    assert created == ("create", "me/model", False, True)
    assert {"model.safetensors", "config.json", "load.py", "README.md"} <= uploaded[2]
    assert "https://huggingface.co/me/model: uploaded" in capsys.readouterr().out


def test_a_dry_run_writes_the_folder_and_needs_no_hub(hub, timm_run, tmp_path, capsys):
    assert push(timm_run, "me/model", "--dry-run", str(tmp_path / "out")) == 0
    assert not hub.calls
    assert 'create_model("hf-hub:me/model"' in (tmp_path / "out" / "README.md").read_text()
    said = capsys.readouterr().out
    assert "shortened to their last part: dataset.path" in said
    assert "nothing was uploaded" in said
    assert push(timm_run, "--dry-run", str(tmp_path / "out")) == 2
    assert "is not empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["me/model"], "give the license of these weights, such as --license mit"),
        (["--license", "mit"], "name the repository, as in ccl push RUN me/model"),
        (["me/model", "--license", "MIT License"], "as 'mit' or 'cc-by-nc-4.0', not 'MIT License'"),
        (["me/model/x", "--license", "mit"], "a repository is named like 'me/model'"),
        (["model", "--license", "mit"], "a repository is named like 'me/model', not 'model'"),
        (['me/x"); import os #', "--dry-run", "out"], "a repository is named like 'me/model'"),
        (["me/x.git", "--dry-run", "out"], "a repository is named like 'me/model'"),
        (["me/x", "--license", "MIT License", "--dry-run", "out"], "not 'MIT License'"),
    ],
)
def test_a_mistake_in_the_call_is_said_before_anything_is_computed(hub, capsys, words, message):
    assert main(["push", "no-such-run", *words]) == 2
    assert message in capsys.readouterr().err
    assert not hub.calls


def test_without_a_login_nothing_is_computed(hub, monkeypatch, capsys):
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: None)
    assert main(["push", "no-such-run", "me/model", "--license", "mit"]) == 2
    assert "you are not logged in to the Hugging Face Hub: run hf auth login" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    "error",
    [
        HTTPError("Name or service not known"),
        ConnectionError("Name or service not known"),
        huggingface_hub.errors.OfflineModeIsEnabled("Name or service not known"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_hub_that_is_not_reached_is_one_line(hub, timm_run, capsys, error):
    assert not isinstance(error, HfHubHTTPError)
    hub.error = error
    assert push(timm_run, "me/model", "--license", "mit") == 2
    said = capsys.readouterr().err.splitlines()
    assert said == ["ccl: me/model was not uploaded: Name or service not known"]


def test_a_public_repository_takes_nothing_that_is_private(hub, timm_run, capsys):
    assert push(timm_run, "me/model", "--license", "mit", "--private") == 2
    assert "me/model already exists and is public" in capsys.readouterr().err
    assert [each[0] for each in hub.calls] == ["create"]
    hub.private = True
    assert push(timm_run, "me/model", "--license", "mit", "--private") == 0
    assert hub.calls[-1][0] == "upload"
