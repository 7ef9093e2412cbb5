"""What a build depends on that is the recipe author's: Parquet files and model files."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.support.recipes import tiny_recipe
from triton_ads.data.download import DataError
from triton_ads.pipeline.inputs import file_inputs
from triton_ads.pipeline.layout import Layout
from triton_ads.pipeline.plan import plan
from triton_ads.recipe import load_recipe

#: Stages that run the model of the tier `standard`.
OF_THE_TIER = ["check standard", "train standard", "calibrate standard", "export standard"]
MODEL = "from torch import nn\n\n\nclass Mine(nn.Module):\n    pass\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A recipe on Parquet files with a tier of one's own and a built-in one."""
    document = tiny_recipe().model_dump(mode="json", exclude_defaults=True)
    document["data"] = {"source": "parquet", "events": "days", "items": "items.parquet"}
    document["tiers"] = {"standard": {"model": "models/mine.py:Mine"}, "high": {"model": "wukong"}}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(document))
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "mine.py").write_text(MODEL)
    write(tmp_path / "days" / "1.parquet", [1, 2])
    write(tmp_path / "items.parquet", [1])
    return tmp_path


def write(file: Path, values: list[int]) -> None:
    file.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"x": values}), file)


def digests(folder: Path) -> dict[str, dict[str, str]]:
    """Stage -> all its inputs. The recipe's path is relative to another folder than the build's."""
    recipe = load_recipe(folder / "recipe.yaml")
    return {stage.name: stage.inputs() for stage in plan(recipe, Layout(folder / "var", recipe.name))}


def concerned(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> list[str]:
    return [name for name in before if before[name] != after[name]]


def test_files_are_inputs_by_their_path(folder: Path) -> None:
    found = digests(folder)
    assert {"../days/1.parquet", "../items.parquet", "pyarrow", "triton_ads/data/parquet.py"} <= set(found["data"])
    assert "triton_ads/data/movielens.py" not in found["data"]
    of_model = [stage for stage, inputs in found.items() if "../models/mine.py" in inputs]
    assert of_model == OF_THE_TIER


@pytest.mark.parametrize("change", ["content", "new", "gone"])
def test_a_change_of_the_data_concerns_the_data_stage(folder: Path, change: str) -> None:
    write(folder / "days" / "2.parquet", [3])
    before = digests(folder)
    if change == "content":
        write(folder / "days" / "1.parquet", [1, 3])
    elif change == "new":
        write(folder / "days" / "3.parquet", [1])
    else:
        (folder / "days" / "2.parquet").unlink()
    assert concerned(before, digests(folder)) == ["data"]


def test_a_change_of_the_model_concerns_its_tier(folder: Path) -> None:
    before = digests(folder)
    (folder / "models" / "mine.py").write_text(MODEL.replace("pass", "width = 3"))
    assert concerned(before, digests(folder)) == OF_THE_TIER


def test_comments_of_the_model_concern_nothing(folder: Path) -> None:
    before = digests(folder)
    (folder / "models" / "mine.py").write_text(f'"""Mine."""\n# the best\n{MODEL}')
    assert concerned(before, digests(folder)) == []


def test_what_the_model_imports_of_ours_counts(folder: Path) -> None:
    file = folder / "models" / "mine.py"
    file.write_text(f"from triton_ads.models.pooling import masked_mean\n{MODEL}")
    assert {"../models/mine.py", "triton_ads/models/pooling.py"} <= set(file_inputs(file, folder / "var"))


@pytest.mark.parametrize("text", [None, "class (", "\x00", b"\xff"])
def test_a_model_that_cannot_be_read_has_no_digest_and_its_stage_says_why(folder: Path, text: Any) -> None:
    file = folder / "models" / "mine.py"
    file.unlink()
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert file_inputs(file, folder / "var") == {}


def test_missing_data_is_told_before_the_stage_runs(folder: Path) -> None:
    (folder / "items.parquet").unlink()
    with pytest.raises(DataError, match=r"^data\.items: there is no file .*items\.parquet$"):
        digests(folder)
