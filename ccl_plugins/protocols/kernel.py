"""The contract of kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

from torch import Tensor

from ccl_plugins.protocols.condition import ValueType
from ccl_plugins.protocols.traits import absent_by_default, traits_of


class Kernel(Protocol):
    """A similarity on the conditioning variable.

    The pipeline supplies ``dataset``, the data set component, by keyword to a constructor that
    takes it, for example for the words of class ids, ``dataset("train").vocabulary``. A constructor
    reads no files; the first call does.
    """

    @property
    def positive_definite(self) -> bool:
        """Whether all eigenvalues of k(z, z) are 0 or more."""

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """(n, c), (m, c) -> (n, m); (n,), (m,) for class ids and scalars.

        A pure function of the values: it does not change or keep them, and draws no random numbers.
        It computes on their device, and reads no value on the host.
        """


@traits_of("kernel")
class KernelTraits:
    """The optional members of a kernel.

    The methods make computations cheaper and change no result beyond rounding.
    """

    one_hot: bool = False
    """True if the kernel treats class ids as one-hot vectors: one value for equal
    ids, another for different ids. On class ids, CCL-K then needs no solve, and `conditional_pair` draws
    by class."""
    conditions: ClassVar[Mapping[str, Sequence[ValueType]]] = {}
    """Read when an objective is built. The
    names of several conditions, with the value types that the kernel accepts for each: `{"age":
    ("continuous",), "pose": ("continuous",)}`. The kernel is then called with mappings of these names to
    values, `features` too, and the objective reads these conditions in place of the one that its `on`
    names. `product` and `sum` with `on` are such kernels."""
    separates: bool = False
    """Read of a kernel with `conditions`, where all are class ids. True if two samples have the same
    similarity where all ids are equal, and 0 elsewhere. CCL-K then needs no solve."""

    @absent_by_default
    def features(self, a: Tensor) -> Tensor:
        """Called with condition values `(n, c)`.

        Returns vectors `(n, r)` whose inner products are the kernel's values. If r is smaller than the
        number of samples, CCL-K solves for r unknowns instead of one per sample.
        """

    @absent_by_default
    def rank(self, a: Tensor) -> int:
        """Called with condition values before `features`. Returns r without computing features."""

    @absent_by_default
    def radial(self, square: Tensor) -> Tensor:
        """Called with squared Euclidean distances of any shape.

        Returns the kernel's values for them, which must not increase with the distance. `conditional_pair`
        uses it to draw partners for conditions of up to three numbers.
        """

    @absent_by_default
    def distances(self, a: Tensor, b: Tensor) -> Tensor:
        """Called with condition values. Returns `(n, m)` the numbers that its `scale` divides.

        Where the kernel sees nothing, or all as equal, the line names quantiles of them as candidates for
        the scale.
        """
