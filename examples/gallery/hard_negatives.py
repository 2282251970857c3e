"""Hard negatives: negatives near the anchor have larger weights.

HCL weighs negatives by their similarity to the anchor, HardNeg-CCLK by a kernel on the model's own
embedding. Expect little difference after so short a training;
``docs/evidence/reproduction/hard_negatives.md`` compares them over many seeds.
"""

import ccl_plugins as ccl

EPOCHS = 10

common = {
    "dataset": "color_digits",
    "transform": ccl.transform(
        "simclr", size=32, min_scale=0.5, flip=0, jitter=0.5, gray=0.2, blur=0, batched=True
    ),
    "backbone": "lenet5",
    "method": ccl.method("simclr", hidden=128, dim=128),
    "evaluate": ["knn"],
    "monitor": "off",
}
pipelines = {
    "InfoNCE": ccl.Pipeline(**common, objective=ccl.objective("infonce", temperature=0.2)),
    "HCL": ccl.Pipeline(**common, objective=ccl.objective("hcl", temperature=0.2, tau_plus=0.1)),
    "HardNeg-CCLK": ccl.Pipeline(
        **common,
        objective=ccl.objective("hardneg_cclk", kernel="cosine", temperature=0.2),
        condition="embedding",
    ),
}

rows = {}
for name, pipeline in pipelines.items():
    run = pipeline.fit(
        out=f"runs/gallery/hard_negatives/{name}",
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
    print(f"{name:<13}digit {found['knn/top1']:.2f}")
