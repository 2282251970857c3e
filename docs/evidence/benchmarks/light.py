"""Measures imports, commands, dependencies and the way to a first result; writes ``light.md``.

Imports and commands are processes of their own, in turns; their time is that of the processor, and a row
has the median, also as a share of ``import torch``.  Sizes are those of the files that the installed
packages list.  ``--install`` measures what a new user waits for, in a new environment, which takes minutes;
without it the rows measured before stay, if there are any.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pages import parser, publish

ROOT = Path(__file__).parents[3]
PEERS = ["torch", "torchvision", "lightly", "timm"]
"""What somebody who trains with lightly and timm has installed anyway."""

WHY = {
    "filelock": "Two processes never write to one run, on any file system.",
    "fonttools": "What a font's file states, which matplotlib reads by it too.",
    "huggingface-hub": "Says why pretrained weights cannot be had: offline, gated, no such model.",
    "jinja2": "The report is a template in which everything is escaped.",
    "lightly": "Heads, momentum encoders, LARS, transforms and fifteen losses, on which ours stand.",
    "markupsafe": "Marks the report's own style and script, which alone are not escaped.",
    "matplotlib": "Figures and the pictures of a report.",
    "numpy": "Tables, files and random numbers of views.",
    "packaging": "The versions that plug-ins require are compared with those installed.",
    "pillow": "Reads images.",
    "pluggy": "Hooks of plug-ins: who is called, with which arguments, and who is blocked.",
    "pytorch-lightning": "Several devices, precision, checkpoints and callbacks.",
    "safetensors": "Tables and weights in files that cannot run code.",
    "scikit-learn": "Clusters, the linear probe and the digits of every example without a download.",
    "scipy": "Nearest neighbors in a tree, assignments, t-tests.",
    "tensorboard": "The logs that a run writes if no logger is named, and reads back for reports.",
    "timm": "Every ResNet and ViT, and their pretrained weights.",
    "torch": "Tensors, gradients and devices.",
    "torchvision": "Data sets and image operations.",
    "tqdm": "The progress of what takes long outside training.",
}
"""Why each dependency is needed."""

ONE_STEP = """
import tempfile
import ccl_plugins as ccl
pipeline = ccl.Pipeline(
    dataset="color_digits",
    transform={"use": "simclr", "size": 32},
    backbone="lenet5",
    objective="infonce",
    fit={"max_steps": 1, "batch_size": 64},
    evaluate=[],
    monitor="off",
    loggers=[],
)
with tempfile.TemporaryDirectory() as folder:
    pipeline.fit(out=folder + "/run", progress=False)
"""
STARTED = {
    "an empty Python": ["-c", "pass"],
    "`import ccl_plugins`": ["-c", "import ccl_plugins"],
    "`ccl --help`": ["-m", "ccl_plugins", "--help"],
    "`ccl list`": ["-m", "ccl_plugins", "list"],
    "`ccl info objective supcon`": ["-m", "ccl_plugins", "info", "objective", "supcon"],
    "`import torch`": ["-c", "import torch"],
    "`from ccl_plugins.kernels import RBF`": ["-c", "from ccl_plugins.kernels import RBF"],
    "`from ccl_plugins.objectives import FairCCLK`": [
        "-c",
        "from ccl_plugins.objectives import FairCCLK",
    ],
    "`from lightly.loss import NTXentLoss`": ["-c", "from lightly.loss import NTXentLoss"],
    "`import lightly`": ["-c", "import lightly"],
    "`import pytorch_lightning`": ["-c", "import pytorch_lightning"],
    "`import pytorch_lightning, torchvision, timm`": [
        "-c",
        "import pytorch_lightning, torchvision, timm",
    ],
    "a training of one step, without measurements": ["-c", ONE_STEP],
}
WITHOUT_TORCH = ("`import ccl_plugins`", "`ccl --help`", "`ccl list`")
"""What starts without an import of torch."""


def processor_time(command: Sequence[str], **options: Any) -> float:
    """Seconds of the processor that a command takes, with all its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def needed(names: Iterable[str]) -> set[str]:
    """Packages and all that these need, directly or not, by canonical name; without extras of ours."""
    found, open_ = set(), [(canonicalize_name(name), "") for name in names]
    seen = set(open_)
    while open_:
        name, extra = open_.pop()
        found.add(name)
        for text in metadata.distribution(name).requires or ():
            requirement = Requirement(text)
            if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
                continue
            for each in ("", *requirement.extras):
                item = (canonicalize_name(requirement.name), each)
                if item not in seen:
                    seen.add(item)
                    open_.append(item)
    return found


def size(name: str) -> int:
    """Bytes of the files of an installed package, compiled modules left out."""
    files = metadata.distribution(name).files or ()
    paths = [Path(file.locate()) for file in files if file.suffix != ".pyc"]
    return sum(path.stat().st_size for path in paths if path.is_file())


def own_size() -> int:
    """Bytes of our own packages; an editable installation lists none of them."""
    folders = [ROOT / "ccl_plugins", ROOT / "registry"]
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files if file.suffix != ".pyc")


