"""Draw the nearest neighbors of some letters in two networks of `letters.py`: the README's picture.

Run it as ``FONTS=folder python docs/evidence/studies/letters_picture.py``; it trains both with seed 0.
 The letters are `ASKED`, each of a test font: fonts in the order of their ids, at equal distances.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import letters
import torch
from study import Read
from torch import Tensor
from torch.nn.functional import normalize

from ccl_plugins.figures import figure, styled

ASKED = "aGRg5"
SHOWN = 8
TITLES = {
    "InfoNCE": "InfoNCE, whole fonts",
    "with the font as condition": "Fair-CCLK on the font, whole fonts",
}
TARGET = Path(__file__).parents[2] / "letters.png"


def neighbors(read: Read, seed: int, settings: Mapping[str, Any]) -> dict[str, Tensor]:
    """The rows of the letters in the test part, and of their neighbors of other families."""
    split = letters.parts(seed)["test"]
    label, font = split.metadata["label"], split.metadata["font"]
    fonts = font.unique()
    at = torch.linspace(0, len(fonts) - 1, len(ASKED) + 2)[1:-1].long()
    named = torch.tensor([split.vocabulary["label"].index(letter) for letter in ASKED])
    rows = [
        int(((font == fonts[i]) & (label == n)).nonzero()) for i, n in zip(at, named, strict=True)
    ]
    x, family = normalize(read(split), dim=1), split.metadata["family"]
    near = (x[rows] @ x.T).masked_fill(family[rows, None] == family, -torch.inf)
    return {"rows": torch.tensor(rows), "near": near.topk(SHOWN).indices}


@styled
def drawn(found: Mapping[str, Mapping[str, Tensor]], split: Any) -> Any:
    """The letters at the left, and beside them what each network finds; other letters have a frame."""
    columns = 1 + len(found) * (SHOWN + 0.5)
    picture = figure(0.42 * columns, 0.42 * (len(ASKED) + 0.6))
    panel = picture.add_axes((0, 0, 1, 1))
    panel.set(xlim=(0, columns), ylim=(len(ASKED), -0.6))
    panel.axis("off")
    label = split.metadata["label"]

    def put(row: int, x: float, y: float, wrong: bool) -> None:
        ends = (x + 0.06, x + 0.94, y + 0.94, y + 0.06)
        panel.imshow(split.images[row, 0], cmap="gray", vmin=0, vmax=255, extent=ends, zorder=1)
        if wrong:
            box = ([ends[0], ends[1], ends[1], ends[0], ends[0]], [y + 0.06] * 2 + [y + 0.94] * 2)
            panel.plot(box[0], [*box[1], y + 0.06], color="#d55e00", linewidth=2, zorder=2)

    for number, (title, each) in enumerate(found.items()):
        begin = 1.5 + number * (SHOWN + 0.5)
        panel.text(begin, -0.15, title, fontsize=9)
        for y, (row, near) in enumerate(zip(each["rows"], each["near"], strict=True)):
            put(int(row), 0, y, wrong=False)
            for x, other in enumerate(near.tolist()):
                put(other, begin + x, y, wrong=bool(label[other] != label[row]))
    panel.set_aspect("auto")
    return picture


if __name__ == "__main__":
    study, rows = replace(letters.STUDY, measured=neighbors), letters.STUDY.stored()
    found = {
        title: study.run((form, study.chosen(rows, form), 0))["test"]
        for title, form in TITLES.items()
    }
    drawn(found, letters.parts(0)["test"]).savefig(TARGET, dpi=110, facecolor="white")
