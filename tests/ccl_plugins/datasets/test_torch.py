from __future__ import annotations

import gzip
import inspect
import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import IterableDataset, Subset, TensorDataset
from torchvision import datasets as torchvision_datasets

from ccl_plugins.datasets import TorchDataset, TorchVision
from ccl_plugins.datasets.annotated import Annotated
from ccl_plugins.datasets.torchvision import SPLITS

IMAGES = torch.arange(4 * 3 * 4).reshape(4, 3, 2, 2).to(torch.uint8)


class Frame:
    """As much of a data frame as is asked for."""

    columns = ("label", "age")

    def __getitem__(self, name):
        return {"label": np.array(["b", "a", "b", "a"]), "age": np.array([1.0, 2, 3, 4])}[name]


def test_a_dataset_of_ones_own_gets_a_table():
    own = TensorDataset(IMAGES, torch.zeros(4))
    dataset = TorchDataset(
        own, own, Frame(), {"label": ["c", "c", "a", "a"], "age": [1.0, 2, 3, 4]}
    )
    assert dataset.schema() == {"label": "categorical", "age": "continuous"}
    train, test = dataset("train"), dataset("test")
    assert train.vocabulary == {"label": ["a", "b", "c"]}
    assert (train.metadata["label"].tolist(), test.metadata["label"].tolist()) == (
        [1, 0, 1, 0],
        [2, 2, 0, 0],
    )
    image, target = train[2]
    assert torch.equal(image, IMAGES[2])
    assert target == 1


def test_labels_are_found_where_torchvision_keeps_them():
    class Own(list):
        targets = [3, 1, 2, 0]  # noqa: RUF012  # as torchvision has them

    own = Own(IMAGES)
    dataset = TorchDataset(own, Subset(own, [2, 0]))
    assert dataset("train").metadata["label"].tolist() == [3, 1, 2, 0]
    assert dataset("test").metadata["label"].tolist() == [2, 3]
    assert torch.equal(dataset("test")[0][0], IMAGES[2])


def test_a_dataset_may_have_its_metadata_already():
    class Own(list):
        metadata = {"label": torch.arange(4), "color": torch.rand(4, 3)}  # noqa: RUF012  # fixed

    dataset = TorchDataset(Own(IMAGES), Own(IMAGES))
    assert dataset.schema() == {"label": "categorical", "color": "continuous"}


def test_what_is_missing_is_said_before_an_image_is_read():
    own = TensorDataset(IMAGES)
    with pytest.raises(
        ValueError, match=r"train: a TensorDataset has neither .* columns are \['z'\]"
    ):
        TorchDataset(own, own, {"z": [1, 2, 3, 4]})
    with pytest.raises(
        ValueError, match=r"test has 4 samples, but there are rows in \{'label': 3\}"
    ):
        TorchDataset(own, own, {"label": [1, 2, 3, 4]}, {"label": [1, 2, 3]})

    class Stream(IterableDataset):
        def __iter__(self):
            return iter(())

    with pytest.raises(TypeError, match=r"train must have a length .* which a Stream does not"):
        TorchDataset(Stream(), own)
    with pytest.raises(TypeError, match="a mapping of columns or a data frame, not list"):
        TorchDataset(own, own, [1, 2, 3, 4])


def idx(values):
    sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
    return gzip.compress(bytes([0, 0, 8, values.ndim]) + sizes + values.numpy().tobytes())


