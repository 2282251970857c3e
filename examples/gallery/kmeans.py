"""Cl-InfoNCE on the model's own clusters, which k-means finds anew before every epoch.

After a warm-up with InfoNCE, images of one cluster are positives of each other. The views change the
colors, since the model would cluster by the background otherwise. Expect nearest neighbors to name the
digit more often, and clusters to agree better with it (normalized mutual information).
"""

import ccl_plugins as ccl

EPOCHS = 20
WARMUP = 8

common = {
    "dataset": "color_digits",
    "transform": ccl.transform(
        "simclr", size=32, min_scale=0.5, flip=0, jitter=0.5, gray=0.2, blur=0, batched=True
    ),
    "backbone": "lenet5",
    "method": ccl.method("simclr", hidden=128, dim=128),
    "evaluate": ["knn", "clustering"],
    "monitor": "off",
}
clusters = ccl.condition("clusters", k=100, warmup=WARMUP)
pipelines = {
    "InfoNCE": ccl.Pipeline(**common, objective=ccl.objective("infonce", temperature=0.1)),
    "Cl-InfoNCE": ccl.Pipeline(
        **common, objective=ccl.objective("cl_infonce", temperature=0.1), condition=clusters
    ),
}

rows = {}
for name, pipeline in pipelines.items():
    run = pipeline.fit(
        out=f"runs/gallery/kmeans/{name}",
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
    print(f"{name:<11}digit {found['knn/top1']:.2f}, in clusters {found['clustering/nmi']:.2f}")
