"""Text to tokens and back, by the tokenizer that a packed model carries."""

from collections.abc import Iterable

import tokenizers

from triton_ads.compression.packed_model import PackedModel
from triton_ads.serving.decoder.errors import DecoderError


class Tokenizer:
    """Adds nothing to a text: where a model wants a first token, its configuration says which."""

    def __init__(self, model: PackedModel) -> None:
        """Raises DecoderError where the tokenizer cannot be read or has more tokens than the model."""
        try:
            self._tokenizer = tokenizers.Tokenizer.from_str(model.tokenizer)
        # The package raises plain exceptions.
        except Exception as error:
            raise DecoderError(f"the tokenizer cannot be read: {error}") from error
        size, vocabulary = self._tokenizer.get_vocab_size(), model.config.vocabulary
        if size > vocabulary:
            raise DecoderError(f"the tokenizer has {size} tokens, the model {vocabulary}; no more are allowed")

    def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, tokens: Iterable[int]) -> str:
        return self._tokenizer.decode(list(tokens), skip_special_tokens=False)
