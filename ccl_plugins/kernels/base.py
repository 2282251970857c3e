"""What kernels that read class ids as one-hot vectors have in common."""

from __future__ import annotations

from inspect import signature


class OneHotKernel:
    """A positive definite kernel that reads class ids as one-hot vectors."""

    positive_definite: bool = True
    one_hot: bool = True

    def __repr__(self) -> str:
        settings = [f"{name}={getattr(self, name)!r}" for name in signature(type(self)).parameters]
        return f"{type(self).__name__}({', '.join(settings)})"
