"""A hooks module that imports torch where every listing waits for it."""

import torch


class Keen(torch.nn.Module):
    """A kernel that is a module."""
