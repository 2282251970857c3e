"""Write components.md, every built-in component with its documentation, and the pages of api/."""

from __future__ import annotations

from pathlib import Path

from ccl_plugins.cli.docstrings import documentation
from ccl_plugins.kinds import registry

TARGET = Path(__file__).with_name("components.md")
HEAD = """# Components

<!-- Written by docs/reference/generate.py; run it after a change. -->

Every built-in component by kind. `ccl info KIND NAME` shows the same of plug-ins too.
"""


def render() -> str:
    """The page."""
    reg = registry()
    parts = [HEAD]
    for kind in reg.kinds:
        parts.append(f"## {kind}\n")
        for spec in reg.specs(kind):
            if spec.plugin != reg.host:
                continue
            signature = ", ".join(map(str, reg.schema(spec).parameters))
            document = documentation(spec.load())
            parts.append(
                f"### {spec.name}\n\n```text\n{spec.name}({signature})\n\n{document}\n```\n"
            )
    return "\n".join(parts)


if __name__ == "__main__":
    import generate_api  # beside this file

    TARGET.write_text(render(), encoding="utf-8")
    generate_api.write()
