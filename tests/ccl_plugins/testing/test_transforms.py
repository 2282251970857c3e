"""Transforms that break one law each."""

from __future__ import annotations

import torch
from support.broken import law_tests
from torch.nn import functional
from torchvision.transforms.v2.functional import pil_to_tensor

from ccl_plugins.transforms import uniforms


class Sound:
    """The image and noise."""

    count = 2

    def __call__(self, image):
        return [image / 255 + torch.randn(image.shape) for _ in range(2)]

    def plain(self, image):
        return image / 255


class Miscounted(Sound):
    """Declares one view too many."""

    count = 3


class Counting(Sound):
    """Other views in every call."""

    calls = 0

    def __call__(self, image):
        self.calls += 1
        return [view + 1e-4 * self.calls for view in super().__call__(image)]


class Spoiling(Sound):
    """Changes the image."""

    def plain(self, image):
        return image.clamp_(max=100) / 255


class OneByOne(Sound):
    """Takes no batch."""

    def plain(self, image):
        channels, height, width = image.shape
        return image.reshape(channels, height, width) / 255


class Cropped(Sound):
    """Smaller without augmentation."""

    def plain(self, image):
        return image[..., :16, :16] / 255


class Together(Sound):
    """Draws the views of a batch with one number for all."""

    def __init__(self):
        self.batch_transforms = [self._view] * self.count

    def _view(self, images, seeds):
        return images / 255 + uniforms(seeds.sum()[None], 1)[:, :, None, None]


class DrawnOnce(Sound):
    """Draws before the loop over the views."""

    def __call__(self, image):
        noise = torch.randn(image.shape)
        return [image / 255 + noise for _ in range(2)]


class Remembering(Sound):
    """Keeps the views of an image by its id, to save time."""

    def __init__(self):
        self.views, self.images = {}, []

    def __call__(self, image):
        self.images.append(image)  # so that no other image gets its id
        return self.views.setdefault(id(image), super().__call__(image))


class RememberingPlain(Sound):
    """Keeps what is not augmented by its id."""

    def __init__(self):
        self.known, self.images = {}, []

    def plain(self, image):
        if image.ndim == 4:
            return super().plain(image)
        self.images.append(image)  # so that no other image gets its id
        return self.known.setdefault(id(image), super().plain(image))


class OfBytes(Sound):
    """Forgets to scale without augmentation."""

    def plain(self, image):
        return image.float()


class AsArray(Sound):
    """Gives the views in one tensor."""

    def __call__(self, image):
        return torch.stack(super().__call__(image))


class AlwaysTwo(Sound):
    """Gives two views, whatever their number."""

    def __init__(self, count: int = 2):
        self.count = count


class Precise(Sound):
    """Gives numbers that no network takes."""

    def __call__(self, image):
        return [view.double() for view in super().__call__(image)]


class Seeding(Sound):
    """Seeds the generators, to be the same in every run."""

    def __call__(self, image):
        torch.manual_seed(0)
        return super().__call__(image)


class DrawnWhenBuilt(Sound):
    """Draws by how much views are brighter when it is built."""

    def __init__(self):
        self.factor = 0.8 + 0.4 * torch.rand(())

    def __call__(self, image):
        return [image / 255 * self.factor for _ in range(2)]


class SecondPlain(Sound):
    """Leaves out the last view."""

    def __call__(self, image):
        return [super().__call__(image)[0], self.plain(image)]


class InOrder(Sound):
    """Has functions of views that draw nothing."""

    def __init__(self):
        self.transforms = [self.plain, self.plain]


class SameInABatch(Together):
    """Draws the views of a batch without the seeds."""

    def _view(self, images, seeds):
        return images.flip(-1) / 255


class OfNothing(Sound):
    """Noise alone."""

    def __call__(self, image):
        return [torch.rand(image.shape) for _ in range(2)]


class AsItIs(Sound):
    """Resizes the views alone."""

    def __call__(self, image):
        return [functional.adaptive_avg_pool2d(view, 32) for view in super().__call__(image)]


