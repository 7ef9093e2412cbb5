"""Where the build puts things. All of it can be deleted at any time; the next build makes it again."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Layout:
    """Folders of the build of one recipe.

    VAR/
        downloads/                published files, as they came
        work/RECIPE/STAGE/        outputs of a stage, and the record of what they were made from
        releases/RECIPE-ID/       releases; never changed once written
        repository/               the model repository that serves the last release built
    """

    var: Path
    recipe: str

    @property
    def downloads(self) -> Path:
        return self.var / "downloads"

    @property
    def releases(self) -> Path:
        return self.var / "releases"

    @property
    def repository(self) -> Path:
        return self.var / "repository"

    @property
    def stages(self) -> Path:
        return self.var / "work" / self.recipe

    def work(self, stage: str, tier: str | None = None) -> Path:
        folder = self.stages / stage
        return folder / tier if tier else folder

    def graphs(self, tier: str) -> Path:
        """What a release takes over of an exported tier, as it is."""
        return self.work("export", tier) / "graphs"

    def tier_manifest(self, tier: str) -> Path:
        return self.work("export", tier) / "tier.json"

    @property
    def release(self) -> Path:
        """A link to the release of this recipe that was built last."""
        return self.work("release") / "release"
