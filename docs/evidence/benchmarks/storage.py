"""Measures formats of data sets that outgrow a folder; writes ``storage.md``.

Small JPEG images are written in each format and read in random order by a DataLoader, from cold: the
system's cache of files is dropped before, which root alone can do.  Needs ``pip install datasets pylance
litdata webdataset``.

``--rows`` takes another number of images, ``--read`` of those that are read, ``--data`` another folder.
"""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pages import parser, publish
from PIL import Image
from torch.utils.data import DataLoader

SIZE, BATCH, DIFFERENT, SHARD = 32, 256, 1000, 10_000


def encoded() -> list[bytes]:
    """Some JPEG images of smooth noise, which the rows repeat."""
    generator = np.random.default_rng(0)
    found = []
    for _ in range(DIFFERENT):
        pixels = generator.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(pixels).resize((SIZE, SIZE)).save(buffer, "JPEG", quality=90)
        found.append(buffer.getvalue())
    return found


def decoded(image: bytes) -> torch.Tensor:
    """The pixels of an image."""
    return torch.from_numpy(np.array(Image.open(io.BytesIO(image)).convert("RGB")))


class Rows:
    """A map-style data set of encoded images that are read several at once."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return self.rows

    def encoded(self, indices: Sequence[int]) -> list[bytes]:
        """Some encoded images."""
        raise NotImplementedError

    def __getitems__(self, indices: Sequence[int]) -> list[torch.Tensor]:
        return [decoded(image) for image in self.encoded(indices)]


class Folder(Rows):
    """A file for each image."""

    def __init__(self, folder: Path, rows: int) -> None:
        super().__init__(rows)
        self.folder = folder

    def write(self, images: Sequence[bytes]) -> None:
        """Write all."""
        for row in range(self.rows):
            if row % DIFFERENT == 0:
                place = self.folder / f"{row // DIFFERENT:06d}"
                place.mkdir(parents=True)
            (place / f"{row:08d}.jpg").write_bytes(images[row % len(images)])

    def encoded(self, indices: Sequence[int]) -> list[bytes]:
        """Some encoded images."""
        return [
            (self.folder / f"{row // DIFFERENT:06d}" / f"{row:08d}.jpg").read_bytes()
            for row in indices
        ]


class Arrow(Rows):
    """Arrow files, as ``save_to_disk`` of Hugging Face's ``datasets`` writes them."""

    def __init__(self, folder: Path, rows: int) -> None:
        super().__init__(rows)
        self.folder = folder
        self.source: Any = None

    def write(self, images: Sequence[bytes]) -> None:
        """Write all."""
        import datasets

        def generate() -> Iterator[dict[str, bytes]]:
            for row in range(self.rows):
                yield {"image": images[row % len(images)]}

        features = datasets.Features({"image": datasets.Value("binary")})
        cache = str(self.folder) + "-cache"
        made = datasets.Dataset.from_generator(generate, features, cache_dir=cache)
        made.save_to_disk(str(self.folder))
        shutil.rmtree(cache)

    def encoded(self, indices: Sequence[int]) -> list[bytes]:
        """Some encoded images."""
        if self.source is None:
            import datasets

            self.source = datasets.load_from_disk(str(self.folder))
        return list(self.source[list(indices)]["image"])


class Lance(Rows):
    """A table of Lance."""

    def __init__(self, folder: Path, rows: int) -> None:
        super().__init__(rows)
        self.folder = folder
        self.source: Any = None

    def write(self, images: Sequence[bytes]) -> None:
        """Write all."""
        import lance
        import pyarrow

        schema = pyarrow.schema([("image", pyarrow.binary())])

        def generate() -> Iterator[Any]:
            for first in range(0, self.rows, SHARD):
                part = [
                    images[row % len(images)] for row in range(first, min(first + SHARD, self.rows))
                ]
                yield pyarrow.RecordBatch.from_pydict({"image": part}, schema)

        lance.write_dataset(generate(), str(self.folder), schema)

    def encoded(self, indices: Sequence[int]) -> list[bytes]:
        """Some encoded images."""
        if self.source is None:
            import lance

            self.source = lance.dataset(str(self.folder))
        found: list[bytes] = self.source.take(list(indices), ["image"]).column("image").to_pylist()
        return found


def write_tars(folder: Path, rows: int, images: Sequence[bytes]) -> None:
    """Tar files of WebDataset."""
    folder.mkdir(parents=True)
    for first in range(0, rows, SHARD):
        with tarfile.open(folder / f"{first // SHARD:06d}.tar", "w") as tar:
            for row in range(first, min(first + SHARD, rows)):
                image = images[row % len(images)]
                about = tarfile.TarInfo(f"{row:08d}.jpg")
                about.size = len(image)
                tar.addfile(about, io.BytesIO(image))


def tars(folder: Path) -> Any:
    """A stream of WebDataset, in the order of shuffled shards and a buffer."""
    import webdataset

    shards = sorted(map(str, folder.glob("*.tar")))
    stream = webdataset.WebDataset(shards, shardshuffle=len(shards), empty_check=False)
    return stream.shuffle(5000).to_tuple("jpg").map_tuple(decoded).map(lambda each: each[0])


