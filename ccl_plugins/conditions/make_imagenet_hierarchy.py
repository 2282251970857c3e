"""A script that makes the package's table of WordNet nouns above the ImageNet classes.

    apt-get install wordnet-base
    python ccl_plugins/conditions/make_imagenet_hierarchy.py /usr/share/wordnet

It reads WordNet 3.0's ``data.noun`` and timm's list of the 1,000 synsets, in the order of class ids.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from timm.data.imagenet_info import ImageNetInfo

from ccl_plugins.conditions.wordnet import NOUNS, SHIPPED, read_nouns

OUT = Path(__file__).with_name(f"{SHIPPED}.tsv")

HEADER = """\
# The WordNet 3.0 hierarchy above the 1,000 ImageNet classes; made by make_imagenet_hierarchy.py.
# Columns: 'class' (in the order of class ids) or 'above'; synset; hypernyms, as WordNet lists them.
#
# WordNet's license:
#
"""


def table(folder: Path) -> str:
    """The table's text, from a folder with WordNet's ``data.noun``."""
    classes = ImageNetInfo("imagenet-1k").label_names()
    parents = read_nouns(folder)
    missing = [name for name in classes if name not in parents]
    if missing:
        raise SystemExit(f"{folder} is not WordNet 3.0: it lacks {', '.join(missing[:8])}")
    above, todo = set[str](), [*classes]
    while todo:
        new = {*parents[todo.pop()]} - above
        above |= new
        todo += new
    rows = [f"class\t{name}\t{' '.join(parents[name])}" for name in classes]
    rows += [f"above\t{name}\t{' '.join(parents[name])}" for name in sorted(above - {*classes})]
    return HEADER + _license(folder) + "\n".join(rows) + "\n"


def _license(folder: Path) -> str:
    """WordNet's license, which every copy must include, as comment lines."""
    with (folder / NOUNS).open(encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.startswith("  ")]
    # Each line begins with its number.
    return "".join(f"# {line.partition(' ')[2].strip()}".rstrip() + "\n" for line in lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="with WordNet 3.0's data.noun")
    OUT.write_text(table(parser.parse_args().folder), encoding="utf-8")
