"""MoCo v3 with a vision transformer (ViT), with and without a condition.

The runs differ in objective and condition alone. A ViT learns slowly, so the
digit is seldom named. Expect Fair-CCLK to name it more often, and to keep less of the gratings' angle.
"""

import ccl_plugins as ccl

EPOCHS = 6

common = {
    "dataset": "grating_digits",
    "transform": ccl.transform(
        "simclr", size=32, min_scale=0.5, flip=0, jitter=0, gray=0, blur=0, batched=True
    ),
    # A ViT of timm; for large images name="vit_small_patch16_224", heads=12, without options.
    "backbone": ccl.backbone(
        "vit_moco_v3",
        name="test_vit",
        heads=2,
        options={"img_size": 32, "patch_size": 8, "depth": 2},
    ),
    "method": ccl.method("moco_v3", hidden=128, dim=64),
    "evaluate": ["knn", ccl.evaluator("regression", column="angle")],
    "monitor": "off",
}
pipelines = {
    "InfoNCE": ccl.Pipeline(**common, objective=ccl.objective("infonce", temperature=0.2)),
    "Fair-CCLK": ccl.Pipeline(
        **common,
        objective=ccl.objective("fair_cclk", kernel=ccl.kernel("rbf", scale=0.1), temperature=0.2),
        condition=ccl.condition("column", name="angle"),
    ),
}

rows = {}
for name, pipeline in pipelines.items():
    run = pipeline.fit(
        out=f"runs/gallery/moco_v3_vit/{name}",
        epochs=EPOCHS,
        batch_size=128,
        optimizer=ccl.optimizer("adamw", lr=1e-3),
        workers=0,
        progress=False,
        overwrite=True,
    )
    rows.setdefault("untrained", run.before)
    rows[name] = run.evaluate()
for name, found in rows.items():
    print(f"{name:<10}digit {found['knn/top1']:.2f}, angle R² {found['angle/r2']:.2f}")
