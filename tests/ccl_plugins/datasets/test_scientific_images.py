"""Images as instruments give them: more than 8 bits, more than three channels."""

from __future__ import annotations

import io
import tomllib
import warnings

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image, ImageOps

import ccl_plugins as ccl
from ccl_plugins.conditions import Encoder
from ccl_plugins.datasets import ImageFolder
from ccl_plugins.datasets.annotated import Annotated
from ccl_plugins.datasets.image_files import UnreadableImage, read_image


def pixels(seed=0, shape=(6, 5), dtype=np.uint16, most=4096):
    return np.random.default_rng(seed).integers(0, most, shape).astype(dtype)


def write_pages(path, pages):
    path.parent.mkdir(parents=True, exist_ok=True)
    first, *rest = [Image.fromarray(page) for page in pages]
    first.save(path, save_all=True, append_images=rest)
    return path


@pytest.mark.parametrize("shape", [(7, 6, 5), (6, 5)])
def test_arrays_in_npy_files_are_images(tmp_path, shape):
    array = pixels(shape=shape, dtype=np.float32)
    np.save(tmp_path / "a.npy", array)
    image = read_image(str(tmp_path / "a.npy"), "all", (0, 4096))
    assert image.shape == (shape if len(shape) == 3 else (1, *shape))
    np.testing.assert_array_equal(image.squeeze(0), (array / 4096 * 255).round())


def test_arrays_that_are_no_images_say_so(tmp_path):
    np.save(tmp_path / "c.npy", np.zeros((3, 4, 4), dtype=np.uint8))
    with pytest.raises(UnreadableImage, match='is read with mode = "all"'):
        read_image(str(tmp_path / "c.npy"), "RGB")
    np.save(tmp_path / "a.npy", np.zeros((2, 2, 2, 2), dtype=np.uint8))
    with pytest.raises(
        UnreadableImage, match=r"shape \(2, 2, 2, 2\) is not \(channels, height, width"
    ):
        read_image(str(tmp_path / "a.npy"), "all")
    np.save(tmp_path / "b.npy", np.array([{}, {}]))
    with pytest.raises(UnreadableImage, match="allow_pickle"):
        read_image(str(tmp_path / "b.npy"), "all")


@pytest.mark.parametrize("levels", [(3, 3), (5, 1), (1,)])
def test_levels_must_be_two_that_rise(tmp_path, levels):
    with pytest.raises(ValueError, match=r"black and white, such as \[0, 4095\], not "):
        ImageFolder(tmp_path, levels=levels)


@pytest.mark.filterwarnings("ignore")
def test_five_channels_train_and_are_shown(tmp_path):
    for row in range(24):
        write_pages(
            tmp_path / "plates" / "ab"[row % 2] / f"{row}.tif",
            [pixels(5 * row + c) for c in range(5)],
        )
    pipeline = ccl.Pipeline(
        dataset=ccl.dataset(
            "image_folder",
            root=tmp_path / "plates",
            test_fraction=0.3,
            mode="all",
            levels=[0, 4095],
        ),
        transform=ccl.transform(
            "simclr", size=32, jitter=0.0, gray=0.0, blur=0.0, mean=[0.5] * 5, std=[0.3] * 5
        ),
        backbone=ccl.backbone("lenet5", in_channels=5),
        method=ccl.method("simclr", hidden=8, dim=8, batch_norm=False),
        objective="supcon",
        condition="label",
        evaluate=[ccl.evaluator("knn", k=3)],
    )
    run = pipeline.fit(epochs=1, batch_size=8, seed=0, out=tmp_path / "run")
    found = run.evaluate()
    assert 0 <= found["knn/top1"] <= 1
    file = tmp_path / "plates" / "a" / "0.tif"
    torch.testing.assert_close(
        run.encode([file]), run.encode(read_image(str(file), "all", (0, 4095))[None])
    )
    assert ccl.create("figure", "anchor")({"run": run}) is not None


def images(root, arrays):
    for row, array in enumerate(arrays):
        path = root / "ab"[row % 2] / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(array).save(path)
    return root


