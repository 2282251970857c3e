"""Run the examples of the gallery, all or those named, and write what they printed into the page.

python docs/how-to/gallery.py [kmeans.py ...]
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "gallery"
PAGE = Path(__file__).with_suffix(".md")
TITLES = {
    "drop_in_loss.md": "A drop-in loss",
    "fair.md": "Fair: hide a variable",
    "weak_labels.py": "Weak labels",
    "wordnet.py": "WordNet",
    "clip_features.py": "CLIP features",
    "kmeans.py": "K-means",
    "typefaces.py": "Letters in real typefaces",
    "hard_negatives.py": "Hard negatives",
    "cacr_views.py": "CACR with several views",
    "moco_v3_vit.py": "MoCo v3 with a ViT",
    "keep_and_suppress.py": "Keep and suppress",
    "captions.md": "Captions",
    "devices.py": "Several devices",
}
HEAD = """# Gallery

Thirteen short files with baselines. Each takes about a minute of a CPU core and downloads
nothing. Run one from the root of the repository: `python examples/gallery/kmeans.py`. The numbers are of
one seed and few epochs, not the best that the parts reach.

The three `.md` files are notebooks, which Jupyter opens with `jupytext`; the site shows their pictures.

"""


def source(path: Path) -> str:
    """The Python of an example: a script, or the code cells of a notebook."""
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        return text
    return "\n".join(re.findall(r"^```\{code-cell\} python\n(.*?)^```", text, re.M | re.S))


def about(path: Path) -> str:
    """What an example says of itself at its top."""
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        return ast.get_docstring(ast.parse(text)) or ""
    return text.split("\n# ")[1].split("\n", 1)[1].split("```{code-cell}")[0].strip()


def printed(path: Path) -> str:
    """What an example prints when it is run from the root of the repository."""
    notebook = path.suffix == ".md"
    return subprocess.run(
        [sys.executable, "-" if notebook else str(path)],
        input=source(path) if notebook else None,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=ROOT,
    ).stdout


def outputs(page: str) -> dict[str, str]:
    """What the examples printed, by name, as it is on the page."""
    return dict(
        re.findall(r"\(\.\./\.\./examples/gallery/([\w.]+)\)\n\n```text\n(.*?)```", page, re.S)
    )


def render(printed: Mapping[str, str]) -> str:
    """The page, with what the examples printed."""
    parts = []
    for name, title in TITLES.items():
        link = f"[`examples/gallery/{name}`](../../examples/gallery/{name})"
        shown = f"\n\n```text\n{printed[name]}```\n" if name in printed else "\n"
        parts.append(f"## {title}\n\n{about(FOLDER / name)}\n\n{link}{shown}")
    return HEAD + "\n".join(parts)


if __name__ == "__main__":
    known = outputs(PAGE.read_text("utf-8")) if PAGE.exists() else {}
    for name in sys.argv[1:] or TITLES:
        known[name] = printed(FOLDER / name)
        print(f"{name}\n{known[name]}", flush=True)
        PAGE.write_text(render(known), "utf-8")
