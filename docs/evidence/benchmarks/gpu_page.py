"""The page that ``docs/evidence/benchmarks/gpu.py`` writes from its rows."""

from __future__ import annotations

from typing import Any

GOAL = 0.05
"""The largest share of a training step that an objective should take."""

HEAD = """# On a GPU
"""
FOUND = """
**No step waits for the GPU, a killed run resumes, and `fit` trains about as many images a second as
lightly's example.** In batches of 1024 and more no objective takes above 5 % of a step. That values and
gradients equal the CPU's is to be measured again: torch 2.11 differentiates `ldexp` wrongly on both, so
that SimCLR stayed at chance, and the rows that had compared two wrong gradients were deleted. The losses
do not differentiate it now.
"""
NOTHING = """
**Nothing was measured on a GPU so far.** A test runs the code of all parts on a CPU at tiny sizes: it
shows that the script works, and nothing about a GPU.
"""
HOW = """
## How to measure

`python docs/evidence/benchmarks/gpu.py` measures what is worth most first, for 12 minutes (`--total`); a
second call goes on where the first one stopped. `--help` has the parts. The sizes are for 80 GB; a row that
is out of memory says so. Inductor needs a C compiler.

**A machine without network** that has torch, torchvision, Lightning, timm and scikit-learn lacks
lightly and the entry points of this library. Elsewhere, `bash docs/evidence/benchmarks/gpu_carry.sh
[IMAGES.zip]` puts both into `.whl/` (1.2 MB; CIFAR-10 as images in `cifar10/{train,test}/CLASS/`, 19 MB
more). Carry it over with the repository. There, with `OUT` a folder for the results:

```
python3 -m pip install -q --no-index --no-deps --target .whl/site .whl/*.whl
export PYTHONPATH=$PWD:$PWD/registry:$PWD/.whl/site HF_HUB_OFFLINE=1
cp -n docs/evidence/benchmarks/gpu.json $OUT/
timeout -s KILL 780 python3 docs/evidence/benchmarks/gpu.py --out $OUT/gpu.json
tar xJf .whl/cifar10.tar.xz -C .whl    # 20 epochs of SimCLR on CIFAR-10
python3 -m ccl_plugins train docs/evidence/benchmarks/gpu_cifar.toml --out $OUT/cifar
```

KILL, since `fit` ends a run early at INT and TERM. Bring back `gpu.json`: with `--page` the script writes
this page from it. [Experiments for a GPU](../reproduction/on_a_gpu.md) ask what the methods bring at a
larger size.
"""
PARTS = {
    "objectives": (
        "Objectives against the CPU",
        "Largest differences of loss and gradient on the same batch, in float32, and of embeddings in bf16"
        " to those in float32; relative to the largest expected number, those of a loss below 1 to 1. The"
        " slope is the gradient along one direction against a difference of the loss, in float64.",
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
        "The time of an objective's forward and backward pass, in float32 on embeddings, as a share of"
        " itself and those of the networks, in bf16 and channels last, without optimizer. Then its peak"
        " memory, and its time as a multiple of that of lightly's `NTXentLoss` (over a queue, of its"
        " cross-entropy). The networks' time is measured once and taken as proportional to b. At small b an"
        " objective's time is that of launches, which [are counted](operations.md).",
    ),
    "whole": (
        "The whole against lightly's example",
        "Images/s of `fit` and of lightly's example by hand in Lightning, in wall-clock time, with the same"
        " network, optimizer, precision (bf16) and workers, in turns. With images as they are, no view is"
        " drawn.",
    ),
    "memory": (
        "A batch in pieces",
        "A ViT in float32 with `micro_batch`: the largest difference of the gradient to that of the batch"
        " embedded whole, relative to its largest number, peak memory, and images/s.",
    ),
    "resume": (
        "Killed and resumed",
        "A run with a queue and a kernel is killed by SIGKILL and resumed from its last checkpoint: the"
        " largest difference of its weights to those of an unbroken run, relative to the largest weight.",
    ),
    "adapt": (
        "A step of DINO with a ViT-B",
        "Both passes in bf16, AdamW and the teacher's step, on two large and six small views of b images of"
        " five channels: images/s and peak memory, beside [what is counted](vit_step.md).",
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
            if its := [row for row in here if row["part"] == part]:
                shown = (shares if part == "share" else table)(its)
                lines.append(f"\n## {title}\n\n{about}\n\n{shown}")
    missing = PARTS.keys() - {row["part"] for row in measured}
    if measured and missing:
        parts = (f"- {title} (`{part}`)\n" for part, (title, _) in PARTS.items() if part in missing)
        lines.append(f"\n## Not measured yet\n\n{''.join(parts)}")
    return "".join([*lines, HOW])


def table(rows: list[dict[str, Any]]) -> str:
    """A line for each row, with all its numbers; of rows without any, their names by state and kind."""
    about = {"part", "name", "device", "torch", "state", "error"}
    columns = list(dict.fromkeys(key for row in rows for key in row if key not in about))
    if not columns:
        found: dict[tuple[str, str], list[str]] = {}
        for row in rows:
            of, _, name = row["name"].partition(" ")
            found.setdefault((state(row), of), []).append(name)
        lines = [line("", "of", ""), "|---" * 3 + "|"]
        lines += [line(*each, ", ".join(names)) for each, names in found.items()]
        return "\n".join(lines) + "\n"
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
            f"\n{f'Over a queue of {queue:,}' if queue else 'In a batch'}, {method.strip()}: share with"
            f" {' / '.join(beside)} / peak memory / time. Of {len(its)} measurements {len(above)} have a"
            f" share above the goal of {GOAL:.0%}, in bold.\n",
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
