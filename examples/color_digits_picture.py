"""Draw the pictures of the README and of docs/how-to/look-at-runs.md, of InfoNCE and Fair-CCLK.

First run `ccl train examples/color_digits_infonce.toml examples/color_digits_fair.toml`.
"""

import sys
from pathlib import Path

import ccl_plugins as ccl

folder = sys.argv[1] if len(sys.argv) > 1 else "runs"
runs = {
    "InfoNCE": ccl.load(f"{folder}/color_digits_infonce"),
    "Fair-CCLK": ccl.load(f"{folder}/color_digits_fair"),
}
figure = ccl.figures.embedding_map(runs, by=["color", "label"])
figure.savefig("docs/color_digits.png", dpi=110)
Path("docs/anchor.svg").write_text(ccl.figures.svg(ccl.figures.anchor(runs)), encoding="utf-8")
Path("docs/similarity.svg").write_text(
    ccl.figures.svg(ccl.figures.similarity(runs)), encoding="utf-8"
)
