"""Write imagenet100.csv; run it in the folder that holds imagenet and imagenet100.txt, a synset per line.

The label is the synset, as n01558993, so the condition ``wordnet`` works too.  The validation images must
be in a folder per class, as the training images are.

    dataset = {use = "table", path = "imagenet/imagenet100.csv", split = "split"}
    condition = {use = "clip"}
"""

import csv
from pathlib import Path

root = Path("imagenet")
classes = Path("imagenet100.txt").read_text().split()
with open(root / "imagenet100.csv", "w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["image", "label", "split"])
    for split, folder in (("train", "train"), ("test", "val")):
        for name in classes:
            for path in sorted((root / folder / name).glob("*.JPEG")):
                table.writerow([path.relative_to(root), name, split])
