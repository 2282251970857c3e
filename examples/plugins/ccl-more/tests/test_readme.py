"""The README's code runs, its list is whole, and its links work on PyPI."""

import re
from importlib.metadata import entry_points
from pathlib import Path

import ccl_plugins as ccl
import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_the_code_of_the_readme_runs():
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), {"__name__": "__main__"})  # noqa: S102  a page of ours


@pytest.mark.parametrize("part", [0, 1], ids=["hierarchy", "fair"])
def test_the_pipelines_of_the_readme_train(part, tmp_path):
    text = blocks("toml")[part]
    if part:  # it shows what differs from the first
        text = blocks("toml")[0].split("condition =")[0] + text
    (tmp_path / "it.toml").write_text(text, encoding="utf-8")
    record = ccl.Pipeline.from_toml(tmp_path / "it.toml").to_dict()
    record["dataset"] |= {"test_fraction": 0.8}
    pipeline = ccl.Pipeline.from_dict(record | {"monitor": "off", "loggers": []})
    short = {"epochs": 1, "batch_size": 64, "max_steps": 2, "workers": 0}
    pipeline.fit(**short, out=tmp_path / "run", progress=False)


def test_every_objective_has_its_row_in_order():
    names = sorted(
        point.name
        for point in entry_points(group="ccl_plugins.objective")
        if point.value.startswith("ccl_more.")
    )
    assert re.findall(r"^\| `(\w+)` \|", README, re.MULTILINE) == names
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in changes for name in names)


def test_no_link_leads_into_this_repository():
    assert re.findall(r"\]\((?!https://)", README) == []