def proposed(error):
    """The levels that a message says, as a configuration would read them."""
    return tomllib.loads(f"levels = {str(error).split('levels = ')[-1].split(';')[0]}")["levels"]


def test_the_levels_that_a_refusal_proposes_are_the_range_of_the_images(tmp_path):
    arrays = [pixels(row, most=3000 + row) + 100 for row in range(20)]
    root = images(tmp_path, arrays)
    with pytest.raises(UnreadableImage, match="the range of 10 of 10") as refusal:
        ImageFolder(root, test_fraction=0.5, mode="L")("train")[3]
    train = ImageFolder(root, test_fraction=0.5, mode="L", levels=proposed(refusal.value))("train")
    found = np.stack([np.asarray(image) for image, _ in (train[i] for i in range(10))])
    assert (found.min(), found.max()) == (0, 255)


def test_the_proposed_levels_leave_images_of_8_bits_as_they_are(tmp_path):
    plain = pixels(shape=(6, 5), dtype=np.uint8, most=256)
    root = images(tmp_path, [plain, plain, pixels(), pixels()] * 3)
    with pytest.raises(UnreadableImage, match="images of 8 bits stay as they are") as refusal:
        [sample for sample in ImageFolder(root, test_fraction=0.5, mode="L")("train")]
    assert proposed(refusal.value) == {"uint16": [pixels().min(), pixels().max()]}
    levels = proposed(refusal.value)
    train = ImageFolder(root, test_fraction=0.5, mode="L", levels=levels)("train")
    for path, (image, _) in zip(train.paths, (train[i] for i in range(6)), strict=True):
        if int(path.split("/")[-1].removesuffix(".png")) % 4 < 2:
            np.testing.assert_array_equal(np.asarray(image), plain)
        else:
            assert np.asarray(image).max() == 255


@pytest.mark.parametrize("levels", [(0, 255), (0, 65535)])
@pytest.mark.parametrize("on_error", ["error", "skip"])
def test_levels_of_one_depth_are_refused_or_skipped_by_name_in_a_folder_of_several(
    tmp_path, levels, on_error
):
    plain = pixels(shape=(6, 5), dtype=np.uint8, most=256)
    root = images(tmp_path, [plain, plain, plain * np.uint16(257), plain * np.uint16(257)] * 2)
    dataset = ImageFolder(root, test_fraction=0.5, mode="L", levels=levels, on_error=on_error)
    if on_error == "error" or levels == (0, 255):
        with pytest.raises(UnreadableImage, match="have several depths, uint16 in ") as refusal:
            dataset("train")
        assert proposed(refusal.value)["uint8"] == [0, 255]
        return
    with pytest.warns(
        UserWarning, match="of 4 images .* are for deeper images than this one of uint8"
    ):
        train = dataset("train")
    brightest = {np.asarray(train[i][0]).max() for i in range(len(train))}
    assert brightest == {plain.max()}


def test_levels_between_which_nothing_is_seen_are_a_warning(tmp_path):
    root = images(tmp_path, [pixels(row) for row in range(8)])
    said = r"levels = \[0, 65535\] leave little to see: the uint16 of .* are from \d+ to 40\d\d$"
    with pytest.warns(UserWarning, match=said):
        ImageFolder(root, test_fraction=0.5, mode="L", levels=(0, 65535))("train")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ImageFolder(root, test_fraction=0.5, mode="L", levels=(0, 4095))("train")


