"""A small tokenizer of text: letters, digits, a few signs, two merges; with an end of line or without one."""

from string import ascii_letters, digits

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

#: Bytes that are no visible letter are written as GPT-2 does: Ċ the end of a line, Ġ a space.
_LETTERS = [*"abcdefghijklmnopqrstuvwxyz", *ascii_letters[26:], *digits, "(", ")", "Ġ"]
TOKENS = ["<end>", "Ċ", *_LETTERS, "ab", "Ġa"]


def text_tokenizer(end_of_line: bool = True, extra: tuple[str, ...] = ()) -> Tokenizer:
    """`extra`: further single signs, behind the others."""
    tokens = [token for token in (*TOKENS, *extra) if end_of_line or token != "Ċ"]
    made = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, [("a", "b"), ("Ġ", "a")]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<end>"])
    return made
