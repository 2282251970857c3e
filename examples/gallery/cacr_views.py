"""Contrastive attraction and repulsion (CACR), which weighs several positives of an image.

CACR pulls a view most to the farthest other view of its image, and pushes it most from the nearest other
image. Expect four views to name the digit more often than two, from twice as
many images in a step.
"""

import ccl_plugins as ccl

EPOCHS = 6


def pipeline(views, objective):
    return ccl.Pipeline(
        dataset="color_digits",
        transform=ccl.transform(
            "multi",
            count=views,
            size=32,
            min_scale=0.5,
            flip=0,
            jitter=0.5,
            gray=0.2,
            blur=0,
            batched=True,
        ),
        backbone="lenet5",
        method=ccl.method("simclr", hidden=128, dim=128),
        objective=objective,
        evaluate=["knn"],
        monitor="off",
    )


pipelines = {
    "InfoNCE, 2 views": pipeline(2, ccl.objective("infonce", temperature=0.2)),
    "CACR, 2 views": pipeline(2, ccl.objective("cacr")),
    "CACR, 4 views": pipeline(4, ccl.objective("cacr", positives=3)),
}

rows = {}
for name, pipeline in pipelines.items():
    run = pipeline.fit(
        out=f"runs/gallery/cacr_views/{name}",
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
    print(f"{name:<17}digit {found['knn/top1']:.2f}")
