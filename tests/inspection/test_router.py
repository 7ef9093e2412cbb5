"""A learned router as a table."""

from pathlib import Path

import pytest
from rich.console import Console

from tests.support.learned_release import learned_recipe, write_learned_release
from triton_ads.inspection.router import router_table
from triton_ads.manifest import Manifest, ManifestError, RouterManifest

ROUTER = RouterManifest(
    features=4, penalty=0.1, requests={"validation": 900, "test": 1200}, gain=0.0012, gain_of_best_quarter=0.0345
)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    weights = {"recent events": 0.02, "clicks diversity": -0.03, "bias": 0.5}
    return write_learned_release(tmp_path_factory.mktemp("release") / "release", learned_recipe(), **weights)


def test_figures_and_the_largest_weights_first(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = router_table(release, Manifest.load(release).model_copy(update={"router": ROUTER}))
    assert table is not None
    Console(width=120).print(table)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert "mean of 1,200 requests of the test part +1.20" in lines
    assert "mean of the quarter it expects most of +34.50" in lines
    first = lines.index("one standard deviation of clicks diversity -30.00")
    assert lines[first + 1] == "one standard deviation of recent events +20.00"


def test_a_router_of_rules_has_no_table(release: Path) -> None:
    assert router_table(release, Manifest.load(release)) is None


def test_without_its_file(release: Path, tmp_path: Path) -> None:
    manifest = Manifest.load(release).model_copy(update={"router": ROUTER})
    with pytest.raises(ManifestError, match=r"router/gain\.json: No such file"):
        router_table(tmp_path, manifest)
