"""``load.py``: the lines that load a shared backbone and prepare images, without this library."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ccl_plugins.experiments.layout import WEIGHTS

CONSTANTS = "constants.safetensors"
"""Tensors that a backbone computes with, and that are no weights."""


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
        images,
    )


def torch_loader(program: Any, config: Mapping[str, Any], keys: Mapping[str, str]) -> str:
    """``load.py`` of any backbone: what it computes, written as a function of PyTorch.

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
    """What a program computes, as a function of its tensors and of images."""
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


def _file(load: str, standard: str, imports: str, images: Mapping[str, Any]) -> str:
    prepare = _prepare(images) if "mean" in images else ""
    if prepare:
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


def _prepare(images: Mapping[str, Any]) -> str:
    """The function from an image to what the backbone takes, as the run's transform made it."""
    channels, size, _ = images["input_size"]
    mode = {1: "L", 3: "RGB"}.get(channels)
    convert = f'image.convert("{mode}")' if mode else "image"
    return f'''

def prepare(image):
    """A PIL image, or a tensor of uint8 ([n,] {channels}, height, width), as {_images(images)}."""
    if not isinstance(image, torch.Tensor):
        image = pixels.pil_to_tensor({convert})
    if image.shape[-2:] != ({size}, {size}):
        image = pixels.center_crop(pixels.resize(image, [{size}]), [{size}])
    mean = torch.tensor({images["mean"]})
    std = torch.tensor({images["std"]})
    image = (image.float() * (1 / 255) - mean[:, None, None]) / std[:, None, None]
    return image if image.ndim == 4 else image[None]
'''


def _images(images: Mapping[str, Any]) -> str:
    shape = ", ".join(map(str, images.get("input_size", ("channels", "height", "width"))))
    return f"{'images' if 'mean' in images else 'samples'} (n, {shape})"
