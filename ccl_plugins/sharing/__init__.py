"""Sharing of a run: its backbone, the code that loads it, a model card, and the upload.

Import its modules one by one, because a command's help must not wait for torch.
"""
