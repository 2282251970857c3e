"""The README's code runs."""

import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_code_of_the_readme_runs():
    for block in re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL):
        exec(compile(block, "README.md", "exec"), {"__name__": "__main__"})  # noqa: S102  a page of ours
