"""Runs: a folder that a pipeline is trained into, read back, evaluated, exported and pictured."""
