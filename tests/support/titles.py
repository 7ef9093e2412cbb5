"""A small tokenizer of any text: a token for every byte, two merges; with an end of line or without one."""

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

#: Bytes are written as GPT-2 does: Ċ the end of a line, Ġ a space.
_BYTES = [*"abcdefghijklmnopqrstuvwxyz", *sorted(set(pre_tokenizers.ByteLevel.alphabet()) - set("Ċ"))]
TOKENS = ["<end>", "Ċ", *dict.fromkeys(_BYTES), "ab", "Ġa"]


def text_tokenizer(end_of_line: bool = True) -> Tokenizer:
    tokens = [token for token in TOKENS if end_of_line or token != "Ċ"]
    made = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, [("a", "b"), ("Ġ", "a")]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<end>"])
    return made
