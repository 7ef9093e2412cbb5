"""The tokenizer of a GGUF file as a `tokenizer.json`: byte-level BPE, split by the rules of its family."""

import json
from typing import Any, Final

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from triton_ads.compression.checkpoint_error import CheckpointError

#: How llama 3 splits text before merging.
_LLAMA3: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
#: Kinds of tokens: control tokens and those that users defined are matched before anything is split.
_CONTROL, _USER_DEFINED = 3, 4


def _pre_tokenizer(family: str) -> pre_tokenizers.PreTokenizer:
    if family in ("gpt-2", "gpt2"):
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    if family == "smollm":
        digits = pre_tokenizers.Digits(individual_digits=True)
        return pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    if family == "llama-bpe":
        split = pre_tokenizers.Split(Regex(_LLAMA3), behavior="isolated")
        return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    raise CheckpointError(f"tokenizer.ggml.pre is {family!r}; 'gpt-2', 'smollm' and 'llama-bpe' are allowed")


def tokenizer_json(fields: dict[str, Any]) -> str:
    """From the `tokenizer.ggml.*` fields. Raises CheckpointError for another kind of tokenizer, KeyError for a field
    that is missing."""
    if fields["tokenizer.ggml.model"] != "gpt2":
        raise CheckpointError(f"tokenizer.ggml.model is {fields['tokenizer.ggml.model']!r}; 'gpt2' is allowed")
    tokens: list[str] = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in fields["tokenizer.ggml.merges"]]
    try:
        model = models.BPE({token: number for number, token in enumerate(tokens)}, merges)
    # The package raises plain exceptions.
    except Exception as error:
        raise CheckpointError(f"the tokenizer's merges do not fit its tokens: {error}") from error
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = _pre_tokenizer(fields["tokenizer.ggml.pre"])
    tokenizer.decoder = decoders.ByteLevel()
    kinds = fields["tokenizer.ggml.token_type"]
    if len(kinds) != len(tokens):
        raise CheckpointError(f"there are {len(tokens)} tokens and {len(kinds)} kinds; one for each is needed")
    for token, kind in zip(tokens, kinds, strict=True):
        if kind == _CONTROL:
            tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True)])
        elif kind == _USER_DEFINED:
            tokenizer.add_tokens([AddedToken(token, normalized=False)])
    return json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False)