class ScaledTwice(Sound):
    """Takes a PIL image, and forgets that it has bytes."""

    def plain(self, image):
        return image / 255 if isinstance(image, torch.Tensor) else pil_to_tensor(image).float()


class Drawing(Sound):
    """Takes a PIL image, and draws on it."""

    def plain(self, image):
        if isinstance(image, torch.Tensor):
            return image / 255
        pixels = pil_to_tensor(image)
        image.putpixel((0, 0), (0, 0, 0))
        return pixels / 255


class Signed(Sound):
    """From -1 to 1 without augmentation."""

    def __call__(self, image):
        return [image / 255 * (0.8 + 0.4 * torch.rand(())) for _ in range(2)]

    def plain(self, image):
        return image / 127.5 - 1


class SignedInABatch(Together):
    """From -1 to 1 in a batch."""

    def _view(self, images, seeds):
        return (images / 127.5 - 1) * (0.5 + uniforms(seeds, 1))[:, :, None, None]


class DoubleInABatch(Together):
    """Numbers of another type in a batch."""

    def _view(self, images, seeds):
        return images / 255 + uniforms(seeds, 1)[:, :, None, None].double()


class SpoilingABatch(Together):
    """Writes into the images of a batch."""

    def _view(self, images, seeds):
        images[..., :4] = 0
        return images / 255 + uniforms(seeds, 1)[:, :, None, None]


class OnTheCpu(Together):
    """Holds a constant on the CPU."""

    def _view(self, images, seeds):
        return images / torch.full((1, 1, 1, 1), 255.0) + uniforms(seeds, 1)[:, :, None, None]


class Centered(Sound):
    """Subtracts the mean of each view, and not that of plain."""

    def __call__(self, image):
        views = [image / 255 * (1 + torch.rand(())) for _ in range(2)]
        return [view - view.mean() for view in views]


class Words:
    """Right: the lengths of the words of a caption."""

    source, value_types, count = "caption", (), 1
    EXAMPLE_VALUES = ("a seven", "one more", "two words")

    def __call__(self, image):
        return [self.plain(image)]

    def plain(self, image):
        if not isinstance(image, str):
            return torch.stack([self.plain(text) for text in image])
        return torch.tensor([self.number(word) for word in image.split()])

    def number(self, word):
        return len(word)


class Hashed(Words):
    """Numbers of words by their hash."""

    def number(self, word):
        return hash(word) % 1000


class Numbered(Words):
    """Numbers of words in the order in which they are met."""

    def __init__(self):
        self.known = {}

    def number(self, word):
        return self.known.setdefault(word, len(self.known))


class Blue(Sound):
    """Reverses the channels without augmentation."""

    def plain(self, image):
        return super().plain(image).flip(-3)


class Lying(Sound):
    """Exchanges height and width without augmentation."""

    def plain(self, image):
        return super().plain(image).transpose(-1, -2)


class Masked(Sound):
    """Right: of five pixels four are black."""

    def __call__(self, image):
        return [image / 255 * (torch.rand(image.shape[1:]) < 0.2) for _ in range(2)]


class Weak(Sound):
    """Right: a second view that is flipped, or not, and a third that is the middle of the image."""

    count = 3

    def __call__(self, image):
        first = super().__call__(image)[0]
        second = image.flip(-1) if torch.rand(()) < 0.1 else image
        return [first, second / 255, image.roll(16, -1) / 255]


class Turned(Sound):
    """Right: turned by quarters, gray or of any color."""

    def __call__(self, image):
        return [self._view(image / 255) for _ in range(2)]

    def _view(self, image):
        quarters, channels = int(torch.randint(4, ())), torch.randperm(3)
        turned = image[channels].rot90(quarters, (-2, -1))
        return turned.mean(0).expand(3, -1, -1) if torch.rand(()) < 0.2 else turned


class Flipped(Sound):
    """Flips, or not: two views are equal half of the time."""

    def __call__(self, image):
        return [image.flip(-1) / 255 if torch.rand(()) < 0.5 else image / 255 for _ in range(2)]


