"""Features of a pretrained network, such as CLIP's, say which images are alike.

Soft InfoNCE takes the similarities of these features as its targets, as X-CLR does. A tiny network, trained
here to name digits, stands in for CLIP; a comment has the line for CLIP itself. Expect Soft InfoNCE to
keep the digit, and InfoNCE to learn the color of the background.
"""

from pathlib import Path

import timm
import torch
from safetensors.torch import save_file

import ccl_plugins as ccl

EPOCHS = 6
STEPS = 150

out = Path("runs/gallery/clip_features")
out.mkdir(parents=True, exist_ok=True)
weights = out / "stand_in.safetensors"
torch.manual_seed(0)
tower = timm.create_model("test_resnet", num_classes=10)
train = ccl.create("dataset", "color_digits")("train")
optimizer = torch.optim.AdamW(tower.parameters(), lr=3e-3)
for _ in range(STEPS):
    batch = torch.randint(0, len(train.images) // 2, (64,))
    scores = tower(train.images[batch] / 127.5 - 1)
    torch.nn.functional.cross_entropy(scores, train.metadata["digit"][batch]).backward()
    optimizer.step()
    optimizer.zero_grad()
save_file(tower.state_dict(), weights)

# CLIP itself: features = ccl.condition("clip", name="vit_base_patch32_clip_quickgelu_224.openai")
features = ccl.condition(
    "encoder",
    name="test_resnet",
    pretrained=False,
    checkpoint_path=str(weights),
    image_size=32,
    cache=str(out),
)

common = {
    "dataset": "color_digits",
    "transform": ccl.transform(
        "simclr", size=32, min_scale=0.5, flip=0, jitter=0, gray=0, blur=0, batched=True
    ),
    "backbone": "lenet5",
    "method": ccl.method("simclr", hidden=128, dim=128),
    "evaluate": ["knn", ccl.evaluator("regression", column="color")],
    "monitor": "off",
}
pipelines = {
    "InfoNCE": ccl.Pipeline(**common, objective=ccl.objective("infonce", temperature=0.1)),
    "Soft InfoNCE": ccl.Pipeline(
        **common,
        objective=ccl.objective(
            "soft_infonce", kernel=ccl.kernel("rbf", scale="median"), temperature=0.1
        ),
        condition=features,
    ),
}

rows = {}
for name, pipeline in pipelines.items():
    run = pipeline.fit(
        out=out / name,
        epochs=EPOCHS,
        batch_size=128,
        optimizer=ccl.optimizer("adamw", lr=3e-3),
        workers=0,
        progress=False,
        overwrite=True,
    )
    rows.setdefault("untrained", run.before)
    rows[name] = run.evaluate()
for name, found in rows.items():
    print(f"{name:<14}digit {found['knn/top1']:.2f}, color R² {found['color/r2']:.2f}")
