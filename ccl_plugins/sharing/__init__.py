"""What is shared of a run: its backbone, what loads it, a card that says what it is, and the upload.

Its files are imported by themselves: a command's help must not wait for torch.
"""
