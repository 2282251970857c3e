"""The page that ``docs/evidence/benchmarks/gpu.py`` writes from its rows."""

from __future__ import annotations

from typing import Any

GOAL = 0.05
"""The largest share of a training step that an objective should take."""

HEAD = """# On a GPU

What `python docs/evidence/benchmarks/gpu.py` checks and measures on a machine with a GPU, from the rows in
`gpu.json` beside this page.
"""
FOUND = """
**No step waits for the GPU, and a killed run resumes.** Values, gradients and weights were equal to the
CPU's, and SimCLR on CIFAR-10 stayed at chance: torch 2.11, on that machine, differentiates `ldexp`
wrongly, on the CPU as well. The loss has no such gradient now, each gradient is compared with
differences of its loss (`slope`), and the rows that had compared two wrong gradients were deleted.
"""
NOTHING = """
**Nothing was measured on a GPU so far.** A test runs the code of all parts on a CPU at tiny sizes: it
shows that the script works, and nothing about a GPU.
"""
HOW = """
## How to measure

`python docs/evidence/benchmarks/gpu.py` measures what is worth most first, and begins no row after 12
minutes
(`--total`); `--help` lists the parts. Rows are stored one by one, and a second call goes on where the
first one stopped. The sizes are for 80 GB; a row that is out of memory says so. Inductor needs a C
compiler.

**A machine without network** that has torch, torchvision, Lightning, timm and scikit-learn lacks
lightly and the entry points of this library.
`bash docs/evidence/benchmarks/gpu_carry.sh [IMAGES.zip]`, where
there is a network, puts both into `.whl/` (1.2 MB; CIFAR-10 as images in `cifar10/{train,test}/CLASS/`,
19 MB more). Carry it over with the repository. There, with `OUT` a folder for the results:

```
python3 -m pip install -q --no-index --no-deps --target .whl/site .whl/*.whl
export PYTHONPATH=$PWD:$PWD/registry:$PWD/.whl/site HF_HUB_OFFLINE=1
cp -n docs/evidence/benchmarks/gpu.json $OUT/
timeout -s KILL 780 python3 docs/evidence/benchmarks/gpu.py --out $OUT/gpu.json
```

KILL, since `fit` ends a run early at INT and TERM. `gpu.json` is all that has to come back; `python
docs/evidence/benchmarks/gpu.py --page` writes this page from it. For 20 epochs of SimCLR on CIFAR-10:

```
tar xJf .whl/cifar10.tar.xz -C .whl
python3 -m ccl_plugins train docs/evidence/benchmarks/gpu_cifar.toml --out $OUT/cifar
```

[Experiments for a GPU](../reproduction/on_a_gpu.md) ask what the methods bring at a larger size.
"""
PARTS = {
    "objectives": (
        "Objectives against the CPU",
        "Largest differences of loss and gradient on the same batch, in float32, and of embeddings in bf16"
        " under autocast to the same numbers in float32. They are relative to the largest expected number,"
        " those of a loss below 1 to 1. The slope is the gradient along one direction against a difference"
        " of the loss there, in float64.",
    ),
    "methods": (
        "Methods against the CPU",
        "Largest relative differences of losses and weights in three steps of training in float32, and of"
        " the first loss with networks in bf16.",
    ),
    "waits": (
        "No wait in a step",
        "After the first steps, a whole step runs under"
        ' `torch.cuda.set_sync_debug_mode("error")`, where a wait for the GPU raises.',
    ),
    "share": (
        "Objectives as a share of a step",
        "The time of an objective's forward and backward pass in float32, called on embeddings as in a loop"
        " of one's own, as a share of itself and the forward and backward pass of the networks, in bf16,"
        " channels last and without optimizer; its peak memory; and its time as a multiple of that"
        " of lightly's `NTXentLoss` on the same embeddings (over a queue, of its cross-entropy). The"
        " networks' time is measured once and taken as proportional to b. Over a queue they are those of"
        " MoCo v2, else of SimCLR. At small b the time is that of launches, which [are"
        " counted](operations.md).",
    ),
    "whole": (
        "The whole against lightly's example",
        "Images/s of `fit` and of lightly's example by hand in Lightning, in wall-clock time, with the same"
        " network, optimizer, precision (bf16) and workers, in turns. With images as they are, no view is"
        " drawn.",
    ),
    "memory": (
        "A batch in pieces",
        "The forward and backward pass of a ViT in float32 with `micro_batch`: the largest difference of"
        " the gradient to that of the batch embedded whole, relative to the largest number in it, peak"
        " memory, and images/s.",
    ),
    "resume": (
        "Killed and resumed",
        "A run with a queue and a kernel is killed by SIGKILL and resumed from its last checkpoint: the"
        " largest difference of its weights to those of an unbroken run, relative to the largest weight.",
    ),
    "adapt": (
        "A step of DINO with a ViT-B",
        "Forward and backward pass in bf16, AdamW and the teacher's step, on two large and six small views"
        " of b images of five channels: images/s and peak memory, beside [what is counted](vit_step.md).",
    ),
    "compiled": (
        "Compiled by inductor",
        "Largest relative differences, compiled on the GPU against the CPU without compiling.",
    ),
}


