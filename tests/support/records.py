"""Records of released versions, one file each, which later versions must load.

Run this file to write that of this version, before it is released.
"""

from __future__ import annotations

from support.imports import ROOT

import ccl_plugins as ccl

RECORDS = ROOT / "tests" / "support" / "records"

if __name__ == "__main__":
    pipeline = ccl.Pipeline.from_toml(ROOT / "examples" / "color_digits_fair.toml")
    (RECORDS / f"{ccl.__version__}.json").write_text(pipeline.to_json(), encoding="utf-8")
