"""Fonts of a few letters, whose shapes are rectangles."""

from __future__ import annotations

from pathlib import Path

from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen


def write_font(
    path: Path,
    family: str = "Boxes",
    letters: str = "Aa",
    weight: int = 400,
    width: int = 5,
    angle: float = 0.0,
    blank: str = "",
    index: int = 0,
) -> Path:
    """A font file in which the k-th letter is a box that stands on the line, 100 (k + 1) units wide.

    Args:
        path: Where.
        family: Its name.
        letters: What it has.
        weight: What it states; boxes are as high as that.
        width: What it states.
        angle: What it states, to the left.
        blank: Letters of it without a shape.
        index: The k-th box is higher by ``index * (k + 1)`` units, for shapes of its own.
    """
    names = [".notdef", *(f"u{ord(letter):04X}" for letter in letters)]
    glyphs = {".notdef": TTGlyphPen(None).glyph()}
    for number, (name, letter) in enumerate(zip(names[1:], letters, strict=True)):
        pen = TTGlyphPen(None)
        if letter not in blank:
            right, top = 100 * (number + 1), weight + index * (number + 1)
            pen.moveTo((0, 0))
            for corner in ((0, top), (right, top), (right, 0)):
                pen.lineTo(corner)
            pen.closePath()
        glyphs[name] = pen.glyph()
    font = FontBuilder(1000, isTTF=True)
    font.setupGlyphOrder(names)
    font.setupCharacterMap(dict(zip(map(ord, letters), names[1:], strict=True)))
    font.setupGlyf(glyphs)
    font.setupHorizontalMetrics({name: (1000, 0) for name in names})
    font.setupHorizontalHeader(ascent=1000, descent=0)
    font.setupNameTable({"familyName": family, "styleName": "Regular"})
    font.setupOS2(usWeightClass=weight, usWidthClass=width)
    font.setupPost(italicAngle=angle)
    path.parent.mkdir(parents=True, exist_ok=True)
    font.save(path)
    return path
