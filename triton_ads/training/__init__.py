"""Training and its measures."""
