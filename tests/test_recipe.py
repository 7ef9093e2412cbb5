"""Recipes: what is accepted, and the message for each thing that is not."""

import copy
import datetime
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from triton_ads.recipe import Column, RecipeError, load_recipe, parse_recipe, recipe_schema

DEFAULT = Path(__file__).parents[1] / "build" / "recipes" / "movielens.yaml"


@pytest.fixture
def document() -> dict[str, Any]:
    return copy.deepcopy(yaml.safe_load(DEFAULT.read_text()))


def refuse(document: object) -> str:
    with pytest.raises(RecipeError) as caught:
        parse_recipe(document)
    return str(caught.value)


def put(document: dict[str, Any], place: str, value: object) -> None:
    """`features.0.table = value`."""
    *path, last = place.split(".")
    target: Any = document
    for step in path:
        target = target[int(step)] if step.isdigit() else target.setdefault(step, {})
    target[int(last) if last.isdigit() else last] = value


def test_the_default_recipe_is_the_source_s_size() -> None:
    """13 tokens of 32 floats: 416 floats of features, 16 of each side's dense projection among them."""
    recipe = load_recipe(DEFAULT)
    widths = [recipe.tables[f.table].width for f in recipe.features if f.table is not None]
    assert sum(widths) + 2 * 16 == 13 * 32
    assert [s.length for s in recipe.sequences] == [50, 50, 50]
    assert recipe.sequence_width == 3 * 50 * 3
    assert recipe.unit_width == 16
    assert (recipe.rank_rule.text, list(recipe.labels)) == ("cvr", ["cvr", "dcvr"])


def test_columns_follow_the_declaration_side_by_side() -> None:
    recipe = load_recipe(DEFAULT)
    assert recipe.id_columns("item") == [
        Column("item_id", "item"),
        *[Column("genres", "genre", slot) for slot in range(6)],
        Column("year", "year"),
    ]
    names = [column.feature for column in recipe.id_columns("user", "context")]
    assert names == ["user_id", "gender", "age_band", "occupation", "zip_code", "hour", "weekday", "daypart"]
    assert recipe.dense_columns("user", "context") == [Column("activity", None)]


