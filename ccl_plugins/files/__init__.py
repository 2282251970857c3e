"""Files: written whole or not at all, and read without pickle; independent of runs."""
