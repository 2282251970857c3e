"""A condition on the font, with batches of whole fonts.

The fonts come with matplotlib; four families are kept for tests.  InfoNCE learns to tell fonts apart.
Fair-CCLK contrasts a letter with letters of its own font, where the font does not help.  A batch drawn at
random has few letters of each font, so `m_per_class` draws all 52 letters of a font.
"""

import string
import warnings
from pathlib import Path

import matplotlib

import ccl_plugins as ccl

EPOCHS = 40

warnings.filterwarnings("ignore", "of .* fonts")  # those of symbols lack letters
warnings.filterwarnings(
    "ignore", "the measured samples"
)  # four families are too few for an interval

common = {
    "dataset": ccl.dataset(
        "fonts",
        folders=str(Path(matplotlib.get_data_path(), "fonts", "ttf")),
        letters=string.ascii_letters,
        test_fraction=0.3,
    ),
    "transform": ccl.transform(
        "simclr",
        size=32,
        min_scale=0.6,
        flip=0,
        jitter=0,
        gray=0,
        blur=0,
        mean=[0.9],
        std=[0.25],
        batched=True,
    ),
    "backbone": ccl.backbone("lenet5", in_channels=1),
    "method": ccl.method("simclr", hidden=128, dim=128, batch_norm=False),
    "sampler": ccl.sampler("m_per_class", m=52, columns="font"),
    "evaluate": ["knn"],
    "monitor": "off",
}
pipelines = {
    "InfoNCE": ccl.Pipeline(**common, objective=ccl.objective("infonce", temperature=0.1)),
    "Fair-CCLK": ccl.Pipeline(
        **common,
        objective=ccl.objective("fair_cclk", kernel="delta", temperature=0.1),
        condition=ccl.condition("column", name="font"),
    ),
}

rows = {}
for name, pipeline in pipelines.items():
    run = pipeline.fit(
        out=f"runs/gallery/typefaces/{name}",
        epochs=EPOCHS,
        batch_size=208,
        optimizer=ccl.optimizer("adamw", lr=3e-3),
        workers=0,
        progress=False,
        overwrite=True,
    )
    rows.setdefault("untrained", run.before)
    rows[name] = run.evaluate()
for name, found in rows.items():
    print(f"{name:<11}letter {found['knn/top1']:.2f}")
