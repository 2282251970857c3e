"""The base class of positive definite kernels that read class ids as one-hot vectors."""

from __future__ import annotations

from inspect import signature


class OneHotKernel:
    """A positive definite kernel that reads class ids as one-hot vectors."""

    positive_definite: bool = True
    one_hot: bool = True

    def __repr__(self) -> str:
        names = signature(type(self)).parameters
        settings = [f"{name}={value!r}" for name, value in vars(self).items() if name in names]
        return f"{type(self).__name__}({', '.join(settings)})"
