"""What a decoder refuses."""


class DecoderError(ValueError):
    """Tokens, parents, capacities or options that cannot be; the message names what was found and what is allowed.
    Nothing of the sequence has changed."""