class Inverted(Sound):
    """Inverts half of the views, and makes them brighter or darker by up to a third."""

    def __call__(self, image):
        views = [image / 255 * (2 / 3 + 2 / 3 * torch.rand(())) for _ in range(2)]
        return [1 - view if torch.rand(()) < 0.5 else view for view in views]


class Fixed(Sound):
    """Not random: the image and its mirror image."""

    def __call__(self, image):
        return [image / 255, image.flip(-1) / 255]


class OneFlip(Sound):
    """Flips all views or none, and adds noise to each."""

    def __call__(self, image):
        flipped = image.flip(-1) if torch.rand(()) < 0.5 else image
        return super().__call__(flipped)


class OneBrightness(Sound):
    """Makes all views as bright, and moves each."""

    def __call__(self, image):
        bright = image / 255 * (0.8 + 0.4 * torch.rand(()))
        return [bright.roll(int(torch.randint(32, ())), -1) for _ in range(2)]


class Mixing(Sound):
    """Adds a little of the image before."""

    last = None

    def __call__(self, image):
        before, self.last = self.last, image.clone()
        return super().__call__(image if before is None else (image / 2 + before / 2))


class Brightest(Sound):
    """Divides by the brightest pixel of a batch."""

    def plain(self, image):
        return image / image.max().clamp_min(1)


class BrightestOfABatch(Together):
    """Divides the views of a batch by its brightest pixel."""

    def _view(self, images, seeds):
        factor = (0.9 + 0.1 * uniforms(seeds, 1))[:, :, None, None]
        return images / images.max().clamp_min(1) * factor


class RoundedSeeds(Together):
    """Computes with seeds as with numbers of 32 bits."""

    def _view(self, images, seeds):
        return images / 255 + uniforms(seeds.float().long(), 1)[:, :, None, None]


class Squeezed(Sound):
    """Drops the axis of a batch of one image."""

    def plain(self, image):
        return (image / 255).squeeze(0)


class DoublePlain(Sound):
    """Numbers of another type without augmentation."""

    def plain(self, image):
        return image / torch.tensor(255.0, dtype=torch.double)[None]


class KnownByItsCorner(Sound):
    """Keeps what is not augmented by the first row of the image."""

    def __init__(self):
        self.known = {}

    def plain(self, image):
        if image.ndim == 4:
            return super().plain(image)
        return self.known.setdefault(image[0, 0].numpy().tobytes(), super().plain(image))


class LyingPicture(Sound):
    """Takes the width of a PIL image for its height."""

    def plain(self, image):
        if isinstance(image, torch.Tensor):
            return image / 255
        return pil_to_tensor(image).transpose(-1, -2) / 255


class OneView:
    """The function of one view."""

    def __init__(self, transform, view):
        self.transform, self.view = transform, view

    def __call__(self, image):
        return self.transform(image)[self.view]


class OfTwoSizes(Sound):
    """Right: a view of 32 pixels, and one of 16."""

    sizes, size = (32, 16), 32

    def __init__(self):
        self.transforms = [OneView(self, i) for i in (0, 1)]

    def __call__(self, image):
        first, second = super().__call__(image)
        return [first, functional.adaptive_avg_pool2d(second, 16)]


class OfTheLastSize(OfTwoSizes):
    """Has functions that all give the last view."""

    def __init__(self):
        self.transforms = [OneView(self, 1) for _ in (0, 1)]


class OfAnotherSize(OfTwoSizes):
    """Says that it has the size of its second view."""

    size = 16


class Logarithm:
    """The logarithm of a column of numbers."""

    source, value_types, count = "dose", ("continuous",), 1
    EXAMPLE_VALUES = (0.1, 1.0, 10.0)

    def __call__(self, image):
        return [self.plain(image)]

    def plain(self, image):
        values = torch.as_tensor(image).float()
        return values.reshape(*values.shape[:1], 1).log()


class Checked(Logarithm):
    """Right: refuses what has no logarithm."""

    def check_values(self, values):
        if not (torch.as_tensor(values) > 0).all():
            raise ValueError("values must be above 0")


class TooStrict(Checked):
    """Refuses all values."""

    def check_values(self, values):
        raise ValueError("values must be above 0")


