"""The manifest of a release: what belongs together, and what was measured of it.

A release is a folder that the build writes once and never changes:

    manifest.json                this file
    vocabularies/TABLE.npy       sorted raw ids of a vocabulary table, int64; row = 2 + position
    store/users/*.npy            encoded features of the known users (triton_ads/serving/store.py)
    store/items/*.npy            encoded features of the known items
    store/titles.json            item id -> what to show a person
    tiers/TIER/user.onnx         the part that runs once per user
    tiers/TIER/item.onnx         the part that runs per candidate, in tiles
    tiers/TIER/table.bin         the physical embedding table, memory-mapped by both parts
    router/gain.json             where the router is learned: its model (triton_ads/routing/gain.py)
    target/                      where ads are generated: tree, words, users, model (serving/target_release.py)
    tiers/TIER/maps.json         the calibration maps that both parts hold, for people

The server refuses a release whose files do not have the digests that the manifest gives.
"""

import hashlib
import json
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from triton_ads.recipe import Recipe

MANIFEST_VERSION = 1
WIRE_VERSION = 2
MANIFEST_FILE = "manifest.json"


class ManifestError(ValueError):
    """A release that cannot be served; the message says which file or field and why."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StateEntry(_Part):
    """One cut value of the user part: where it lies in the flat state of a user and how the item part reads it."""

    name: str
    shape: tuple[int, ...]  # without the user axis
    dtype: Literal["float32", "int64", "bool"]
    offset: int  # in floats, from the start of the state
    size: int  # floats taken; an int64 takes two per element (docs/wire.md)


class CostModel(_Part):
    """Processor time on the building machine, one thread: `user_ms`, then `fixed_ms + tile_ms * tiles`."""

    fixed_ms: float
    tile_ms: float
    user_ms: float


class PredictedOverActual(_Part):
    """How honest a tier is about a label, on the test part: over all scenarios, or within one."""

    label: str
    scenario: str | None
    examples: int
    positives: int
    predicted: float  # sum of the probabilities

    @property
    def ratio(self) -> float:
        """1 is honest; infinite without a positive."""
        return self.predicted / self.positives if self.positives else float("inf")


class TierManifest(_Part):
    model: str
    engine: Literal["onnxruntime"]
    precision: Literal["float32"]
    state: tuple[StateEntry, ...]
    state_size: int  # floats, without the header
    parameters: int
    flops_user: int  # once per request
    flops_item: int  # per candidate
    cost: CostModel
    parity: dict[str, float]  # greatest difference in probability, by pair compared
    quality: dict[str, dict[str, float]]  # label -> measure -> value, on the test split
    calibration: tuple[PredictedOverActual, ...] = ()


class RouterManifest(_Part):
    """A learned router, and what the requests of the test part gain by the high tier, in nats of log-loss."""

    features: int
    penalty: float  # that cross-validation chose
    requests: dict[str, int]  # fitted on validation, judged on test
    gain: float  # mean over all requests
    gain_of_best_quarter: float  # mean over the quarter of which the router expects most


class TargetManifest(_Part):
    """A generator of ads, and how its answers compare with baselines on the test part."""

    catalogue: str  # digest of the tree that the model was trained for
    ads: int
    nodes: int
    words: int  # of queries
    vocabulary: int  # tokens of the model
    parameters: int
    weight_bytes: int  # packed
    questions: int
    quality: dict[str, dict[str, float]]  # mode or baseline -> measure -> value


class Manifest(_Part):
    """What the server must know of a release."""

    manifest_version: Literal[1] = 1
    wire_version: Literal[2] = 2
    release: str  # 12 hex digits, from the digests of recipe, vocabularies and files
    recipe: Recipe
    recipe_digest: str
    vocabulary_digest: str
    table_rows: dict[str, int]  # rows of each table, PAD and OOV included
    tiers: dict[str, TierManifest]
    router: RouterManifest | None = None  # of a recipe whose router is learned
    target: TargetManifest | None = None  # of a recipe that generates ads
    files: dict[str, str]  # path inside the release -> sha256

    def save(self, folder: Path) -> None:
        (folder / MANIFEST_FILE).write_text(json.dumps(self.model_dump(mode="json"), indent=1) + "\n")

    @classmethod
    def load(cls, folder: Path, *, verify_files: bool = True) -> Self:
        """Read a release's manifest and check that its parts belong together.

        Raises:
            ManifestError: missing, malformed, of another version, or a file does not have the digest given.
        """
        path = folder / MANIFEST_FILE
        try:
            manifest = cls.model_validate_json(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ManifestError(f"{path}: {error.strerror or error}") from None
        except (ValidationError, UnicodeDecodeError) as error:
            raise ManifestError(f"{path}: {error}") from None
        if manifest.recipe_digest != manifest.recipe.digest:
            raise ManifestError(
                f"{path}: recipe_digest {manifest.recipe_digest[:12]} does not match the recipe "
                f"({manifest.recipe.digest[:12]}): it was changed by hand or built by another version of triton-ads"
            )
        if set(manifest.tiers) != set(manifest.recipe.tiers):
            raise ManifestError(
                f"{path}: tiers {sorted(manifest.tiers)} do not match the recipe's {sorted(manifest.recipe.tiers)}"
            )
        if (manifest.target is None) != (manifest.recipe.target is None):
            raise ManifestError(f"{path}: recipe and manifest do not agree whether there is a `target`")
        if release_id(manifest.recipe_digest, manifest.files) != manifest.release:
            raise ManifestError(f"{path}: release {manifest.release} does not match the digests of its files")
        if verify_files:
            for name, digest in manifest.files.items():
                found = file_digest(folder / name)
                if found != digest:
                    raise ManifestError(f"{folder / name}: digest {found[:12]}, the manifest says {digest[:12]}")
        return manifest


def file_digest(path: Path) -> str:
    """sha256 of a file.

    Raises:
        ManifestError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror or error}") from None


def release_id(recipe_digest: str, files: dict[str, str]) -> str:
    """12 hex digits that name a release: the same inputs give the same release."""
    text = json.dumps([recipe_digest, sorted(files.items())])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def release_header(release: str) -> tuple[float, float]:
    """The two floats at the head of a state that name its release: 24 bits each, exact in float32.

    >>> release_header("000001000002")
    (1.0, 2.0)
    """
    return float(int(release[:6], 16)), float(int(release[6:12], 16))
