"""What a person is shown of an ad."""

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from triton_ads.manifest import ManifestError

_TITLES = TypeAdapter(dict[str, str])


def load_titles(release: Path) -> dict[str, str]:
    """Title of each item of a release, by its id as text.

    Raises:
        ManifestError: the file is missing or damaged.
    """
    path = release / "store" / "titles.json"
    try:
        return _TITLES.validate_json(path.read_bytes())
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror or error}") from None
    except ValidationError as error:
        raise ManifestError(f"{path}: no titles by id: {error.errors(include_url=False)[0]['msg']}") from None
