"""Nearest neighbors by the cosine of features, and small pictures of samples."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

SIDE = 64
"""Pixels of the longer side of a small picture."""

PART = 2**25
"""The most cosines held at once."""


def nearest(
    queries: Tensor, bank: Tensor, k: int, *, leave_out_own: bool = False
) -> tuple[Tensor, Tensor]:
    """The k rows of a bank that are most similar to each query, the most similar first.

    Args:
        queries: (n, f) features.
        bank: (N, f) features, with more than k rows.
        k: Neighbors.
        leave_out_own: Whether row i of the bank is query i itself and must not count as a neighbor.

    Returns:
        Rows (n, k), and their cosine distances (n, k), 0 to 2.
    """
    unit = functional.normalize(bank.float(), dim=1)
    rows, distances = [], []
    first = 0
    for part in functional.normalize(queries.float(), dim=1).split(max(1, PART // len(bank))):
        cosines = part @ unit.T
        if leave_out_own:
            own = torch.arange(len(part))
            cosines[own, first + own] = -torch.inf
        values, nearest_rows = cosines.topk(k, dim=1)
        rows.append(nearest_rows)
        distances.append((1 - values).clamp(0, 2))
        first += len(part)
    return torch.cat(rows), torch.cat(distances)


def thumbnail(image: Any) -> tuple[bytes, str] | None:
    """A small picture of a sample, as the bytes of a file and its media type; None if it is not an image.

    Args:
        image: A PIL image, or a tensor or array (channels, height, width) or (height, width), uint8 or
            floats in [0, 1]; of more channels than three, the first three are shown.
    """
    picture = _as_pil(image)
    if picture is None:
        return None
    picture.thumbnail((SIDE, SIDE))
    buffer = io.BytesIO()
    # Small drawings stay exact; photographs would take ten times the bytes as PNG.
    if max(picture.size) <= SIDE // 2:
        picture.save(buffer, "PNG", optimize=True)
        return buffer.getvalue(), "image/png"
    picture.save(buffer, "JPEG", quality=85)
    return buffer.getvalue(), "image/jpeg"


def data_uri(content: bytes, media_type: str) -> str:
    """Bytes as a data URL."""
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def _as_pil(image: Any) -> Any:
    if isinstance(image, Image.Image):
        return image.convert("RGB")
    pixels = np.asarray(image)
    if pixels.ndim == 3 and (isinstance(image, torch.Tensor) or pixels.shape[0] in (1, 3, 4)):
        pixels = pixels[: 3 if len(pixels) > 2 else 1].transpose(1, 2, 0)
    if pixels.ndim == 3 and pixels.shape[-1] == 1:
        pixels = pixels[..., 0]
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[-1] != 3):
        return None
    if pixels.dtype.kind == "f":
        pixels = (255 * pixels.clip(0, 1)).round()
    return Image.fromarray(pixels.astype(np.uint8)).convert("RGB")
