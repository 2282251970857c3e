"""Settings of Sphinx."""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "ccl-plugins"
author = copyright = "The ccl-plugins authors"
version = release = metadata.version(project)
extensions = [
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinxcontrib.bibtex",
]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_output_stderr = "remove"

bibtex_bibfiles = [str(HERE / "references.bib")]
bibtex_reference_style = "author_year"
add_module_names = True
python_maximum_signature_line_length = 80
# Annotations name classes by their short name, which several public modules may export.
suppress_warnings = ["ref.python"]

html_theme = "furo"
html_title = project
templates_path = [str(HERE / "templates")]
html_static_path = [str(HERE / "static")]
html_css_files = ["site.css"]
html_favicon = str(HERE / "static" / "favicon.svg")
html_search_scorer = str(HERE / "scorer.js")
html_copy_source = html_show_sourcelink = False
html_math_renderer = "mathml"
pygments_style, pygments_dark_style = "a11y-high-contrast-light", "a11y-high-contrast-dark"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

_FUNCTION = re.compile(
    r"(\\log|\\(?:operatorname|mathrm)\{\w+\}(?:_(?:\{[^{}]*\}|\w))?) (?=[\w\\](?!left|,))"
)
"""A function before an argument without parentheses, which needs a space that docutils does not add."""


def _mathml(tex: str, as_block: bool) -> str:
    return tex2mathml(_FUNCTION.sub(r"\1 \\, ", tex), as_block=as_block)


def _visit_inline(self: Any, node: nodes.math) -> None:
    self.body.append(_mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def _visit_block(self: Any, node: nodes.math_block) -> None:
    self.body.append(f'<div class="math">{_mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Formulas are MathML, written by docutils: no script, no font, no other host."""
    from navigation import add_sidebar  # beside this file

    app.connect("html-page-context", add_sidebar, priority=100)  # before furo
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
