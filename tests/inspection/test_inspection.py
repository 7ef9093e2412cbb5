"""What `triton-ads inspect` shows of the tiny recipe and of a tiny release, whose numbers are known."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from tests.support.recipes import tiny_recipe
from tests.support.tiny_release import WIDTH, write_tiny_release
from tests.support.tiny_release import tiny_recipe as serving_recipe
from triton_ads.cli import main
from triton_ads.export.repository import write_repository
from triton_ads.inspection.recipe import sequences_table, tables_table, wire_table
from triton_ads.inspection.release import calibration_table, show_split
from triton_ads.inspection.target import target_table
from triton_ads.inspection.titles import load_titles
from triton_ads.inspection.units import count, size
from triton_ads.manifest import Manifest, ManifestError, PredictedOverActual, TargetManifest

REPORT = {
    "flops_row": 3000,
    "flops_user": 2000,
    "flops_item": 750,
    "shared": 0.75,
    "state_bytes": 40,
    "state": [
        {"name": "keys", "shape": [2, 4], "dtype": "float32", "offset": 0, "size": 8},
        {"name": "row", "shape": [], "dtype": "int64", "offset": 8, "size": 2},
    ],
    "unshared": [{"operator": "aten.roll", "source": "/somewhere/model.py:7", "elements": 128}],
}


def cells(table: Table) -> list[list[str]]:
    columns = [list(column.cells) for column in table.columns]
    return [list(map(str, row)) for row in zip(*columns, strict=True)]


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return write_tiny_release(tmp_path / "release")


def test_columns_of_the_wire_in_order() -> None:
    assert cells(wire_table(tiny_recipe())) == [
        ["user_features", "2", "0", "user_id", "user"],
        ["", "", "1", "zip_code", "zip"],
        ["user_dense", "1", "0", "activity", "(a float)"],
        ["context_features", "1", "0", "place", "place"],
        ["item_features, an ad", "3", "0", "item_id", "item"],
        ["", "", "1-2", "similar", "item"],
    ]


def test_sequences_and_tables() -> None:
    recipe = tiny_recipe()
    assert cells(sequences_table(recipe)) == [
        ["seen", "3", "item_id (item), zip_code (zip)"],
        ["bought", "2", "item_id (item)"],
    ]
    assert cells(tables_table(recipe))[0] == ["user", "the ids seen in training", "8", "32 B"]
    assert cells(tables_table(recipe))[3] == ["zip", "16, by hash", "4", "16 B"]


def test_a_release_with_its_tiers(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "release", str(release)]) == 0
    shown = capsys.readouterr().out
    assert "all digests right" in shown
    lines = {line.split("  ")[0].strip(): line.split() for line in shown.splitlines()}
    assert lines["model"][-2:] == ["wukong", "hyformer"]
    # floats of 4 bytes: a vector and a dense value; two vectors and a dense value
    assert lines["state of a user"][-4:] == [f"{4 * (WIDTH + 1)}", "B", f"{4 * (2 * WIDTH + 1)}", "B"]


def test_a_ratio_that_is_held_to_no_bound_is_marked(release: Path) -> None:
    manifest = Manifest.load(release)
    sums = ((None, 1000, 400, 480.0), (None, 1000, 199, 480.0), ("morning", 1000, 300, 300.0))
    judged = tuple(
        PredictedOverActual(label="cvr", scenario=scenario, examples=n, positives=positives, predicted=predicted)
        for scenario, n, positives, predicted in sums
    )
    tiers = {"standard": manifest.tiers["standard"].model_copy(update={"calibration": judged})}
    table = calibration_table(manifest.model_copy(update={"tiers": tiers}))
    assert [row[-2:] for row in cells(table)] == [["480", "1.200 "], ["480", "2.412*"], ["300", "1.000 "]]
    assert table.caption == (
        "allowed: 0.83 to 1.20, within a scenario 0.67 to 1.50\n"
        "* held to no bound: fewer than 200 positives or negatives"
    )


def test_other_recipes_of_the_repository_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_repository(write_tiny_release(Path("var/releases/tiny-0")), Path("var/repository"))
    assert main(["inspect", "release"]) == 0
    assert "also serves" not in capsys.readouterr().out
    films = serving_recipe(prefix="films").model_copy(update={"name": "films"})
    write_repository(write_tiny_release(Path("var/releases/films-0"), films), Path("var/repository"))
    assert main(["inspect", "release"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "var/repository also serves films as films_rank: triton-ads inspect release var/releases/films-0"
    )


def test_a_damaged_release(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (release / "store" / "titles.json").write_text("{}")
    assert main(["inspect", "release", str(release)]) == 1
    error = capsys.readouterr().err
    assert "titles.json: digest" in error
    assert error.count("\n") == 1


def test_a_split(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (release / "tiers" / "high" / "split.json").write_text(json.dumps(REPORT))
    show_split(release, "high", Console())
    shown = " ".join(capsys.readouterr().out.split())
    assert "costs N x 3 k FLOPs; split, 2 k + N x 750: 75.0% of an ad's operations" in shown
    assert "State of a user: 40 B" in shown
    assert "keys 2 x 4 float32 32" in shown
    assert "row 1 int64 8" in shown
    assert "aten.roll 128 /somewhere/model.py:7" in shown


def test_a_split_that_shares_everything_says_so(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (release / "tiers" / "high" / "split.json").write_text(json.dumps({**REPORT, "unshared": []}))
    show_split(release, "high", Console())
    assert "Nothing of the user is copied for each ad." in capsys.readouterr().out


def test_an_unknown_tier_and_a_missing_report(release: Path) -> None:
    with pytest.raises(ManifestError, match="tier 'best' is not known; tiers: standard, high"):
        show_split(release, "best", Console())
    with pytest.raises(ManifestError, match=r"standard/split\.json: no report of the split"):
        show_split(release, None, Console())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "flops_row: Field required"),
        ("[]", "Input should be an object"),
        (json.dumps({**REPORT, "unshared": [3]}), r"unshared\.0: Input should be"),
        (json.dumps({**REPORT, "shared": "much"}), "shared: Input should be a valid number"),
        ("[" * 5000, "Invalid JSON"),
        ("\ud800", "Invalid JSON"),
    ],
    ids=range(6),
)
def test_a_damaged_report_of_a_split(release: Path, text: str, message: str) -> None:
    path = release / "tiers" / "high" / "split.json"
    path.write_text(text, errors="surrogatepass")
    with pytest.raises(ManifestError, match=rf"high/split\.json: no report of the split: {message}"):
        show_split(release, "high", Console())


@pytest.mark.parametrize("text", ["", "[1]", '{"5": 3}', "[" * 5000, "{"], ids=range(5))
def test_damaged_titles(release: Path, text: str) -> None:
    path = release / "store" / "titles.json"
    path.write_text(text)
    with pytest.raises(ManifestError, match=r"store/titles\.json: no titles by id: "):
        load_titles(release)
    path.unlink()
    with pytest.raises(ManifestError, match=r"store/titles\.json: No such file"):
        load_titles(release)


def test_the_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "schema"]) == 0
    assert json.loads(capsys.readouterr().out)["properties"]["version"]["const"] == 1


def test_the_recipe_of_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "recipe", str(Path(__file__).parents[1] / "recipes" / "tiny.yaml")]) == 0
    assert "recent" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (999, "999"), (1000, "1 k"), (24_739_872, "24.7 M"), (5e12, "5 T")]
)
def test_counts(number: float, text: str) -> None:
    assert count(number) == text


@pytest.mark.parametrize(("number", "text"), [(0, "0 B"), (448, "448 B"), (80_420, "80.4 kB")])
def test_sizes(number: int, text: str) -> None:
    assert size(number) == text


def test_what_generated_ads_are_worth_stands_beside_baselines() -> None:
    quality = {
        "beam": {"recall@20": 0.25, "milliseconds": 3.5},
        "exact": {"recall@20": 0.5, "milliseconds": 4.0},
        "popularity": {"recall@20": 0.125},
    }
    manifest = TargetManifest(
        catalogue="0" * 64, ads=60, nodes=85, words=3, vocabulary=21, parameters=12_000, weight_bytes=6_000,
        questions=500, quality=quality,
    )  # fmt: skip
    console = Console(record=True, width=120, file=io.StringIO())
    console.print(target_table(manifest, "exact"))
    rows = [line.split() for line in console.export_text().splitlines()]
    assert ["beam", "0.2500", "3.5000"] in rows
    assert ["exact,", "served", "0.5000", "4.0000"] in rows
    assert ["popularity", "0.1250"] in rows