INT64 = "an integer must fit int64, -9223372036854775808 to 9223372036854775807"
PARQUET = {"source": "parquet", "events": "events.parquet"}
WRONG = [
    ("name", "My Recipe", "name: String should match pattern '^[a-z][a-z0-9_]{0,62}$', found 'My Recipe'"),
    ("version", 2, "version: Input should be 1, found 2"),
    (
        "data.source",
        "netflix",
        "data.source: Input should be 'movielens-100k' or 'parquet' or 'synthetic', found 'netflix'",
    ),
    ("data.source", 3, "data.source: Input should be 'movielens-100k' or 'parquet' or 'synthetic', found 3"),
    ("data", {"train_fraction": 0.5}, "data.source: this field is required"),
    ("data", "movielens-100k", "data: Input should be a valid dictionary"),
    ("data.train_fraction", 1.5, "data.train_fraction: Input should be less than 1, found 1.5"),
    ("data.events", "x", "data.events: no such field; allowed: source, train_fraction, validation_fraction"),
    ("data", {"source": "parquet"}, "data.events: this field is required"),
    ("data", {"source": "parquet", "events": 3}, "data.events: Input should be a valid string, found 3"),
    ("data", {**PARQUET, "item_key": "x"}, "data.item_key: no such field; allowed: columns, events, histories, item"),
    ("data", {**PARQUET, "histories": {"liked": "x"}}, "data.histories: 'liked' is not known; allowed: recent, space"),
    ("data", {**PARQUET, "columns": {"year": 3}}, "data.columns.year: Input should be a valid string, found 3"),
    ("data.train_fraction", 0.95, "data: train_fraction + validation_fraction must be below 1"),
    ("tables.user.width", 6, "tables.user.width: Input should be a multiple of 4, found 6"),
    ("tables.user.rows", 5, "tables.user: `rows` is required for kind hashed and not allowed for kind vocabulary"),
    ("tables.zip_code.rows", None, "tables.zip_code: `rows` is required for kind hashed"),
    ("features.0.side", "ad", "features[0].side: Input should be 'user', 'context' or 'item', found 'ad'"),
    ("features.0.table", "itm", "features[0].table: 'itm' is not known; allowed: user, gender"),
    ("features.0.table", None, "features[0]: `table` is required for kinds id and ids"),
    (
        "features.5.table",
        "user",
        "features[5]: `table` is required for kinds id and ids and not allowed for kinds dense and value",
    ),
    ("features.10.length", None, "features[10]: `length` is required for kind ids"),
    ("features.0.length", 3, "features[0]: `length` is required for kind ids and not allowed for other kinds"),
    ("features.1.name", "user_id", "features: user_id declared twice; names must differ"),
    ("features.0.tabel", "user", "features[0].tabel: no such field; allowed: kind, length, name, side, table"),
    ("sequences.1.fields.0.table", "x", "sequences[1].fields[0].table: 'x' is not known; allowed: user"),
    ("sequences.1.fields.0.widht", 3, "sequences[1].fields[0].widht: no such field; allowed: name, table"),
    ("sequences.0.length", 0, "sequences[0].length: Input should be greater than or equal to 1, found 0"),
    ("sequences.0.fields", [], "sequences[0].fields: Tuple should have at least 1 item"),
    ("scenario.feature", "hours", "scenario.feature: 'hours' is not known; allowed: hour, weekday, daypart"),
    ("scenario.defualt", 1, "scenario.defualt: no such field; allowed: default, feature"),
    ("labels", [], "labels: Tuple should have at least 1 item"),
    ("labels", ["cvr", "cvr"], "labels: cvr declared twice; names must differ"),
    ("rank_by", "ctr", "rank_by: 'ctr' is not known; allowed: cvr, dcvr, popularity"),
    ("rank_by", "bid * cvr", "rank_by: 'bid' is not known; allowed: cvr, dcvr, popularity"),
    ("rank_by", "cvr[0]", "rank_by: 'cvr[0]' is not allowed; allowed: names, numbers, + - * / **, parentheses, min"),
    ("rank_by", 3, "rank_by: Input should be a valid string, found 3"),
    ("features.0.kind", "value", "features[0]: `table` is required for kinds id and ids and not allowed for kinds"),
    ("features.5.kind", "value", "features[5]: kind value is of side item only, found user"),
    ("calibration.method", "beta", "calibration.method: Input should be 'none', 'platt' or 'isotonic', found 'beta'"),
    ("calibration.by_scenario", 1, "calibration.by_scenario: Input should be a valid boolean, found 1"),
    ("calibration.tolerance", 0, "calibration.tolerance: Input should be greater than 0, found 0"),
    ("calibration.slope", 1, "calibration.slope: no such field; allowed: by_scenario, method, min_examples"),
    ("heads", {"by": "scenarios"}, "heads.by: scenarios needs `scenario` and a non-empty `heads.scenarios`"),
    ("heads", {"by": "scenarios", "scenarios": ["noon"]}, "scenario.default: 'evening' is not known; allowed: noon"),
    ("tiers", {}, "tiers: Dictionary should have at least 1 item"),
    ("tiers.high.model", "dlrm", "tiers.high.model: Input should be 'hyformer', 'wukong' or FILE.py:CLASS, found 'dl"),
    ("tiers.high.model", "din.py", "tiers.high.model: Input should be 'hyformer', 'wukong' or FILE.py:CLASS, found 'd"),
    ("tiers.high.model", "din.py:2", "tiers.high.model: Input should be 'hyformer', 'wukong' or FILE.py:CLASS, found"),
    ("tiers.high.model", 3, "tiers.high.model: Input should be a valid string, found 3"),
    ("router.high_tier", "huge", "router.high_tier: 'huge' is not known; allowed: standard, high"),
    ("router.default_tier", "huge", "router.default_tier: 'huge' is not known; allowed: standard, high"),
    ("router.high_scenarios", 3, "router.high_scenarios: Input should be a valid tuple, found 3"),
    ("serving.tile", 0, "serving.tile: Input should be greater than or equal to 1, found 0"),
    ("serving.max_batch_requests", True, "serving.max_batch_requests: Input should be a valid integer, found True"),
    ("serving.tile", "64", "serving.tile: Input should be a valid integer, found '64'"),
    ("serving.tile", 64.0, "serving.tile: Input should be a valid integer, found 64.0"),
    ("serving.buckets", [True, 2], "serving.buckets[0]: Input should be a valid integer, found True"),
    ("scenario.default", "\ud800", "surrogates not allowed"),
    ("scenario.default", True, "Input should be a valid integer, found True"),
    ("training.weight_decay", True, "training.weight_decay: Input should be a number, found True"),
    ("training.weight_decay", float("nan"), "training.weight_decay: Input should be"),
    ("training.seed", -1, "training.seed: Input should be greater than or equal to 0, found -1"),
    ("router.high_candidates_per_second", float("inf"), "router.high_candidates_per_second: Input should be a finite"),
    ("scenario.default", 2**63, f"scenario.default: {INT64}, found 9223372036854775808"),
    ("scenario.default", -(2**63) - 1, f"scenario.default: {INT64}, found -9223372036854775809"),
    ("router.high_scenarios", [1, 10**30], f"router.high_scenarios[1]: {INT64}, found {10**30}"),
    ("router.min_history", 10**5000, f"router.min_history: {INT64}, found one of 16610 bits"),
    ("tiers.high.config", {"layers": [2**70]}, f"tiers.high.config.layers[0]: {INT64}, found {2**70}"),
    ("serving.tile", "many", "serving.tile: Input should be a valid integer"),
    ("serving.buckets", [4, 2], "serving: `buckets` must be positive and strictly increasing, found [4, 2]"),
    ("serving.deadline", 5, "serving.deadline: no such field; allowed: buckets, deadline_ms"),
]


