"""The targeting part of a release: tree, prompts, users and model, which must belong together.

target/tree/        the identifier tree         target/users/   journeys of known users (journeys.py)
target/words.json   the words of queries        target/model/   the packed generator, its tokenizer
"""

import json
from pathlib import Path

from triton_ads.compression.packed_model import TOKENIZER_FILE, read_packed_model
from triton_ads.features.prompt import PromptFormat, Prompts, PromptVocabulary
from triton_ads.features.text_prompt import TextPromptFormat
from triton_ads.manifest import ManifestError, TargetManifest
from triton_ads.recipe.target import Target
from triton_ads.serving.decoder import Decoder
from triton_ads.serving.journeys import JourneyStore
from triton_ads.serving.release import Release
from triton_ads.serving.target.ads import AdSearch
from triton_ads.trie import Tree, load_tree


def target_of(release: Release) -> tuple[Target, TargetManifest]:
    """What the release says of targeting.

    Raises:
        ManifestError: it has no targeting part.
    """
    recipe, manifest = release.recipe, release.manifest
    if recipe.target is None or manifest.target is None:
        raise ManifestError(f"{release.folder}: the recipe {recipe.name} has no `target`")
    return recipe.target, manifest.target


def open_tree(release: Release) -> Tree:
    """The release's tree.

    Raises:
        TreeError: damaged, or not the one that the release's model was trained for.
    """
    return load_tree(release.folder / "target" / "tree", target_of(release)[1].catalogue)


def open_prompts(release: Release) -> Prompts:
    """How the release's model is asked.

    Raises:
        ManifestError, TextPromptError: words or tokenizer are not the model's.
    """
    target, manifest = target_of(release)
    if target.identifiers.of == "titles":
        tokenizer = (release.folder / "target" / "model" / TOKENIZER_FILE).read_text(encoding="utf-8")
        return TextPromptFormat.of(tokenizer, target.text, target.events, target.query_words)
    words = _words(release.folder / "target" / "words.json")
    if len(words) != manifest.words:
        raise ManifestError(f"{release.folder}: {len(words)} words found, the model was trained with {manifest.words}")
    return PromptFormat(PromptVocabulary(words), target.events, target.query_words)


def _words(file: Path) -> tuple[str, ...]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ManifestError(f"{file}: {error}") from None
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found) or found != sorted(set(found)):
        raise ManifestError(f"{file}: a list of words is needed, sorted, each once")
    return tuple(found)


def open_users(release: Release) -> JourneyStore:
    return JourneyStore(release.folder / "target" / "users", target_of(release)[0].events)


def open_search(release: Release, tree: Tree, form: Prompts) -> AdSearch:
    """The release's model, ready to search; it is calibrated here.

    Raises:
        ManifestError, SearchError: model, tree and prompts do not belong together.
    """
    target, manifest = target_of(release)
    # Digests of the files were compared when the release was opened.
    model = read_packed_model(release.folder / "target" / "model", verify=False)
    if model.config.vocabulary != manifest.vocabulary:
        raise ManifestError(
            f"{release.folder}: the model has {model.config.vocabulary} tokens, the manifest says {manifest.vocabulary}"
        )
    return AdSearch(tree, Decoder(model), form, target, release.recipe.serving.threads)
