"""``load.py``: the lines that load a shared backbone and prepare images, without this library."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ccl_plugins.experiments.export import WEIGHTS

CONSTANTS = "constants.safetensors"
"""Tensors that a backbone computes with and that are not weights."""


def timm_loader(config: Mapping[str, Any]) -> str:
    """``load.py`` of a model of timm.

    Args:
        config: The ``config.json`` of the folder, as timm reads it.
    """
    images = config["pretrained_cfg"]
    return _file(
        f'''\
def load():
    """The model in evaluation mode: {_images(images)} to features (n, {config["num_features"]})."""
    return timm.create_model(f"local-dir:{{FOLDER}}", pretrained=True).eval()
''',
        "",
        "import timm\nimport torch",
        config,
    )


def torch_loader(program: Any, config: Mapping[str, Any], keys: Mapping[str, str]) -> str:
    """``load.py`` of any backbone: its computation, written as a function of PyTorch.

    Args:
        program: The backbone as a program of `torch.export`.
        config: The ``config.json`` of the folder.
        keys: For each tensor of the program, its name in the folder's files.

    Raises:
        ValueError: If the program does more than call functions of PyTorch.
    """
    files = [WEIGHTS, CONSTANTS] if program.constants else [WEIGHTS]
    stored = " | ".join(f'load_file(FOLDER / "{file}", device)' for file in files)
    return _file(
        f'''\
def load(device="cpu"):
    """The backbone in evaluation mode: {_images(config)} to features (n, {config["num_features"]})."""
    return functools.partial(_features, {stored})


{_function(program, keys)}''',
        "import functools\n",
        "import torch\nfrom safetensors.torch import load_file",
        config,
    )


def _function(program: Any, keys: Mapping[str, str]) -> str:
    """The code of a program, as a function of its tensors and of images."""
    from torch.export.graph_signature import InputKind, OutputKind

    graph, signature = program.graph_module.graph, program.graph_signature
    others = {node.op for node in graph.nodes} - {"placeholder", "call_function", "output"}
    if others or [each.kind for each in signature.output_specs] != [OutputKind.USER_OUTPUT]:
        raise ValueError(
            "the backbone cannot be written as a function of PyTorch: it has branches of its own, or more"
            f" than features to give ({', '.join(sorted(others)) or 'outputs'}); ccl export --format torch"
            " may write it as a program"
        )
    tensors = {
        spec.arg.name: keys[spec.target]
        for spec in signature.input_specs
        if spec.kind is not InputKind.USER_INPUT
    }
    (images,) = signature.user_inputs
    head = [f"def _features(stored, {images}):", f"device = {images}.device"]
    taken = [f"{name} = stored[{json.dumps(key)}]" for name, key in tensors.items()]
    return "\n    ".join([*head, *taken, *_body(graph)]) + "\n"


def _body(graph: Any) -> Iterator[str]:
    """The lines of a graph's function."""
    (_, *lines) = graph.python_code("self").src.strip().splitlines()
    for line in map(str.strip, lines):
        # The device that it was traced on gives way to that of the images.
        line = line.replace("device(type='cpu')", "device")
        if line.startswith("return ("):
            line = f"return {line.removeprefix('return (').removesuffix(',)')}"
        yield line


def _file(load: str, standard: str, imports: str, config: Mapping[str, Any]) -> str:
    images = config.get("pretrained_cfg", config)
    prepare = _prepare(images, config["ccl_plugins"]) if "mean" in images else ""
    if prepare:
        imports = f"import numpy as np\n{imports}\nfrom PIL import Image, ImageOps, ImageSequence"
        imports += "\nfrom torchvision.transforms.v2 import functional as pixels"
    # The names that the code of a graph may have.
    numbers = [name for name in ("inf", "nan") if re.search(rf"\b{name}\b", load)]
    more = f"from math import {', '.join(numbers)}\n" if numbers else ""
    shape = ", ".join(map(str, images.get("input_size", (3, 224, 224))))
    return f'''\
"""Load this backbone, without the library that it was trained with."""

{standard}{more}from pathlib import Path

{imports}

FOLDER = Path(__file__).resolve().parent


{load}{prepare}

if __name__ == "__main__":
    with torch.no_grad():
        print(load()(torch.zeros(2, {shape})).shape)
'''