class Cut(Words):
    """Takes four words of a text, and says of none that it loses others."""

    def plain(self, image):
        if not isinstance(image, str):
            return torch.stack([self.plain(text) for text in image])
        lengths = [len(word) for word in image.split()[:4]]
        return torch.tensor(lengths + [0] * (4 - len(lengths)))

    def check_values(self, values):
        if not all(isinstance(value, str) for value in values):
            raise ValueError("values must be texts")


class Listed(Words):
    """The place of a word in a file, whose name is taken for its contents."""

    @staticmethod
    def EXAMPLE(folder):
        (folder / "words.txt").write_text("a\nseven\none\nmore\ntwo\nwords\n")
        return {"path": str(folder / "words.txt")}

    def __init__(self, path: str):
        self.path = path
        with open(path) as file:
            self.words = file.read().split()

    def number(self, word):
        return self.words.index(word) if word in self.words else -1

    def fingerprint(self):
        return self.path


class ListedWhole(Listed):
    """Right: knows the contents."""

    def fingerprint(self):
        return " ".join(self.words)


VIEWS, DRAWN = {"gives_as_many_views_as_it_says"}, {"is_drawn_from_the_generators"}
SCALE, SHOWS = {"plain_has_the_scale_of_views"}, {"plain_shows_the_image_as_views_do"}
EACH, ROWS = {"every_view_is_drawn"}, {"views_of_a_batch_are_drawn_row_by_row"}
APART, LATER = {"views_of_an_image_are_drawn_apart"}, {"remembers_no_image"}
PICTURE = {"a_pil_image_is_as_its_pixels"}
BROKEN = {
    Sound: set(),
    OneFlip: APART,
    OneBrightness: APART,
    Mixing: LATER,
    Brightest: {"plain_takes_a_batch"},
    BrightestOfABatch: ROWS,
    RoundedSeeds: ROWS,
    LyingPicture: PICTURE,
    Squeezed: {"plain_takes_a_batch"},
    DoublePlain: {"plain_is_not_augmented"},
    KnownByItsCorner: LATER,
    TooStrict: {"refuses_values_that_it_cannot_take"},
    OfTwoSizes: set(),
    OfTheLastSize: VIEWS,
    OfAnotherSize: VIEWS,
    Logarithm: {"refuses_values_that_it_cannot_take"},
    Cut: {"refuses_values_that_it_cannot_take"},
    Checked: set(),
    Listed: {"fingerprint_follows_the_files_that_it_reads"},
    ListedWhole: set(),
    Miscounted: VIEWS,
    AsArray: VIEWS,
    AlwaysTwo: VIEWS,
    Precise: VIEWS | {"plain_is_not_augmented"},
    Seeding: DRAWN,
    DrawnWhenBuilt: {"is_built_without_random_numbers"},
    SecondPlain: EACH,
    InOrder: EACH,
    SameInABatch: EACH,
    OfNothing: {"views_show_their_image"},
    Counting: DRAWN | LATER,
    Spoiling: {"leaves_the_image_as_it_is"},
    OneByOne: {"plain_takes_a_batch"},
    Cropped: {"plain_is_not_augmented"},
    AsItIs: {"plain_is_not_augmented"},
    ScaledTwice: PICTURE,
    Drawing: {"leaves_the_image_as_it_is"},
    Signed: SCALE,
    SignedInABatch: SCALE,
    Centered: SCALE,
    DoubleInABatch: ROWS,
    SpoilingABatch: ROWS,
    OnTheCpu: {"views_of_a_batch_are_drawn_on_its_device"},
    Words: set(),
    Hashed: {"is_the_same_in_another_process"},
    Numbered: LATER,
    Blue: SHOWS,
    Lying: SHOWS,
    Together: ROWS | EACH,
    DrawnOnce: APART,
    Remembering: LATER,
    RememberingPlain: LATER,
    OfBytes: SCALE,
    Flipped: set(),
    Inverted: set(),
    Fixed: set(),
    Masked: set(),
    Weak: set(),
    Turned: set(),
}


test_the_law_that_is_broken_is_named, test_every_law_is_broken_once = law_tests("transform", BROKEN)
