"""A tokenizer file for a trained generator, as every llama-family checkpoint has one: tokens by readable names."""

from collections.abc import Sequence

from tokenizers import Tokenizer, models, pre_tokenizers

from triton_ads.features.prompt import PromptVocabulary

_SPECIAL = ("<pad>", "<bos>", "<query>", "<journey>", "<unknown>")


def tokenizer_file(words: PromptVocabulary, branching: Sequence[int]) -> str:
    """The text of a tokenizer.json: what prompts begin with, words, then `<1:0>`, the first child on level 1, ...

    >>> text = tokenizer_file(PromptVocabulary(("comedy",)), (2, 1))
    >>> Tokenizer.from_str(text).encode("<bos> <query> comedy <journey> <1:1> <2:0>").ids
    [1, 2, 5, 3, 7, 8]
    """
    clusters = [f"<{level}:{child}>" for level, width in enumerate(branching, 1) for child in range(width)]
    names = [*_SPECIAL, *words.words, *clusters]
    tokenizer = Tokenizer(models.WordLevel({name: token for token, name in enumerate(names)}, unk_token=_SPECIAL[4]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return str(tokenizer.to_str())