def write_chunks(folder: Path, rows: int, images: Sequence[bytes]) -> None:
    """Chunks of LitData."""
    from litdata.streaming.writer import BinaryWriter

    folder.mkdir(parents=True)
    writer = BinaryWriter(str(folder), chunk_bytes="64MB")
    for row in range(rows):
        writer[row] = images[row % len(images)]
    writer.done()
    writer.merge()


def chunks(folder: Path) -> Any:
    """A stream of LitData, in the order of shuffled chunks."""
    from litdata import StreamingDataset

    class Decoded(StreamingDataset):  # type: ignore[misc]  # it has no types
        def __getitem__(self, index: Any) -> torch.Tensor:
            return decoded(super().__getitem__(index))

    return Decoded(str(folder), shuffle=True)


def drop_caches() -> bool:
    """Whether the system let its cache of files go."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        return False
    return True


def images_per_second(loader: Any, count: int) -> float:
    """From the first batch on, so that the start of the workers does not count."""
    batches = iter(loader)
    next(batches)
    begun, seen = time.perf_counter(), 0
    for batch in batches:
        seen += len(batch)
        if seen >= count:
            break
    return seen / (time.perf_counter() - begun)


def main() -> None:
    """Measure, and write the page."""
    made = parser(__doc__, "a few images")
    made.add_argument("--rows", type=int, default=1_000_000)
    made.add_argument("--read", type=int, default=30_000)
    made.add_argument("--data", type=Path)
    options = made.parse_args()
    if options.quick:
        options.rows, options.read = 3000, 1000
    rows, images, lines, cold = options.rows, encoded(), [], True
    rates: dict[str, list[float]] = {}

    def beside(*titles: str) -> str:
        """The least and the largest ratio to the rate of files."""
        files = rates["a folder of files"]
        found = [a / b for name in titles for a, b in zip(rates[name], files, strict=True)]
        return f"{min(found):.1f} to {max(found):.1f}"

    with tempfile.TemporaryDirectory(dir=options.data) as name:
        root = Path(name)
        kinds: dict[str, tuple[Callable[[], None], Callable[[], Any], bool, str]] = {}
        for title, kind in (
            ("a folder of files", Folder),
            ("Arrow (`hf`)", Arrow),
            ("Lance", Lance),
        ):
            given = kind(root / kind.__name__, rows)  # type: ignore[abstract]
            kinds[title] = (
                lambda given=given: given.write(images),
                lambda kind=kind: kind(root / kind.__name__, rows),
                True,
                "any",
            )
        kinds["WebDataset"] = (
            lambda: write_tars(root / "tars", rows, images),
            lambda: tars(root / "tars"),
            False,
            "of shards and a buffer of 5,000",
        )
        kinds["LitData"] = (
            lambda: write_chunks(root / "chunks", rows, images),
            lambda: chunks(root / "chunks"),
            False,
            "of chunks",
        )
        for title, (write, read, by_index, order) in kinds.items():
            begun = time.perf_counter()
            write()
            wrote, speeds = time.perf_counter() - begun, []
            for workers in (1, 2):
                cold = drop_caches() and cold
                source, more = read(), {}
                if by_index:
                    drawn = torch.randperm(rows, generator=torch.Generator().manual_seed(workers))
                    parts = drawn[: options.read + BATCH].split(BATCH)
                    more["batch_sampler"] = [part.tolist() for part in parts]
                else:
                    more["batch_size"] = BATCH
                spawn = "spawn" if title == "Lance" else "fork"  # its threads do not survive a fork
                loader = DataLoader(
                    source, num_workers=workers, multiprocessing_context=spawn, **more
                )
                speeds.append(images_per_second(loader, min(options.read, rows - 2 * BATCH)))
            lines.append(
                f"| {title} | {order} | {speeds[0]:,.0f} | {speeds[1]:,.0f} | {wrote:.0f} s |"
            )
            print(lines[-1], flush=True)
            rates[title] = speeds
            for each in root.iterdir():
                shutil.rmtree(each)
    report = f"""# Where to keep many small images

**Arrow and Lance give {beside("Arrow (`hf`)", "Lance")} times as many images a second as a folder of files**, WebDataset and LitData
{beside("WebDataset", "LitData")} times. Conditional samplers draw any sample next, which the first three formats give and the streams do not.

Images per second, with one and two workers:

| kept as | order | one worker | two workers | written in |
|---|---|---|---|---|
{chr(10).join(lines)}

{rows:,} JPEG images of {SIZE} x {SIZE} pixels, {options.read:,} of them read and decoded in batches of {BATCH} by a
DataLoader, {"from cold" if cold else "with whatever the system has cached"}, on {os.cpu_count()} cores.
Written by `python docs/evidence/benchmarks/storage.py`.
"""  # noqa: E501  a page
    publish(report, "storage.md", options)


if __name__ == "__main__":
    main()
