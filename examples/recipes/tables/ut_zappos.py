"""Write shoes.csv of UT-Zappos50K; run it in the folder that holds ut-zap50k.

The condition ``attributes`` makes seven attributes in words binary; the label is one of 21 sub-categories.
An empty cell becomes a value of its own, so that no shoe is missing; leave it empty, and ``missing`` of the
condition decides.  A cell of several words, such as ``Leather;Suede``, is one value.  The papers speak of
126 binary attributes, do not say how they count, and test on a random 30 %.  This script was not tried on
the real files: look at how many attributes you get, by ``ccl inspect``.

    dataset = {use = "table", path = "ut-zap50k/shoes.csv", test_fraction = 0.3}

    [condition]
    use = "attributes"
    columns = ["Category", "HeelHeight", "Insole", "Closure", "Gender", "Material", "ToeStyle"]
"""

import csv
from pathlib import Path

root = Path("ut-zap50k")
attributes = ["Category", "HeelHeight", "Insole", "Closure", "Gender", "Material", "ToeStyle"]
# An image is named after its shoe: 100627-72 is in 100627.72.jpg.
files = {path.stem: path for path in sorted((root / "ut-zap50k-images-square").rglob("*.jpg"))}
with open(root / "ut-zap50k-data" / "meta-data.csv", newline="") as file:
    shoes = list(csv.DictReader(file))
with open(root / "shoes.csv", "w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["image", "label", *attributes])
    for shoe in shoes:
        path = files[shoe["CID"].replace("-", ".")].relative_to(root)
        table.writerow([path, shoe["SubCategory"], *(shoe[a] or "not given" for a in attributes)])
