"""Files: written whole or not at all, and read back without pickle; they know nothing of runs."""
