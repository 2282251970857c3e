"""Starting points: a new package around one component, and a first pipeline for your own images."""
