"""Guides: keep the digit in the features, and take the color of its background out of them.

One guide trains the features to predict the digit, the other removes the
color. Expect that with both, R² of the color falls and the digit is named more often.
``examples/guided_color.toml`` is the pipeline as a file, and
``docs/how-to/keep-and-suppress.md`` has its numbers.
"""

import ccl_plugins as ccl

EPOCHS = 6

common = {
    "dataset": "color_digits",
    "transform": ccl.transform(
        "simclr", size=32, min_scale=0.5, flip=0, jitter=0, gray=0, blur=0, batched=True
    ),
    "backbone": "lenet5",
    "method": ccl.method("simclr", hidden=128, dim=128, batch_norm=False),
    "evaluate": ["knn", ccl.evaluator("regression", column="color")],
    "monitor": "off",
}
infonce = ccl.objective("infonce", temperature=0.1)
digit = {"on": "digit", "keep": True, "by": "classification"}
color = {"on": "color", "keep": False, "by": "regression", "weight": 3.0}
pipelines = {
    "InfoNCE": ccl.Pipeline(**common, objective=infonce),
    "keep the digit": ccl.Pipeline(
        **common,
        objective=ccl.objective("guided", base=infonce, guides=[digit]),
        conditions={"digit": "label"},
    ),
    "and suppress the color": ccl.Pipeline(
        **common,
        objective=ccl.objective("guided", base=infonce, guides=[digit, color]),
        conditions={"digit": "label", "color": ccl.condition("column", name="color")},
    ),
}

rows = {}
for name, pipeline in pipelines.items():
    run = pipeline.fit(
        out=f"runs/gallery/keep_and_suppress/{name}",
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
    print(f"{name:<23}digit {found['knn/top1']:.2f}, color R² {found['color/r2']:.2f}")
