"""Write birds.csv of CUB-200-2011; run it in the folder that holds CUB_200_2011.

CUB has 312 binary attributes.  The papers leave out the last 112, as below; ``["has_*"]`` takes all.

    condition = {use = "attributes", columns = ["attributes"]}

    [dataset]
    use = "table"
    path = "CUB_200_2011/birds.csv"
    split = "split"
    blocks = {attributes = ["has_0*", "has_1*", "has_200"]}
"""

import csv
from pathlib import Path

root = Path("CUB_200_2011")


def lines(name):
    return [line.split() for line in (root / name).read_text().splitlines()]


files, names = dict(lines("images.txt")), dict(lines("classes.txt"))
label, is_train = dict(lines("image_class_labels.txt")), dict(lines("train_test_split.txt"))
has = {image: {} for image in files}
# image, attribute, present, and more that differs from line to line
for image, attribute, present, *_ in lines("attributes/image_attribute_labels.txt"):
    has[image][int(attribute)] = present
attributes = range(1, 313)
with open(root / "birds.csv", "w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["image", "label", "split", *(f"has_{a:03}" for a in attributes)])
    for image, path in files.items():
        split = "train" if is_train[image] == "1" else "test"
        values = (has[image][a] for a in attributes)
        table.writerow([f"images/{path}", names[label[image]], split, *values])
