"""Write scenes.csv of WIDER Attribute; run it in the folder that holds WIDER.

Each person in an image has 14 binary attributes.  An image has an attribute if one of its persons has it;
the label is the scene, one of 30.

    dataset = {use = "table", path = "WIDER/scenes.csv", split = "split", blocks = {attributes = ["has_*"]}}
    condition = {use = "attributes", columns = ["attributes"], k = 10}
"""

import csv
import json
from pathlib import Path

root = Path("WIDER")
parts = {"train": "wider_attribute_trainval.json", "test": "wider_attribute_test.json"}
with open(root / "scenes.csv", "w", newline="") as file:
    table = csv.writer(file)
    for split, name in parts.items():
        found = json.loads((root / "Anno" / name).read_text())
        ids = sorted(found["attribute_id_map"], key=int)
        if split == "train":
            names = [f"has_{found['attribute_id_map'][i]}" for i in ids]
            table.writerow(["image", "label", "split", *names])
        for image in found["images"]:
            boxes = [target["attribute"] for target in image["targets"]]
            # 1: yes, -1: no, 0: not specified
            values = [int(any(box[int(i)] == 1 for box in boxes)) for i in ids]
            scene = found["scene_id_map"][str(image["scene_id"])]
            table.writerow([f"Image/{image['file_name']}", scene, split, *values])
