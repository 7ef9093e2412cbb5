"""The error of all readers of checkpoints."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be read; the message names the place, what was found and what is allowed."""
