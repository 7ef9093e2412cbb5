"""docs/bring_your_own.md does what it says: its blocks are run as they stand, on the real server."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from numpy.typing import NDArray

from triton_ads.client import RankClient
from triton_ads.data import Examples
from triton_ads.features.ids import raw_id
from triton_ads.features.vocabulary import Tables
from triton_ads.recipe import load_recipe
from triton_ads.server import TritonServer

pytestmark = pytest.mark.server

TEXT = (Path(__file__).parents[1] / "docs" / "bring_your_own.md").read_text()
#: Blocks that are files: the first line names them.
FILES = {name: text for text, name in re.findall(r"```(?:python|yaml)\n(# (\S+)\n.*?)```", TEXT, re.DOTALL)}
COMMANDS = [line for block in re.findall(r"```bash\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]


def run(command: str, folder: Path, *more: str) -> str:
    """A command of the document, with this Python, in `folder`; its output."""
    program, *arguments = shlex.split(command)
    start = {"python": [sys.executable], "triton-ads": [sys.executable, "-m", "triton_ads.cli"]}[program]
    done = subprocess.run([*start, *arguments, *more], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the reader sits, after the build."""
    folder = tmp_path_factory.mktemp("reader")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    for command in COMMANDS[:2]:
        run(command, folder)
    return folder


def test_it_has_the_files_and_commands_of_its_story() -> None:
    assert list(FILES) == ["make_data.py", "din.py", "din.yaml", "ask.py"]
    assert [" ".join(command.split()[:2]) for command in COMMANDS] == [
        "python make_data.py", "triton-ads build", "triton-ads serve", "triton-ads rank"
    ]  # fmt: skip


def test_module_and_recipe_are_under_60_lines() -> None:
    assert sum(len(FILES[name].splitlines()) for name in ("din.py", "din.yaml")) < 60


def test_the_served_din_ranks_as_the_module_itself(folder: Path) -> None:
    with TritonServer(folder / "var" / "repository") as server:
        assert set(server.models) == {"din_rank"}
        table = run(COMMANDS[3], folder, "--url", server.grpc_url)
        printed = run("python ask.py", folder, server.grpc_url)
        with RankClient(server.grpc_url, model="din_rank") as client:
            cases = [("user 7", "search"), ("user 8", "feed"), ("nobody", "search"), ("user 9", "nowhere")]
            for user, place in cases:
                ranking = client.rank(range(100), user_id=raw_id(user), context_features=[raw_id(place)])
                served_N = np.empty(100, np.float32)
                served_N[ranking.ids] = ranking.scores[:, 0]
                expected_N = eager(folder, user, place)
                # float32 in another order of summation: the build's own bound.
                np.testing.assert_allclose(served_N, expected_N, atol=1e-5, rtol=0)
                assert expected_N.std() > 0.01  # rows that all score alike would prove nothing
                if (user, place) == cases[0]:
                    best = ranking.ids[:5].tolist()
    assert [int(line.split()[0]) for line in printed.splitlines()] == best
    assert re.search(r"Ad \d+, topic \d", table)


def test_a_module_whose_rows_meet_is_refused_before_it_is_trained(folder: Path, tmp_path: Path) -> None:
    for name in ("events.parquet", "ads.parquet", "din.yaml"):
        shutil.copy(folder / name, tmp_path)
    (tmp_path / "din.py").write_text(
        FILES["din.py"].replace("weight * seen * events", "(weight - weight.mean(0)) * seen * events")
    )
    command = [sys.executable, "-m", "triton_ads.cli", *shlex.split(COMMANDS[1])[1:]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.search(r"not row-wise: .*; rows first meet at .*din\.py:24: aten\.mean", done.stderr), done.stderr
    assert "train standard" not in done.stdout
    assert not (tmp_path / "var" / "work" / "din" / "train").exists()


def eager(folder: Path, user: str, place: str) -> NDArray[np.float32]:
    """Probabilities [100] of all ads: the reader's class with the trained parameters, fed from the reader's files."""
    module = ModuleType("din")
    exec(FILES["din.py"], module.__dict__)
    work = folder / "var" / "work" / "din"
    recipe = load_recipe(folder / "din.yaml")
    tables = Tables.load(recipe, work / "data" / "vocabularies")
    din = module.DIN(tables.table_rows, hidden=32)
    state = torch.load(work / "train" / "standard" / "checkpoint.pt", weights_only=True)
    din.load_state_dict({name.removeprefix("model."): t for name, t in state.items() if name.startswith("model.")})

    ads, events = (read(folder / f"{name}.parquet") for name in ("ads", "events"))
    price = ads["price"].astype(np.float32)
    topic = np.array([raw_id(t) for t in ads["topic"]])
    known = user in events["user_id"]
    clicks = events["ad_id"][(events["user_id"] == user) & events["clicked"]][::-1][:10]
    history = np.zeros((10, 2), np.int64)
    history[: len(clicks)] = np.stack([tables.rows("ad", clicks), tables.rows("topic", topic[clicks])], axis=1)

    def repeated(value: Any) -> torch.Tensor:
        return torch.from_numpy(np.broadcast_to(np.asarray(value, np.int64), (100, *np.shape(value))).copy())

    examples = Examples.load(recipe, work / "data" / "examples")
    seen = examples.arrays["item_dense"][examples.part("train"), 0].astype(np.float64)
    with torch.no_grad():
        logits = din.eval()(
            user_id=repeated(tables.rows("user", np.array([raw_id(user)]))[0] if known else 1),
            place=repeated(tables.rows("place", np.array([raw_id(place)]))[0]),
            ad_id=torch.from_numpy(tables.rows("ad", ads["ad_id"])),
            topic=torch.from_numpy(tables.rows("topic", topic)),
            price=torch.from_numpy((price - np.float32(seen.mean())) / np.float32(seen.std())),
            clicks=repeated(history),
        )
    return torch.sigmoid(logits)[:, 0].numpy()


def read(file: Path) -> dict[str, NDArray[Any]]:
    table = pq.read_table(file)
    return {name: table[name].to_numpy() for name in table.column_names}
