"""Files: written whole or not at all, and read without pickle; nothing here knows of runs."""
