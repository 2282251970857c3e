"""The page that ``docs/benchmarks/gpu.py`` writes from its rows."""

from __future__ import annotations

from typing import Any

GOAL = 0.05
"""The largest share of a training step that an objective should take."""

HEAD = """# On a GPU

What `python docs/benchmarks/gpu.py` checks and measures on a machine with a GPU. The rows are in `gpu.json` beside this page.
"""
NOTHING = """
**Nothing was measured on a GPU so far.** The script's own test runs all of its parts on a CPU at tiny sizes, which shows that it
works and nothing about a GPU.
"""
HOW = """
## How to measure

`python docs/benchmarks/gpu.py` measures all parts in at most 25 minutes, and `python docs/benchmarks/gpu.py PART` one of them in
at most eight; `--help` lists them. Each row is stored at once: a part that was stopped, or ran out of time, goes on where it
stopped when it is called again. Sizes are chosen for a GPU with 80 GB; on a smaller one some rows are out of memory, and say so.
Inductor needs a C compiler.

**A machine without network** needs a torch that sees the GPU, a copy of this repository, and the other packages as wheels. On a
machine with network and the same Python and platform:

```
pip download --dest wheels ".[benchmarks]" "setuptools>=77" wheel
```

Carry the folder over with the repository, and there, without any network:

```
pip install --no-index --find-links wheels --no-build-isolation -e .
```

pip keeps a torch that is installed and fits. Where torch is not to be carried, delete its wheels, and those of `nvidia-*` and
`triton`, from the folder. `gpu.json` is all that has to come back; `python docs/benchmarks/gpu.py --page` writes this page from it.
"""
PARTS = {
    "objectives": (
        "Objectives against the CPU",
        "Largest differences of loss and gradient on the same batch: in float32, and for embeddings in bf16 under autocast"
        " against float32 with the same numbers. Each is relative to the largest expected number, a loss below 1 to 1.",
    ),
    "methods": (
        "Methods against the CPU",
        "Largest relative differences after three steps of training in float32, and of the first loss in bf16.",
    ),
    "compiled": (
        "Compiled by inductor",
        "Largest relative differences, compiled on the GPU against the CPU without compiling; of methods, those of the losses and"
        " weights of three steps.",
    ),
    "waits": (
        "No wait in a step",
        'After the first steps, a whole step runs under `torch.cuda.set_sync_debug_mode("error")`, where a wait for the GPU raises.',
    ),
    "share": ("Objectives as a share of a step", ""),
    "memory": (
        "A batch in pieces",
        "The forward and backward pass of a ViT in float32: peak memory, images/s, and the largest difference of the gradient to"
        " that of the batch embedded whole, relative to the largest number in it.",
    ),
    "resume": (
        "Killed and resumed",
        "A run with a queue and a kernel is killed by SIGKILL and resumed from its last checkpoint: the largest difference of its"
        " final weights to those of a run that was not killed, relative to the largest weight.",
    ),
    "whole": (
        "The whole against lightly's example",
        "Images/s of `fit` and of lightly's example by hand in Lightning, in wall-clock time, with the same network, optimizer,"
        " precision (bf16) and workers, in turns. With images as they are, nothing is drawn on the CPU.",
    ),
}


def page(rows: list[dict[str, Any]]) -> str:
    """The page; rows of a CPU check the script alone and are left out."""
    measured = [row for row in rows if row["device"] != "cpu"]
    lines = [HEAD] if measured else [HEAD, NOTHING]
    for device, torch in dict.fromkeys((row["device"], row["torch"]) for row in measured):
        here = [row for row in measured if (row["device"], row["torch"]) == (device, torch)]
        states = [row["state"] for row in here]
        lines.append(
            f"\nMeasured on one {device} with torch {torch}: {len(here)} rows, of which"
            f" {states.count('failed')} failed and {states.count('skipped')} were skipped.\n"
        )
        for part, (title, about) in PARTS.items():
            its = [row for row in here if row["part"] == part]
            lines.append(f"\n## {title}\n\n")
            if not its:
                lines.append(f"Not measured: `python docs/benchmarks/gpu.py {part}`.\n")
            elif part == "share":
                lines.append(shares(its))
            else:
                lines.append(f"{about}\n\n{table(its)}")
    return "".join([*lines, HOW])


