"""The code of the README runs."""

import re
import runpy
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_readme_is_true(tmp_path):
    blocks = re.findall(
        r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    (tmp_path / "readme.py").write_text("\n".join(blocks), encoding="utf-8")
    names = runpy.run_path(str(tmp_path / "readme.py"))
    assert names["loss"].isfinite()
    names["pipeline"].build()
