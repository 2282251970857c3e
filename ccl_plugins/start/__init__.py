"""Beginnings: a new package around one component, and a first pipeline for one's own images."""