def table(rows: list[dict[str, Any]]) -> str:
    """A row for each, with all its numbers."""
    about = {"part", "name", "device", "torch", "state", "error"}
    columns = list(dict.fromkeys(key for row in rows for key in row if key not in about))
    heads = ["", *(column.replace("_", " ").replace("bytes", "memory") for column in columns), ""]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in rows:
        state = f"{row['state']}: {row['error']}" if row.get("error") else row["state"]
        cells = [row["name"], *(shown(column, row.get(column)) for column in columns)]
        lines.append("| " + " | ".join([*cells, state.replace("|", "\\|")]) + " |")
    return "\n".join(lines) + "\n"


def shown(column: str, value: Any) -> str:
    """A number as its column's name says."""
    if value is None or isinstance(value, str):
        return value or ""
    if column == "bytes":
        return f"{value / 2**30:.2f} GiB"
    if column.endswith("per_second"):
        return f"{value:.0f}"
    return f"{value:.3f}" if column == "ratio" else f"{value:.1e}"


def shares(rows: list[dict[str, Any]]) -> str:
    """Each objective's share of a step of each network, and its peak memory; in bold above the goal."""
    networks = {row["name"]: row for row in rows if "seconds" in row}
    objectives = [row for row in rows if "objective_seconds" in row]
    failed = [row for row in rows if row["state"] == "failed"]
    lines = [
        "Time of an objective's forward and backward pass in float32, as a share of itself and those of the networks in bf16 and"
        " channels last, optimizer left out, and the objective's peak memory. The networks' time is measured once and taken as"
        f" proportional to b. Shares above the goal of {GOAL:.0%} are bold. Over a queue, the networks are those of MoCo v2, else"
        " of SimCLR.\n",
        "| networks | b | time | peak memory |\n|---|---|---|---|",
    ]
    for name, row in networks.items():
        lines.append(
            f"| {name} | {row['b']} | {1000 * row['seconds']:.0f} ms | {row['bytes'] / 2**30:.1f} GiB |"
        )
    for queue in dict.fromkeys(row["q"] for row in objectives):
        method = "moco_v2 " if queue else "simclr "
        its = [row for row in objectives if row["q"] == queue]
        beside = {n.removeprefix(method): r for n, r in networks.items() if n.startswith(method)}
        sizes = sorted({row["b"] for row in its})
        above = sum(any(part(row, net) > GOAL for net in beside.values()) for row in its)
        over = f"Over a queue of {queue:,}" if queue else "In a batch"
        lines += [
            f"\n{over}: {above} of {len(its)} cells are above the goal. Each is the share of {', of '.join(beside)}, and the memory.\n",
            "| objective | " + " | ".join(f"b = {b}" for b in sizes) + " |",
            "|---" * (len(sizes) + 1) + "|",
        ]
        for label in dict.fromkeys(row["label"] for row in its):
            found = {row["b"]: row for row in its if row["label"] == label}
            cells = [cell(found[b], beside) if b in found else "" for b in sizes]
            lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return (
        "\n".join([*lines, *(f"\nFailed: {row['name']}: {row['error']}." for row in failed)]) + "\n"
    )


def part(row: dict[str, Any], networks: dict[str, Any]) -> float:
    """The objective's share of a step."""
    own = row["objective_seconds"]
    return own / (own + networks["seconds"] * row["b"] / networks["b"])


def cell(row: dict[str, Any], beside: dict[str, dict[str, Any]]) -> str:
    """Shares of a step and peak memory."""
    found = [part(row, networks) for networks in beside.values()]
    marked = [f"**{share:.1%}**" if share > GOAL else f"{share:.1%}" for share in found]
    return " / ".join([*marked, f"{row['objective_bytes'] / 2**30:.2f} GiB"])
