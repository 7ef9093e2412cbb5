"""Fetching: errors that say what to do. The real fetch is what `wheel` in conftest.py does."""

from pathlib import Path

import pytest

from triton_ads.data import movielens
from triton_ads.data.download import DataError, fetch_wheel


def test_what_is_there_is_not_fetched_again(tmp_path: Path, wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / movielens.WHEEL).symlink_to(wheel)
    assert movielens.fetch(tmp_path) == tmp_path / movielens.WHEEL
    assert capsys.readouterr().out == ""


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / movielens.WHEEL).write_bytes(b"half a wheel")
    with pytest.raises(DataError, match=r"recbole-1\.2\.1.*: sha256 .* found, 9c9948202011.* needed; remove the file"):
        movielens.fetch(tmp_path)


def test_no_network_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # pip's own settings: an index on a closed port of this machine, and no second try.
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    with pytest.raises(DataError, match=r"recbole==1\.2\.1 could not be fetched; is there a network\? Put recbole-"):
        movielens.fetch(tmp_path / "downloads")
    assert list((tmp_path / "downloads").iterdir()) == []


def test_the_digest_is_checked_before_the_file_appears(tmp_path: Path, wheel: Path, monkeypatch) -> None:
    # The real wheel from a folder instead of the network, with a wrong digest wanted.
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    with pytest.raises(DataError, match=r"sha256 9c9948202011.* found, 00 needed"):
        fetch_wheel(movielens.REQUIREMENT, movielens.WHEEL, "00", tmp_path)
    assert not (tmp_path / movielens.WHEEL).exists()


def test_the_terms_are_printed_when_fetched(
    tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    assert movielens.fetch(tmp_path).stat().st_size == wheel.stat().st_size
    assert "Harper and Joseph A. Konstan. 2015" in capsys.readouterr().out
