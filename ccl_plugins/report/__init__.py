"""A report of runs: one HTML page, its words and its pictures; and the commands that draw.

Import its modules one by one, because a command's help must not wait for torch.
"""