def write_tiff(path, array, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    tifffile.imwrite(path, array, metadata=None, **options)


def trained(dataset, out, batch_size=4):
    return ccl.Pipeline(
        dataset=dataset,
        transform=ccl.transform("simclr", size=32),
        backbone="lenet5",
        method=ccl.method("simclr", hidden=8, dim=8, batch_norm=False),
        objective="infonce",
        evaluate=[],
    ).fit(epochs=1, batch_size=batch_size, seed=0, out=out)


@pytest.mark.filterwarnings("ignore")
def test_a_run_encodes_files_opened_images_arrays_and_samples_alike(tmp_path):
    for row in range(16):
        file = tmp_path / "plates" / "ab"[row % 2] / f"{row}.tif"
        write_tiff(file, pixels(row, (40, 40, 3)), photometric="rgb")
    folder = {"use": "image_folder", "root": tmp_path / "plates", "test_fraction": 0.5}
    trained({"use": "subset", "of": {**folder, "levels": [0, 4095]}}, tmp_path / "run")
    run = ccl.load(tmp_path / "run")
    assert run.record.reading == {"mode": "RGB", "levels": [0.0, 4095.0], "page": None}
    train = run.dataset("train")
    path = train.samples.dataset.paths[2]
    row = int(path.split("/")[-1].removesuffix(".tif"))
    array = pixels(row, (40, 40, 3)).transpose(2, 0, 1)
    expected = run.encode([train[2][0]])
    torch.testing.assert_close(run.features("train").features[2:3], expected)
    for each in (path, Image.open(path), array, torch.from_numpy(array)):
        torch.testing.assert_close(run.encode([each]), expected)


@pytest.mark.parametrize("source", ["files", "own"])
@pytest.mark.filterwarnings("ignore")
def test_a_run_encodes_an_opened_photo_upright(tmp_path, source):
    exif = Image.Exif()
    exif[0x0112] = 6
    for row in range(8):
        path = tmp_path / "photos" / "ab"[row % 2] / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels(row, (40, 50, 3), np.uint8, 256)).save(path, exif=exif)
    photos = [Image.open(path) for path in sorted((tmp_path / "photos").rglob("*.png"))]
    dataset = ccl.dataset("image_folder", root=tmp_path / "photos", test_fraction=0.5)
    if source == "own":
        own, labels = [photo.copy() for photo in photos], {"label": [0, 1] * 4}
        of = {"train": own, "test": own, "metadata": labels, "test_metadata": labels}
        dataset = ccl.create("dataset", "torch", **of)
    run = trained(dataset, tmp_path / "run", batch_size=2)
    expected = run.encode([ImageOps.exif_transpose(photo) for photo in photos])
    torch.testing.assert_close(run.encode(photos), expected)
    torch.testing.assert_close(run.encode([photo.filename for photo in photos]), expected)
    if source == "own":
        torch.testing.assert_close(run.features("train").features, expected)


def test_an_encoder_sees_images_upright_and_refuses_to_cut_their_bits(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    file = io.BytesIO()
    Image.fromarray(pixels(0, (40, 50), np.uint8, 256)).save(file, "PNG", exif=exif)
    photo = Image.open(file)
    columns = {"label": torch.zeros(2, dtype=torch.long)}
    condition = Encoder("resnet10t", pretrained=False, image_size=32, cache=tmp_path)
    both = Annotated([photo, ImageOps.exif_transpose(photo)], columns)
    turned, upright = condition.fit(both, None, None)
    torch.testing.assert_close(turned, upright)
    deep = Image.fromarray(pixels(0, (40, 40)))
    with pytest.raises(UnreadableImage, match=r"uint16 from .* have more than 8 bits"):
        condition.fit(Annotated([deep, deep], columns), None, None)


@pytest.mark.filterwarnings("ignore")
def test_data_sets_that_read_in_several_ways_leave_it_to_tensors(tmp_path):
    plain = pixels(shape=(40, 40), dtype=np.uint8, most=256)
    root = images(tmp_path / "images", [plain] * 8)
    folder = {"use": "image_folder", "root": root, "test_fraction": 0.5}
    other = {**folder, "mode": "L", "levels": [0, 100]}
    pairs = (({"a": folder, "b": folder}, "RGB"), ({"a": other, "b": "color_digits"}, "L"))
    for of, mode in pairs:
        assert ccl.create("dataset", "mixed", of=of)("train").reading["mode"] == mode
    run = trained(ccl.dataset("mixed", of={"a": folder, "b": other}), tmp_path / "run")
    assert run.record.reading is None
    with pytest.raises(ValueError, match="read images in several ways"):
        run.encode([plain])
    assert len(run.encode(torch.from_numpy(plain)[None, None])) == 1