def page(rows: list[dict[str, Any]]) -> str:
    """The page; rows of a CPU check the script alone and are left out."""
    measured = [row for row in rows if row["device"] != "cpu"]
    lines = [HEAD, FOUND] if measured else [HEAD, NOTHING]
    for device, torch in dict.fromkeys((row["device"], row["torch"]) for row in measured):
        here = [row for row in measured if (row["device"], row["torch"]) == (device, torch)]
        states = [row["state"] for row in here]
        lines.append(
            f"\nMeasured on one {device} with torch {torch}: {len(here)} rows, of which"
            f" {states.count('failed')} failed and {states.count('skipped')} were skipped.\n"
        )
        for part, (title, about) in PARTS.items():
            its = [row for row in here if row["part"] == part]
            shown = (shares if part == "share" else table)(its)
            missing = f"Not measured yet: `python docs/evidence/benchmarks/gpu.py {part}`.\n"
            lines.append(f"\n## {title}\n\n{about}\n\n{shown if its else missing}")
    return "".join([*lines, HOW])


def table(rows: list[dict[str, Any]]) -> str:
    """A line for each row, with all its numbers; of rows without any, their names."""
    about = {"part", "name", "device", "torch", "state", "error"}
    columns = list(dict.fromkeys(key for row in rows for key in row if key not in about))
    if not columns:
        states: dict[str, list[str]] = {}
        for row in rows:
            states.setdefault(state(row), []).append(row["name"])
        return "\n".join(f"- {each}: {', '.join(found)}" for each, found in states.items()) + "\n"
    names = (each.replace("_", " ").replace("bytes", "peak memory") for each in columns)
    lines = [line("", *names, ""), "|---" * (len(columns) + 2) + "|"]
    for row in rows:
        cells = (number(column, row.get(column)) for column in columns)
        lines.append(line(row["name"], *cells, state(row)))
    return "\n".join(lines) + "\n"


def line(*cells: str) -> str:
    """A line of a table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def state(row: dict[str, Any]) -> str:
    """How a row ended."""
    return f"{row['state']}: {row['error']}" if "error" in row else str(row["state"])


def number(column: str, value: Any) -> str:
    """A number as its column's name says."""
    if value is None:
        return ""
    if column == "bytes":
        return f"{value / 2**30:.2f} GiB"
    if column == "b":
        return str(value)
    if column.endswith("per_second"):
        return f"{value:.0f}"
    return f"{value:.3f}" if column == "ratio" else f"{value:.1e}"


def shares(rows: list[dict[str, Any]]) -> str:
    """The networks' steps, and each objective's share of them; in bold above the goal."""
    networks = {row["name"]: row for row in rows if "seconds" in row}
    objectives = [row for row in rows if "objective_seconds" in row]
    lines = [line("networks", "b", "time", "peak memory"), "|---" * 4 + "|"]
    for name, row in networks.items():
        time, memory = f"{1000 * row['seconds']:.0f} ms", number("bytes", row["bytes"])
        lines.append(line(name, str(row["b"]), time, memory))
    for queue in dict.fromkeys(row["q"] for row in objectives):
        its = [row for row in objectives if row["q"] == queue]
        method = "moco_v2 " if queue else "simclr "
        beside = {n.removeprefix(method): r for n, r in networks.items() if n.startswith(method)}
        above = [row for row in its if any(share(row, each) > GOAL for each in beside.values())]
        sizes = sorted({row["b"] for row in its})
        lines += [
            f"\n{f'Over a queue of {queue:,}' if queue else 'In a batch'}: the shares of a step of"
            f" {' / '.join(beside)} / the peak memory / the time as a multiple of `NTXentLoss`. Of"
            f" {len(its)} measurements {len(above)} have a share above the goal of {GOAL:.0%}, in bold.\n",
            line("objective", *(f"b = {b}" for b in sizes)),
            "|---" * (len(sizes) + 1) + "|",
        ]
        for label in dict.fromkeys(row["label"] for row in its):
            found = {row["b"]: row for row in its if row["label"] == label}
            cells = (cell(found[b], [*beside.values()]) if b in found else "" for b in sizes)
            lines.append(line(label, *cells))
    failed = (f"\n{row['name']}: {state(row)}." for row in rows if row["state"] != "ok")
    return "\n".join([*lines, *failed]) + "\n"


def share(row: dict[str, Any], networks: dict[str, Any]) -> float:
    """An objective's share of a step."""
    own: float = row["objective_seconds"]
    return own / (own + networks["seconds"] * row["b"] / networks["b"])


def cell(row: dict[str, Any], beside: list[dict[str, Any]]) -> str:
    """Shares of a step of each network, peak memory, and the time as a multiple of lightly's loss."""
    found = [share(row, networks) for networks in beside]
    marked = [f"**{each:.1%}**" if each > GOAL else f"{each:.1%}" for each in found]
    slower = f"{row['objective_seconds'] / row['reference_seconds']:.1f} x"
    return " / ".join([*marked, number("bytes", row["objective_bytes"]), slower])
