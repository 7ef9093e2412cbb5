"""What `triton-ads loadtest compare` says of a file that is not there."""

from pathlib import Path

import pytest

from triton_ads.cli import main


def test_a_missing_report_is_named_with_what_is_wanted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "nope.json"
    assert main(["loadtest", "compare", str(missing), str(missing)]) == 1
    assert capsys.readouterr().err == (
        f"triton-ads loadtest: {missing}: No such file or directory; "
        "the .json that `triton-ads loadtest` writes beside its report is wanted\n"
    )
