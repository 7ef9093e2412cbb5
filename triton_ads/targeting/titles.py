r"""Titles as identifiers: what a published language model can write without any training.

A title is its own tokens and an end of line, so that a list of titles, one a line, is a journey as text:

    Star Wars\n   28616 12208 198        Star Trek\n   28616 36400 198

Ads whose titles begin alike share the beginning of their identifiers, and no title is the beginning of another.
"""

# Legend: A ads.

from collections.abc import Callable, Sequence

from numpy.typing import ArrayLike

from triton_ads.features.text_prompt import read_tokenizer
from triton_ads.targeting.identifiers import title_identifiers
from triton_ads.trie import Tree, build_tree

END_OF_LINE = "\n"


class TitleError(ValueError):
    """A tokenizer that cannot write titles; the message says what was found and what is needed."""


def title_tree(titles: Sequence[str], ads: ArrayLike, tokenizer: str, longest: int | None = None) -> Tree:
    """The tree of titles.

    Args:
        titles: of every ad [A]; of equal ones the second is written "title (2)", in the order given, and so on.
        ads: int64 [A].
        tokenizer: the text of a `tokenizer.json`, as a checkpoint has it (`open_checkpoint(path).tokenizer`).
        longest: the most tokens of a title, its end included; by default any number.

    Raises:
        TextPromptError: no tokenizer.
        TitleError: the tokenizer has no token for the end of a line.
        TreeError: a title is empty, too long, or has an end of line among its tokens.
    """
    encode = encoder(tokenizer)
    return build_tree(title_identifiers(titles, encode, end_token(encode), longest).of_ad, ads)


def encoder(tokenizer: str) -> Callable[[str], list[int]]:
    """Text to tokens, without what the tokenizer would add.

    Raises:
        TextPromptError: no tokenizer.
    """
    made = read_tokenizer(tokenizer)
    return lambda text: list(made.encode(text, add_special_tokens=False).ids)


def end_token(encode: Callable[[str], list[int]]) -> int:
    """The token of an end of line, which ends every title.

    Raises:
        TitleError: there is none: the tokenizer writes it with several tokens, or not at all.
    """
    tokens = encode(END_OF_LINE)
    if len(tokens) != 1:
        raise TitleError(f"the tokenizer writes an end of line as {tokens}; titles need one token for it")
    return tokens[0]
