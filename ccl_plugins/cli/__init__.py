"""The command line: one file per command, which says what it takes and what it does."""
