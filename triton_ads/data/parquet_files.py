"""Which Parquet files a recipe names: light, for the build looks at them each time."""

from pathlib import Path

from triton_ads.data.download import DataError
from triton_ads.recipe import Recipe
from triton_ads.recipe.data import Parquet


def files_of(path: str, folder: Path, field: str) -> list[Path]:
    """The files that a path of a recipe names, sorted by name: a file, all `*.parquet` below a folder, or a pattern.

    Args:
        path: relative to `folder`, or absolute.
        field: of the recipe, for messages.

    Raises:
        DataError: there is no such file.
    """
    place = folder / path
    try:
        if place.is_file():
            return [place]
        if place.is_dir():
            found, none = sorted(place.rglob("*.parquet")), f"the folder {place} holds no file *.parquet"
        else:
            root = Path(place.anchor) if Path(path).is_absolute() else folder
            matches = root.glob(path.removeprefix(place.anchor))
            found, none = sorted(match for match in matches if match.is_file()), f"there is no file {place}"
    except (OSError, ValueError, NotImplementedError) as error:  # may not be looked into, or is no pattern
        raise DataError(f"{field}: {place} cannot be looked for: {error}") from None
    if not found:
        raise DataError(f"{field}: {none}")
    return found


def data_files(recipe: Recipe) -> list[Path]:
    """Every file that the recipe's data is read from; none where the source is no Parquet.

    Raises:
        DataError: there is no such file.
    """
    if not isinstance(recipe.data, Parquet):
        return []
    named = {"events": recipe.data.events, "users": recipe.data.users, "items": recipe.data.items}
    return [
        file
        for name, path in named.items()
        if path is not None
        for file in files_of(path, recipe.folder, f"data.{name}")
    ]
