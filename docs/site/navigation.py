"""The sidebar: the parts of the site, with the part of the present page open.

Furo's has every page of the site with all that is below it, which takes most of the time of a build of
hundreds of pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from sphinx import addnodes


def add_sidebar(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Give the page its sidebar, and Furo none to make."""
    context["contents"] = _contents(app, page)
    context.pop("toctree", None)


def _contents(app: Any, page: str) -> str:
    env, root = app.env, app.config.root_doc
    above = {child: name for name, below in env.toctree_includes.items() for child in below}
    path = [page]
    while path[-1] in above and path[-1] != root:
        path.append(above[path[-1]])

    def listed(names: Sequence[str], level: int) -> str:
        items = []
        for name in names:
            current = " current" if name in path else ""
            link = f'<a class="reference internal{current}" href="{escape(uri(name))}">'
            below = env.toctree_includes.get(name, [])
            items.append(
                f'<li class="toctree-l{level}{current}{" current-page" * (name == page)}">'
                f"{link}{escape(env.titles[name].astext())}</a>"
                f"{listed(below, level + 1) if current and below else ''}</li>"
            )
        return f"<ul>{''.join(items)}</ul>"

    def uri(name: str) -> str:
        return str(app.builder.get_relative_uri(page, name))

    parts = []
    for node in env.tocs[root].findall(addnodes.toctree):
        names = [name for _, name in node["entries"]]
        opened = " open" if any(name in path for name in names) else ""
        caption = f'<summary class="caption">{escape(node["caption"])}</summary>'
        parts.append(f"<details{opened}>{caption}{listed(names, 1)}</details>")
    return "".join(parts)
