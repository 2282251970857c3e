"""A report of runs: one HTML page, its words and its pictures; and the commands that draw.

Its files are imported by themselves: a command's help must not wait for torch.
"""