def write_torchvision_mnist(root):
    from torchvision.datasets.utils import extract_archive

    folder = root / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for stem, size in (("train", 6), ("t10k", 4)):
        images = torch.arange(size * 4).reshape(size, 2, 2).to(torch.uint8)
        for name, values in (("images-idx3", images), ("labels-idx1", images[:, 0, 0] // 4)):
            path = folder / f"{stem}-{name}-ubyte.gz"
            path.write_bytes(idx(values))
            extract_archive(str(path), str(folder))


def test_torchvision_s_gray_images_have_one_channel(tmp_path):
    write_torchvision_mnist(tmp_path)
    dataset = TorchVision("MNIST", root=tmp_path)
    train, test = dataset("train"), dataset("test")
    assert (train.images.shape, test.images.shape) == ((6, 1, 2, 2), (4, 1, 2, 2))
    assert train.images[1].flatten().tolist() == [4, 5, 6, 7]
    assert train.metadata["label"].tolist() == [0, 1, 2, 3, 4, 5]
    assert dataset.schema() == {"label": "categorical"}


def test_cifar_s_channels_come_first(tmp_path, monkeypatch):
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    image = np.arange(3 * 32 * 32) % 256
    batch = {"data": np.stack([image] * 2).astype(np.uint8), "labels": [7, 3]}
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        (folder / name).write_bytes(pickle.dumps(batch))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": list("abcdefghij")}))
    monkeypatch.setattr("torchvision.datasets.cifar.check_integrity", lambda *_: True)
    train = TorchVision("CIFAR10", root=tmp_path)("train")
    assert train.images.shape == (10, 3, 32, 32)
    assert train.targets.tolist() == [7, 3] * 5
    assert torch.equal(train.images[0].flatten(), torch.from_numpy(image).to(torch.uint8))


def test_images_in_files_stay_there(tmp_path):
    from support.image_samples import write_image

    for split in ("train", "val"):
        for i, wnid in enumerate(torchvision_datasets.Imagenette._WNID_TO_CLASS):
            write_image(tmp_path / "imagenette2" / split / wnid / "0.JPEG", i)
    dataset = TorchVision("Imagenette", root=tmp_path)
    test = dataset("test")
    assert len(test) == 10
    assert sorted(test.metadata["label"].tolist()) == list(range(10))
    image, target = test[4]
    assert (image.mode, target) == ("RGB", int(test.metadata["label"][4]))


@pytest.mark.parametrize("name", SPLITS)
def test_every_name_is_torchvision_s_and_takes_its_splits(name):
    signature = inspect.signature(getattr(torchvision_datasets, name))
    for options in SPLITS[name]:
        signature.bind("root", **options)


@pytest.mark.parametrize(
    ("name", "near"),
    [("cifar10", "CIFAR10"), ("STL-10", "STL10"), ("CIFAR", "CIFAR10"), ("FashonMNIST", "Fashion")],
)
def test_a_name_that_is_not_quite_right_gets_its_nearest(name, near):
    words = rf"no data set '{name}' of torchvision here. Did you mean .*{near}"
    with pytest.raises(ValueError, match=words):
        TorchVision(name)
    with pytest.raises(ValueError, match=r"of torchvision here\. There are CIFAR10"):
        TorchVision("zzz")


def test_nothing_is_downloaded_unasked(tmp_path):
    with pytest.raises(FileNotFoundError, match=rf"no complete CIFAR10 in '{tmp_path}': "):
        TorchVision("CIFAR10", root=tmp_path)("train")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="ImageNet cannot be downloaded"):
        TorchVision("ImageNet", root=tmp_path, download=True)("train")


def test_texts_are_columns_or_keys_of_dictionaries():
    captions = ["a", "b", "c", "d"]
    own = TensorDataset(IMAGES)
    table = {"label": [0, 1, 0, 1], "caption": captions}
    dataset = TorchDataset(own, own, table, table, text=["caption"])
    assert dataset.texts() == ["caption"]
    assert dataset.schema() == {"label": "categorical"}
    assert dataset("test").texts == {"caption": captions}

    items = [
        {"img": image, "y": i % 2, "caption": caption}
        for i, (image, caption) in enumerate(zip(IMAGES, captions, strict=True))
    ]
    dataset = TorchDataset(items, items, image="img", label="y", text=["caption"])
    assert dataset("train").texts == {"caption": captions}
    assert list(dataset("train").metadata) == ["label"]
    assert torch.equal(dataset("train")[2][0], IMAGES[2])
    with pytest.raises(ValueError, match="sample 0 has no 'title'"):
        TorchDataset(items, items, image="img", label="y", text=["title"])


@pytest.mark.parametrize("more", [{}, {"id": 1}])
def test_samples_with_keys_need_the_one_of_the_label(more):
    items = [{"img": image, "y": 1, **more} for image in IMAGES]
    with pytest.raises(ValueError, match="label"):
        TorchDataset(items, items, image="img")


def test_a_missing_text_is_named_by_split_and_row():
    own = TensorDataset(IMAGES)
    table = {"label": [0, 1, 0, 1], "caption": ["a", "b", "c", "d"]}
    holes = {**table, "caption": ["a", "b", None, "d"]}
    with pytest.raises(ValueError, match=r"test, row 2 \(from 0\): 'caption' is empty"):
        TorchDataset(own, own, table, holes, text=["caption"])
    with pytest.raises(ValueError, match="train has no column 'title'; it has label, caption"):
        TorchDataset(own, own, table, table, text=["title"])


def test_samples_that_belong_together_are_named_by_their_column():
    own = TensorDataset(IMAGES)
    table = {"label": [0, 1, 0, 1], "patient": ["a", "a", "b", "b"]}
    dataset = TorchDataset(own, own, table, table, group="patient")
    assert dataset("test").group == "patient"
    with pytest.raises(ValueError, match="no column 'subject'"):
        TorchDataset(own, own, table, table, group="subject")


def test_words_are_the_labels_of_a_part_too():
    own = TensorDataset(torch.zeros(4, 3, 8, 8, dtype=torch.uint8))
    own.targets = ["owl", "crow", "owl", "crow"]
    dataset = TorchDataset(Subset(own, [1, 2]), own)
    assert dataset("train").metadata["label"].tolist() == [0, 1]
    assert dataset("train").vocabulary == {"label": ["crow", "owl"]}


def test_a_label_of_numbers_may_have_gaps_and_has_one_dimension():
    images = IMAGES[:3]
    label = torch.tensor([2.5, float("nan"), float("inf")])
    split = Annotated(images, {"label": label})
    assert [split[i][1] for i in range(3)] == [2, -1, -1]
    with pytest.raises(ValueError, match=r"the label must be \(N,\), not of shape \(3, 2\)"):
        Annotated(images, {"label": torch.zeros(3, 2)})
