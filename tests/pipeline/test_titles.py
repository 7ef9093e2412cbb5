"""A build whose ads are titles and whose model is one that there was: nothing of it is trained."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from tests.support.checkpoints import hugging_face_model, save_folder
from tests.support.titles import TOKENS, text_tokenizer
from triton_ads.client.target import target_inputs
from triton_ads.inspection.titles import load_titles
from triton_ads.manifest import Manifest
from triton_ads.pipeline.build import build
from triton_ads.pipeline.layout import Layout
from triton_ads.pipeline.runner import Selection
from triton_ads.serving.counters import Counters
from triton_ads.serving.generator_model import GeneratorService
from triton_ads.serving.release import Release
from triton_ads.serving.verifier_model import VerifierService

RECIPES = Path(__file__).parents[1] / "recipes"
TARGET = {
    "journey": "conversions",
    "events": 2,
    "query_words": 12,
    "text": {"journey": "Seen:\n", "query": "Seen, of {query}:\n"},
    "identifiers": {"of": "titles", "longest": 90},
    "model": {"checkpoint": "model"},
    "beam": 10,
    "max_top": 30,
    "questions": 20,
    "deadline_ms": 60_000,
}


@pytest.fixture(scope="module")
def built(built_target: Layout, tmp_path_factory: pytest.TempPathFactory) -> tuple[Layout, str]:
    """The recipe tiny_target with other ads to generate, built where the rest of it is built already; what it said."""
    folder = tmp_path_factory.mktemp("titles")
    shutil.copytree(built_target.var, folder / "var", symlinks=True)
    document = yaml.safe_load((RECIPES / "tiny_target.yaml").read_text()) | {"target": TARGET}
    (folder / "recipe.yaml").write_text(yaml.safe_dump(document))
    model = hugging_face_model(vocab_size=len(TOKENS), max_position_embeddings=512)
    save_folder(folder / "model", model, tokens=text_tokenizer())
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("builtins.print", lambda *words, **_: said.append(" ".join(map(str, words))))
        layout = build(folder / "recipe.yaml", folder / "var", Selection())
    return layout, "\n".join(said)


def test_only_what_is_of_the_target_is_built_again(built: tuple[Layout, str]) -> None:
    started = [line.split("] ")[1].split(":")[0] for line in built[1].splitlines() if ": started" in line]
    assert started == ["identifiers", "generator", "pack", "release", "repository"]


def test_what_is_released(built: tuple[Layout, str]) -> None:
    manifest = Manifest.load(built[0].release)
    assert manifest.target is not None and manifest.recipe.target is not None
    assert (manifest.target.ads, manifest.target.words, manifest.target.vocabulary) == (1682, 0, len(TOKENS))
    assert 10 < manifest.target.questions <= 20  # an ad that was met before is no question
    # Of 20,000 nodes a search may not run as many: the mode of all is not measured, for it could not be served.
    assert set(manifest.target.quality) == {"beam", "exact", "popularity", "item-kNN"}
    assert not list(built[0].work("generator").glob("*.safetensors"))


def test_titles_come_back_as_ads(built: tuple[Layout, str]) -> None:
    release = Release.open(built[0].release)
    titles = load_titles(release.folder)
    generator, verifier = GeneratorService(release, Counters()), VerifierService(release)
    request = generator.parse(dict(target_inputs(42, query="space", top=30)))
    text = text_tokenizer().decode(request.prompt.tokens_P.tolist(), skip_special_tokens=False)
    journey = text.splitlines()[1:]
    assert text.startswith("Seen, of space:\n") and len(journey) == 2 and set(journey) <= set(titles.values())
    (scored,) = generator.answer([request])
    assert isinstance(scored, dict)
    (answer,) = verifier.answer([verifier.parse(scored)])
    assert isinstance(answer, dict)
    ids = answer["target_ids"][0].tolist()
    assert len(set(ids)) == 30 and not set(ids) & set(request.prompt.withheld_N.tolist())
    assert not {titles[str(ad)] for ad in ids} & set(journey)


def test_another_model_is_built_again(built: tuple[Layout, str], capsys: pytest.CaptureFixture[str]) -> None:
    layout = built[0]
    folder = layout.var.parent
    tokenizer = folder / "model" / "tokenizer.json"
    whole = tokenizer.read_text()
    build(folder / "recipe.yaml", layout.var, Selection(only="identifiers"))
    assert "skipped" in capsys.readouterr().out
    tokenizer.write_text(json.dumps(json.loads(whole), indent=1))
    build(folder / "recipe.yaml", layout.var, Selection(only="identifiers"))
    assert "identifiers: started (../model/tokenizer.json changed)" in capsys.readouterr().out
