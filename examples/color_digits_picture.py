"""Draw the README's picture: embeddings of InfoNCE and Fair-CCLK on digits with colored grounds.

First run `ccl train examples/color_digits_infonce.toml examples/color_digits_fair.toml`.
"""

import sys

import ccl_plugins as ccl

runs = sys.argv[1] if len(sys.argv) > 1 else "runs"
figure = ccl.figures.embedding_map(
    {
        "InfoNCE": ccl.load(f"{runs}/color_digits_infonce"),
        "Fair-CCLK": ccl.load(f"{runs}/color_digits_fair"),
    },
    by=["color", "label"],
)
figure.savefig("docs/color_digits.png", dpi=110)
