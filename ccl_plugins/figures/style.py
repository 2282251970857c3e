"""The one style of all figures, and how they are saved."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

from ccl_plugins.files.atomic import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

P = ParamSpec("P")

TEXT = "#767676"
"""Text and axes: a gray with a contrast of 4.5 on white and of 4.6 on black."""
FAINT = "#9a9a9a"
"""Lines that only guide the eye."""
RUNS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9")
"""One color per run, for any color vision (Okabe and Ito), without black and yellow."""
CLASSES = (
    "#3f90da",
    "#ffa90e",
    "#bd1f01",
    "#94a4a2",
    "#832db6",
    "#a96b59",
    "#e76300",
    "#b9ac70",
    "#717581",
    "#92dadd",
)
"""One color per class (Petroff 2021), made for color-vision deficiencies."""
NUMBERS = "cividis"
"""The colors of numbers: larger numbers are brighter, for any color vision."""
MARKERS = ("o", "s", "^", "D", "v", "P")
"""One marker per run, in addition to its color."""
DPI = 150

_STYLE: dict[str, Any] = {
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "savefig.transparent": False,
    "axes.facecolor": "none",
    "figure.dpi": 100,
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "text.color": TEXT,
    "axes.labelcolor": TEXT,
    "axes.titlecolor": TEXT,
    "axes.edgecolor": FAINT,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": TEXT,
    "ytick.labelcolor": TEXT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": FAINT,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "image.interpolation": "nearest",
    "image.cmap": NUMBERS,
    # A dollar sign in a folder's name is no formula.
    "text.parse_math": False,
    "svg.hashsalt": "ccl-plugins",
    "svg.fonttype": "none",
}


_PAPER: dict[str, Any] = {
    **dict.fromkeys(("figure.facecolor", "savefig.facecolor", "axes.facecolor"), "white"),
    **{
        key: "black"
        for key, value in _STYLE.items()
        if value in (TEXT, FAINT) and key != "grid.color"
    },
    **{key: value - 1 for key, value in _STYLE.items() if key.endswith("size")},
    "pdf.fonttype": 42,
}
"""The style for paper: a white ground, black text, and smaller letters for the width of a column."""

COLUMNS = (3.35, 6.9)
"""The widths of one and of two columns, in inches."""

_ON_PAPER = ContextVar("on_paper", default=False)


@contextmanager
def on_paper() -> Iterator[None]:
    """Figures that are drawn and saved inside are for print: one or two columns wide, on white."""
    token = _ON_PAPER.set(True)
    try:
        yield
    finally:
        _ON_PAPER.reset(token)


def styled(draw: Callable[P, Any]) -> Callable[P, Any]:
    """Run a function under the style alone, whatever the user's matplotlib settings are."""

    @functools.wraps(draw)
    def drawing(*args: P.args, **kwargs: P.kwargs) -> Any:
        import matplotlib

        settings: Any = {
            key: value
            for key, value in matplotlib.rcParamsDefault.items()
            if not key.startswith(("backend", "interactive", "toolbar", "webagg", "date.epoch"))
        }
        settings |= _STYLE | (_PAPER if _ON_PAPER.get() else {})
        ticks, labels = settings["xtick.color"], settings["xtick.labelcolor"]
        with matplotlib.rc_context(settings):
            result = draw(*args, **kwargs)
            for axes in getattr(result, "axes", ()):
                # Ticks are made when they are drawn, perhaps under other settings.
                axes.tick_params(which="both", color=ticks, labelcolor=labels)
            return result

    return drawing


def figure(width: float, height: float) -> Figure:
    """An empty figure of a size in inches, whose layout keeps texts apart; on paper, of whole columns."""
    if _ON_PAPER.get():
        one, two = COLUMNS
        column = one if width <= 4 else two
        width, height = column, height * column / width
    return _shown_in_notebooks()(figsize=(width, height), layout="constrained")


@functools.cache
def _shown_in_notebooks() -> type[Figure]:
    """The class of figures, defined on first use because matplotlib is slow to import."""
    from matplotlib.figure import Figure

    class Picture(Figure):
        """A figure that a notebook shows although pyplot does not manage it."""

        def _repr_png_(self) -> bytes:
            return png(self)

    return Picture


def class_colors(count: int) -> list[Any]:
    """A color per class; of more than ten classes, colors in the order of their ids."""
    if count <= len(CLASSES):
        return list(CLASSES[:count])
    import matplotlib

    return [*matplotlib.colormaps[NUMBERS].resampled(count)(range(count))]


def short(title: str, most: int = 24) -> str:
    """A title, cut in the middle to at most the given number of characters."""
    half = (most - 1) // 2
    return title if len(title) <= most else f"{title[:half]}…{title[-half:]}"


def save(figure: Figure, path: str | Path) -> tuple[Path, ...]:
    """Write a figure as SVG and PNG, transparent; the same bytes for the same figure.

    Inside of `on_paper`, the ground is white, the PNG has 300 dots per inch, and there is a PDF.

    Args:
        figure: The figure.
        path: The files without their endings; an ending ``.svg`` or ``.png`` is left out.

    Returns:
        The files ``path.svg`` and ``path.png``, on paper also ``path.pdf``.

    Raises:
        OSError: If a file cannot be written, as on a full disk; an older file stays whole.
    """
    path = Path(path).expanduser()
    stem = path.name.removesuffix(".svg").removesuffix(".png")
    contents = {".svg": svg(figure).encode(), ".png": png(figure)}
    if _ON_PAPER.get():
        contents[".pdf"] = _written(figure, "pdf", metadata={"CreationDate": None})
    files = tuple(path.with_name(f"{stem}{ending}") for ending in contents)
    for file, content in zip(files, contents.values(), strict=True):
        with atomic_write(file) as temporary:
            temporary.write_bytes(content)
    return files


@styled
def _written(figure: Figure, format: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=format, **options)
    return buffer.getvalue()


def png(figure: Figure) -> bytes:
    """A figure as PNG."""
    dpi = 300 if _ON_PAPER.get() else DPI
    return _written(figure, "png", dpi=dpi, metadata={"Software": None})


def svg(figure: Figure) -> str:
    """A figure as an ``<svg>`` element, to be written into a file or an HTML page.

    It has no XML declaration, no date, and only ids that it refers to.
    """
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    text = _written(figure, "svg", metadata=nothing).decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # A layout that is solved again differs in the seventh digit.
    places = r' (?:x|y|d)="[^"]*"|(?:translate|rotate)\([^)]*\)'
    text = re.sub(places, lambda m: _rounded(m[0]), text)
    text = re.sub(r"('DejaVu Sans'), [^;\"]*(, sans-serif)", r"\1\2", text)
    used = {*re.findall(r'(?:href="#|url\(#)([^")]+)', text)}
    return re.sub(r' id="([^"]*)"', lambda m: m[0] if m[1] in used else "", text)


def _rounded(text: str) -> str:
    """Round places to a hundredth of a point, which is invisible and halves the file."""
    return re.sub(r"-?\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}", text)