@pytest.mark.parametrize(
    ("place", "value", "message"), WRONG, ids=[f"{place}-{n}" for n, (place, *_) in enumerate(WRONG)]
)
def test_a_wrong_value_is_named_with_what_is_allowed(
    document: dict[str, Any], place: str, value: object, message: str
) -> None:
    put(document, place, value)
    assert message in refuse(document)


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize("value", [CIRCLE, b"\xff", "\ud800", datetime.date(2026, 1, 1), {1, 2}], ids=range(5))
def test_a_config_that_is_no_json(document: dict[str, Any], value: object) -> None:
    put(document, "tiers.high.config", {"x": value})
    assert "tiers.high: `config` must hold numbers, text, lists and mappings only: " in refuse(document)


def test_every_mistake_is_told_at_once(document: dict[str, Any]) -> None:
    put(document, "serving.tile", 0)
    put(document, "data.source", "x")
    told = refuse(document)
    assert "serving.tile" in told
    assert "data.source" in told


@pytest.mark.parametrize("field", ["name", "data", "tables", "features", "labels", "tiers", "router"])
def test_a_missing_field_is_named(document: dict[str, Any], field: str) -> None:
    del document[field]
    assert f"{field}: this field is required" in refuse(document)


@pytest.mark.parametrize("side", ["user", "item"])
def test_both_sides_need_an_id(document: dict[str, Any], side: str) -> None:
    document["features"] = [f for f in document["features"] if f["side"] != side or f.get("kind") == "dense"]
    assert f"no id feature of side {side}" in refuse(document)


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2]",
        "just words",
        "",
        "a: [unclosed",
        "\x00",
        "a: 2026-13-45",
        "a: !!bool x",
        "a: !!int ''",
        "a: !!timestamp x",
        f"a: {'9' * 5000}",
        "&a [*a]",
        "&a {name: *a}",
    ],
    ids=range(12),
)
def test_a_file_that_is_no_recipe(tmp_path: Path, text: str) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError, match=r"recipe\.yaml"):
        load_recipe(path)


@pytest.mark.parametrize("text", ["[" * 5000, "a: " + "{b: " * 5000], ids=["lists", "mappings"])
def test_a_file_that_is_nested_too_deeply(tmp_path: Path, text: str) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError, match=r"recipe\.yaml: nested too deeply"):
        load_recipe(path)


@pytest.mark.parametrize("scenario", [2**63 - 1, -(2**63)])
def test_the_largest_and_the_smallest_id_are_ids(document: dict[str, Any], scenario: int) -> None:
    put(document, "scenario.default", scenario)
    recipe = parse_recipe(document)
    assert recipe.scenario is not None
    assert recipe.scenario.default == scenario
    assert parse_recipe(json.loads(recipe.canonical())) == recipe


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="No such file"):
        load_recipe(tmp_path / "none.yaml")


def test_the_digest_depends_on_what_is_said_not_on_how(document: dict[str, Any]) -> None:
    recipe = parse_recipe(document)
    assert parse_recipe(dict(reversed(document.items()))).digest == recipe.digest
    document["serving"]["queue_delay_us"] = 0  # a default, written out
    assert parse_recipe(document).digest == recipe.digest
    document["serving"]["tile"] = 32
    assert parse_recipe(document).digest != recipe.digest


def test_canonical_text_is_a_recipe_again() -> None:
    recipe = load_recipe(DEFAULT)
    assert parse_recipe(json.loads(recipe.canonical())) == recipe


def test_the_schema_allows_the_fields_of_a_recipe_and_no_others() -> None:
    schema = recipe_schema()
    assert set(schema["properties"]) >= {"name", "tables", "features", "sequences", "tiers", "serving"}
    assert schema["additionalProperties"] is False


def test_a_recipe_knows_its_folder_and_is_the_same_elsewhere(document: dict[str, Any]) -> None:
    recipe = load_recipe(DEFAULT)
    assert recipe.folder == DEFAULT.parent
    elsewhere = parse_recipe(document, folder=Path("elsewhere"))
    assert (elsewhere.folder, parse_recipe(document).folder) == (Path("elsewhere"), Path())
    assert elsewhere == recipe
    assert elsewhere.digest == recipe.digest
    assert str(DEFAULT.parent) not in recipe.model_dump_json()


def test_values_are_columns_of_their_own_that_the_rule_reads(document: dict[str, Any]) -> None:
    document["features"] += [{"name": name, "side": "item", "kind": "value"} for name in ("bid", "margin")]
    document["rank_by"] = "bid * cvr - popularity"
    recipe = parse_recipe(document)
    assert recipe.value_columns() == [Column("bid", None), Column("margin", None)]
    assert recipe.dense_columns("item") == [Column("popularity", None)]
    assert [c.feature for c in recipe.id_columns("item") if c.slot == 0] == ["item_id", "genres", "year"]
    assert recipe.rank_rule.names == ("bid", "cvr", "popularity")
