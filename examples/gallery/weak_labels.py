"""Cl-InfoNCE on weak labels: digits that agree in a few measured attributes are positives of each other.

The attributes, such as the number of holes, are measured without recognizing a digit. What the weak
labels Z tell about the digit T, I(Z;T), and what else, H(Z|T), is known before training.
Expect Cl-InfoNCE to learn the digit, and InfoNCE the color of the background.
``examples/weak_labels.toml`` is such a pipeline as a file.
"""

import math

import ccl_plugins as ccl

EPOCHS = 20

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
columns = ["holes", "ink", "slant", "width", "side", "balance"]
pipelines = {
    "InfoNCE": ccl.Pipeline(**common, objective=ccl.objective("infonce", temperature=0.1)),
    "Cl-InfoNCE": ccl.Pipeline(
        **common,
        objective=ccl.objective("cl_infonce", temperature=0.1),
        condition=ccl.condition("attributes", columns=columns, k=6),
    ),
}
((weak,), _) = pipelines["Cl-InfoNCE"].plane(against="digit")
bits = weak.information
print(
    f"I(Z;T) {bits.mutual:.2f} bits of {math.log2(10):.2f}, H(Z|T) {bits.conditional_entropy:.2f} bits"
)

rows = {}
for name, pipeline in pipelines.items():
    run = pipeline.fit(
        out=f"runs/gallery/weak_labels/{name}",
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
    print(f"{name:<11}digit {found['knn/top1']:.2f}, color R² {found['color/r2']:.2f}")