def first_result() -> dict[str, float]:
    """Seconds from nothing to results, in a new environment, step by step."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        work, python = Path(folder, "ccl-plugins"), Path(folder, "env", "bin", "python")
        clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        page = (ROOT / "README.md").read_text("utf-8")
        first = page.split("```python\n")[1].split("```")[0] + "print(loss)"
        steps = {
            "clone": ["git", "clone", "--quiet", str(ROOT), str(work)],
            "environment": [sys.executable, "-m", "venv", str(python.parents[1])],
            "install": [str(python), "-m", "pip", "install", "--quiet", str(work)],
            "loss": [str(python), "-c", first],
            "train": [
                str(python),
                "-m",
                "ccl_plugins",
                "train",
                "examples/grating_digits_fair.toml",
            ],
        }
        for step, command in steps.items():
            cwd = work if step == "train" else folder
            found[step] = processor_time(command, cwd=cwd, env=clean)
        shutil.rmtree(python.parents[1])
    return found


def main() -> None:
    """Measure and write the page."""
    command = parser(__doc__, "one turn")
    command.add_argument("--turns", type=int, default=7)
    command.add_argument("--install", action="store_true", help="a new environment too")
    options = command.parse_args()
    times: dict[str, list[float]] = {name: [] for name in STARTED}
    with tempfile.TemporaryDirectory() as elsewhere:
        for _ in range(1 if options.quick else options.turns):
            for name, arguments in STARTED.items():
                times[name].append(processor_time([sys.executable, *arguments], cwd=elsewhere))
    seconds = {name: statistics.median(each) for name, each in times.items()}
    kept = options.out / "light.json"
    if options.install:
        steps = first_result()
        if not options.quick:
            kept.write_text(json.dumps(steps, indent=1) + "\n")
    else:
        steps = json.loads(kept.read_text()) if kept.exists() else {}
    publish(page(seconds, steps), "light.md", options)


def page(seconds: dict[str, float], steps: dict[str, float]) -> str:
    """The page.

    Args:
        seconds: Of imports and commands.
        steps: Of the way to a first result.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    direct = [canonicalize_name(Requirement(text).name) for text in project["dependencies"]]
    tools = {"benchmarks", "dev", "docs", "release"}
    extras = [name for name in project["optional-dependencies"] if name not in tools]
    everything, peers = needed(direct), needed(PEERS)
    beside = everything - peers
    total = sum(map(size, everything))
    rows = []
    for name in direct:
        alone = needed([name]) - needed([*PEERS, *(each for each in direct if each != name)])
        rows.append(
            f"| `{name}` | {WHY[name]} | {'yes' if name in peers else 'no'} |"
            + (f" {len(alone)} | {mib(sum(map(size, alone)))} |" if alone else "  |  |")
        )
    reference = seconds["`import torch`"]
    return "\n".join(
        [
            "# What it costs to install and to import",
            "",
            "**`import ccl_plugins`, `ccl --help` and `ccl list` take at most"
            f" {max(seconds[name] for name in WITHOUT_TORCH) / reference:.2f} of the time of"
            " `import torch`: they do not import it.**",
            f"To the packages that torch, torchvision, lightly and timm need, the library adds"
            f" {len(beside)}, of {mib(sum(map(size, beside)))}.",
            "",
            "## Imports and commands",
            "",
            "| | seconds | beside `import torch` |",
            "|---|---|---|",
            *(
                f"| {name} | {value:.2f} | {value / reference:.2f} |"
                for name, value in seconds.items()
            ),
            "",
            "Processor time of a new process, the median of several, which take turns; torch"
            f" {torch.__version__},",
            f"Python {sys.version_info.major}.{sys.version_info.minor}. A test checks that"
            " `import ccl_plugins`, `ccl --help` and `ccl list` import no torch.",
            "Written by `python docs/evidence/benchmarks/light.py`.",
            "",
            *_first(steps, total),
            "## Size and dependencies",
            "",
            f"The two packages have {mib(own_size())}. With all that they need, directly or not, there are",
            f"{len(everything)} packages of {mib(total)}. torch, torchvision, lightly and timm need"
            f" {len(peers)} of these, of {mib(sum(map(size, peers)))}.",
            "",
            "| dependency | what for | peers need it | alone | size |",
            "|---|---|---|---|---|",
            *rows,
            "",
            "*Peers* are torch, torchvision, lightly and timm. *Alone* counts the packages that no other"
            " dependency needs, with their size.",
            "",
            f"What one feature needs is an extra: {', '.join(f'`{name}`' for name in extras)}.",
            "",
            "## Without a GPU",
            "",
            "On Linux, `pip` installs torch with its libraries for GPUs. Where there is no GPU, install the"
            " builds for CPUs first, both from",
            "torch's own index:",
            "",
            "```sh",
            "pip install torch torchvision --index-url https://download.pytorch.org/whl/cpu",
            "pip install .",
            "```",
            "",
            "Both come from that index: beside a build for CPUs, the torchvision of PyPI does not load"
            " (`operator",
            "torchvision::nms does not exist`). An environment with torch 2.13.0+cpu has 1.1 GiB instead of"
            " 5.5, and the first",
            "example of the README runs in it. A training was not tried so, because that index could not be"
            " reached.",
            "",
        ]
    )


def _first(steps: dict[str, float], total: int) -> list[str]:
    """The section about the way to a first result; nothing where it was not measured."""
    if not steps:
        return []
    return [
        "## From a clone to a first result",
        "",
        "| step | seconds of the processor |",
        "|---|---|",
        f"| `git clone`, from a disk | {steps['clone']:.1f} |",
        f"| `python -m venv` | {steps['environment']:.0f} |",
        f"| `pip install .` | {steps['install']:.0f} |",
        f"| the first example of the README: a loss | {steps['loss']:.1f} |",
        f"| `ccl train examples/grating_digits_fair.toml`: 60 epochs, probes | {steps['train']:.0f} |",
        "",
        "Processor time, all cores added. To it comes the download, if pip has not kept the packages:"
        " they unpack to",
        f"{total / 2**30:.1f} GiB, nearly all of it torch with its libraries for GPUs;"
        " [without a GPU](#without-a-gpu) it is a fifth.",
        "",
    ]


def mib(size: float) -> str:
    """A size in MiB."""
    return f"{size / 2**20:,.1f} MiB"


if __name__ == "__main__":
    main()
