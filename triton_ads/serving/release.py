"""The release that a model version serves: found beside its model.py, checked before anything is loaded."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from triton_ads.features.vocabulary import Tables
from triton_ads.manifest import Manifest, ManifestError, file_digest
from triton_ads.recipe import Recipe


@dataclass(frozen=True)
class Release:
    """A checked release."""

    folder: Path
    manifest: Manifest

    @classmethod
    def open(cls, folder: Path, *parts: str) -> Self:
        """Read a release and verify the digests of the files below `parts`; of all files where none are given.

        Who chooses tiers (`rank`, or the router) verifies everything. The others check what they load themselves, which
        keeps a start short.

        Raises:
            ManifestError: the release is damaged, or `parts` match no file.
        """
        manifest = Manifest.load(folder, verify_files=not parts)
        for part in parts:
            names = [n for n in manifest.files if n == part or n.startswith(f"{part}/")]
            if not names:
                raise ManifestError(f"{folder}: the manifest has no file {part}")
            for name in names:
                found = file_digest(folder / name)
                if found != manifest.files[name]:
                    raise ManifestError(
                        f"{folder / name}: digest {found[:12]}, the manifest says {manifest.files[name][:12]}"
                    )
        return cls(folder, manifest)

    @property
    def recipe(self) -> Recipe:
        return self.manifest.recipe

    @property
    def number(self) -> int:
        """The release as a number, below 2^48."""
        return int(self.manifest.release, 16)

    @property
    def tiers(self) -> list[str]:
        """Tiers in the recipe's order: a tier's position is its index on the wire."""
        return list(self.recipe.tiers)

    def tables(self) -> Tables:
        """The release's vocabularies.

        Raises:
            ManifestError: they are not those that the tiers were trained with.
        """
        tables = Tables.load(self.recipe, self.folder / "vocabularies")
        if tables.table_rows != self.manifest.table_rows:
            raise ManifestError(
                f"{self.folder}: vocabularies give rows {tables.table_rows}, the manifest {self.manifest.table_rows}"
            )
        if tables.digest != self.manifest.vocabulary_digest:
            raise ManifestError(
                f"{self.folder}: vocabularies have the digest {tables.digest[:12]}, the manifest says "
                f"{self.manifest.vocabulary_digest[:12]}"
            )
        return tables

    def graph(self, tier: str, side: str) -> Path:
        return self.folder / "tiers" / tier / f"{side}.onnx"
