"""Runs of two towers: prompts, retrieval, figures and reports on what they learned."""

from __future__ import annotations

import pytest
from support.captions import pipeline

from ccl_plugins.figures import Anchor
from ccl_plugins.figures.anchor import weights
from ccl_plugins.report.page import write_report

PROMPTS = {"use": "zero_shot", "prompts": "a {}", "names": ["red", "green", "blue"]}


FIT = {"batch_size": 8, "workers": 0, "optimizer": {"use": "adamw", "lr": 1e-2}}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    retrieval = {"use": "cross_retrieval", "k": [1]}
    chosen = pipeline(evaluate=[PROMPTS, retrieval], fit={**FIT, "epochs": 10})
    return chosen.fit(out=tmp_path_factory.mktemp("runs") / "run", progress=False)


def test_towers_learn_to_name_the_color_and_to_find_the_caption(run):
    found = run.evaluate()
    assert found["zero_shot/top1"] > 0.9
    assert found["cross_retrieval/image_to_text_recall_at_1"] > 0.9
    assert found["cross_retrieval/text_to_image_median_rank"] == 1
    assert found.keys() == run.before.keys()


def test_a_run_is_measured_by_other_prompts_and_on_a_validation_part(run):
    prompts = {"red": "a red square", "green": ["a green square"], "blue": ["a blue one", "blue"]}
    assert run.measure({**PROMPTS, "prompts": prompts})["zero_shot/top1"].value > 0.9
    held_out = run.measure({**PROMPTS, "prompts": "a {}"}, validate=True)
    assert held_out["zero_shot/top1"].value >= 0


def test_the_caption_is_drawn_beside_the_anchor(run):
    found = weights(run)
    caption = run.splits[0].texts["caption"][found.index]
    assert found.views[1] == caption
    drawn = Anchor()({"run": run})
    texts = [text.get_text() for part in drawn.subfigs for ax in part.axes for text in ax.texts]
    assert caption in [text.replace("\n", " ") for text in texts]


def test_a_report_says_what_prompts_and_retrieval_mean(run, tmp_path):
    run.evaluate()
    write_report([run], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "zero_shot/top1" in page
    assert "whose own caption is among the 1 most similar" in page
