"""Looking before and after a training: inspection of data, learning rates, information, features elsewhere.

Its files are imported by themselves: a command's help must not wait for torch.
"""
