"""Text to tokens and back."""

from dataclasses import replace
from pathlib import Path

import pytest
from gguf import GGMLQuantizationType

from tests.support.checkpoints import hugging_face_model, save_folder, save_gguf
from tests.support.random_llama import EXACT, config_of, random_model, tokenizer_json
from triton_ads.compression.checkpoint import open_checkpoint
from triton_ads.compression.pack_model import pack_model
from triton_ads.serving.decoder import DecoderError, Tokenizer


def test_from_a_folder_and_from_a_gguf_file(tmp_path: Path) -> None:
    """The same tokens: "ab" and " a" are merged, digits stand alone, the control token is one token in any text."""
    model = hugging_face_model()
    for path in (
        save_folder(tmp_path / "folder", model),
        save_gguf(tmp_path / "model.gguf", model, GGMLQuantizationType.F32),
    ):
        tokenizer = Tokenizer(pack_model(open_checkpoint(path), lambda name: EXACT))
        assert tokenizer.encode("ab ac1<end>") == [38, 39, 3, 29, 0]
        assert tokenizer.decode([38, 39, 3, 29, 0]) == "ab ac1<end>"
        assert tokenizer.encode("") == []


def test_more_tokens_than_the_model_has() -> None:
    model = replace(random_model(config_of(vocabulary=50)), tokenizer=tokenizer_json(51))
    with pytest.raises(DecoderError, match="the tokenizer has 51 tokens, the model 50; no more are allowed"):
        Tokenizer(model)


def test_no_tokenizer() -> None:
    with pytest.raises(DecoderError, match="the tokenizer cannot be read"):
        Tokenizer(replace(random_model(config_of()), tokenizer="{}"))