def _prepare(images: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """The function that prepares an image for the backbone, like data set and transform did."""
    channels, size, _ = images["input_size"]
    way = known.get("reading") or {"mode": {1: "L", 3: "RGB"}.get(channels, "all")}
    return f'''

MODE = "{way["mode"]}"  # gray, RGB, or all channels of all pages of an image
LEVELS = {way.get("levels")!r}  # the numbers of pixels that are black and white, of all or by type
PAGE = {way.get("page")!r}  # which page is read of several


def prepare(image):
    """What `load()` takes: {_images(images)}, of images read as in training.

    Args:
        image: A tensor of uint8 ([n,] channels, height, width) that is read already; or a PIL image, or a
            numpy array ([channels,] height, width), with the numbers that its file holds.
    """
    if not isinstance(image, torch.Tensor):
        image = _read(image)
    if image.shape[-2:] != ({size}, {size}):
        image = pixels.center_crop(pixels.resize(image, [{size}]), [{size}])
    mean = torch.tensor({images["mean"]})
    std = torch.tensor({images["std"]})
    image = (image.float() * (1 / 255) - mean[:, None, None]) / std[:, None, None]
    return image if image.ndim == 4 else image[None]


def _read(image):
    """(channels, height, width) of uint8 of a PIL image or an array."""
    if isinstance(image, np.ndarray):
        pages = [image.transpose(1, 2, 0) if image.ndim == 3 else image[..., None]]
    else:
        several = image.format in ("TIFF", "PNG", "WEBP", "GIF") and getattr(image, "n_frames", 1) > 1
        if several and MODE != "all" and PAGE is None:
            raise ValueError(f"it has {{image.n_frames}} pages: seek one, and give its copy()")
        if several and PAGE is not None:
            image.seek(PAGE)
        every = several and PAGE is None
        pages = [_numbers(page) for page in (ImageSequence.Iterator(image) if every else [image])]
    values = _in_8_bits(np.concatenate(pages, axis=2))
    if MODE == "all":
        return torch.from_numpy(np.ascontiguousarray(values.transpose(2, 0, 1)))
    image = Image.fromarray(values[..., 0] if values.shape[2] == 1 else values)
    return pixels.pil_to_tensor(image.convert(MODE))


def _numbers(image):
    """(height, width, channels): the numbers of a PIL image."""
    deep = image.mode[0] in "IF"
    if not deep and any(";16" in str(tile[3]) for tile in getattr(image, "tile", ())):
        raise ValueError("PIL cuts the 16 bits of its colors to 8: give an array of its numbers")
    image = ImageOps.exif_transpose(image)
    if not deep and (MODE != "all" or image.mode in ("1", "P")):
        image = image.convert("L" if image.mode in ("1", "L", "LA") else "RGB")
    values = np.asarray(image)
    return values if values.ndim == 3 else values[..., None]


def _in_8_bits(values):
    ends = LEVELS.get(values.dtype.newbyteorder("=").name) if isinstance(LEVELS, dict) else LEVELS
    if ends is None:
        if values.dtype != np.uint8:
            raise ValueError(f"its numbers are {{values.dtype}}, and training knew no levels of these")
        return values
    if values.dtype.kind in "iu" and isinstance(LEVELS, list) and ends[1] > 2 * np.iinfo(values.dtype).max:
        raise ValueError(f"the levels of training, {{ends}}, are of deeper images than {{values.dtype}}")
    black, white = ends
    wide = values.itemsize > (4 if values.dtype.kind == "f" else 2)
    shares = (values.astype(np.float64 if wide else np.float32) - black) / (white - black)
    return (255 * shares.clip(0, 1)).round().astype(np.uint8)
'''


def _images(images: Mapping[str, Any]) -> str:
    shape = ", ".join(map(str, images.get("input_size", ("channels", "height", "width"))))
    return f"{'images' if 'mean' in images else 'samples'} (n, {shape})"
