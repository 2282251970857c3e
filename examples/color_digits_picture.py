r"""Draw the test features of runs, colored by the ground and by digit: the pictures of the pages.

Without arguments, of InfoNCE and Fair-CCLK after ``ccl train examples/color_digits_infonce.toml
examples/color_digits_fair.toml``, with the two other pictures of docs/how-to/compare-runs.md.  Or of any
runs, each with its title, as the README's after ``ccl train examples/grating_digits_infonce.toml
examples/grating_digits_fair.toml``, and one of the first seed after ``ccl sweep
examples/reproduction/color_mnist.toml``::

    python examples/color_digits_picture.py --by angle --out docs/grating_digits.png \
        InfoNCE=runs/grating_digits_infonce Fair-CCLK=runs/grating_digits_fair
    python examples/color_digits_picture.py --out docs/color_mnist.png \
        InfoNCE=runs/reproduction/color_mnist/cells/040 \
        Fair-CCLK=runs/reproduction/color_mnist/cells/002
"""

import argparse
from pathlib import Path

import ccl_plugins as ccl
from ccl_plugins.figures import Anchor, EmbeddingMap, Similarity, svg

parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument("runs", nargs="*", metavar="TITLE=RUN", help="a run's folder and its title")
parser.add_argument("--by", default="color", help="the column that colors the first row")
parser.add_argument("--out", default="docs/color_digits.png", help="the PNG file")
options = parser.parse_args()
pairs = options.runs or [
    "InfoNCE=runs/color_digits_infonce",
    "Fair-CCLK=runs/color_digits_fair",
]
runs = {title: ccl.load(path) for title, _, path in (each.partition("=") for each in pairs)}
figure = EmbeddingMap(by=[options.by, "label"])(runs)
figure.savefig(options.out, dpi=110)
if not options.runs:
    for name, draw in {"anchor": Anchor(), "similarity": Similarity()}.items():
        Path(f"docs/{name}.svg").write_text(svg(draw(runs)), encoding="utf-8")
