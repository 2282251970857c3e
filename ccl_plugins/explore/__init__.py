"""Exploration before and after training: inspection of data, learning rates, information, features.

Import its modules one by one, because a command's help must not wait for torch.
"""
