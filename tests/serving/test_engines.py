"""ONNX Runtime as an engine: values, threads, and tables that processes share."""

import os
import re
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support.tiny_release import tiny_recipe, tiny_scores
from triton_ads.serving.engines import OnnxEngine

TIERS = ("standard", "high")


def user_inputs(users=3):
    rng = np.random.default_rng(0)
    return {
        "user_ids": rng.integers(-2, 30, (users, 4)),
        "user_dense": rng.normal(size=(users, 3)).astype(np.float32),
        "sequence_ids": rng.integers(0, 9, (users, 11)),
    }


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(("tiles", "size"), [(1, 1), (2, 8), (5, 3)])
def test_two_parts_answer_what_the_formulas_say(release_folder, tier, tiles, size):
    recipe, users, rng = tiny_recipe(), user_inputs(), np.random.default_rng(1)
    user, item = (OnnxEngine(release_folder / "tiers" / tier / f"{side}.onnx") for side in ("user", "item"))
    assert (user.inputs, item.inputs) == (set(users), {"state", "user_of_tile", "item_ids", "item_dense"})
    state_BZ = np.empty((3, 5 if tier == "standard" else 9), np.float32)
    user.run(users, state_BZ)
    owner_C = rng.integers(0, 3, tiles)
    ids_CPF = rng.integers(-3, 70, (tiles, size, 4))
    dense_CPD = rng.normal(size=(tiles, size, 1)).astype(np.float32)
    scores_CPK = np.empty((tiles, size, 2), np.float32)
    inputs = {"state": state_BZ, "user_of_tile": owner_C, "item_ids": ids_CPF, "item_dense": dense_CPD}
    item.run(inputs, scores_CPK)
    for c, owner in enumerate(owner_C):
        of_user = [users[name][owner] for name in ("user_ids", "user_dense", "sequence_ids")]
        expected_PK = tiny_scores(recipe, tier, *of_user, ids_CPF[c], dense_CPD[c])
        np.testing.assert_allclose(scores_CPK[c], expected_PK, rtol=0, atol=1e-6)  # float32, sums in another order


def test_it_writes_into_the_buffer_it_is_given(release_folder):
    engine = OnnxEngine(release_folder / "tiers/standard/user.onnx")
    buffer_BZ = np.full((4, 5), 7, np.float32)
    engine.run(user_inputs(3), buffer_BZ[:3])
    assert np.all(buffer_BZ[:3] != 7)
    assert np.all(buffer_BZ[3] == 7)


def test_threads_may_share_an_engine(release_folder):
    engine = OnnxEngine(release_folder / "tiers/high/user.onnx")

    def run(users):
        out_BZ = np.empty((users, 9), np.float32)
        engine.run(user_inputs(users), out_BZ)
        return out_BZ

    expected = {users: run(users) for users in (1, 2, 3, 4)}
    with ThreadPoolExecutor(4) as pool:
        for users, found in zip([1, 2, 3, 4] * 50, pool.map(run, [1, 2, 3, 4] * 50), strict=True):
            np.testing.assert_array_equal(found, expected[users])


ROWS, WIDTH = 1 << 20, 16
TABLE_KB = ROWS * WIDTH * 4 // 1024  # 64 MiB


@pytest.fixture(scope="module")
def big_table(tmp_path_factory):
    """A graph that gathers rows of a table of 64 MiB, which is an external data file."""
    folder = tmp_path_factory.mktemp("table")
    np.arange(ROWS * WIDTH, dtype=np.float32).tofile(folder / "table.bin")
    table = TensorProto(name="table", data_type=TensorProto.FLOAT, dims=(ROWS, WIDTH), data_location=1)
    for key, value in {"location": "table.bin", "offset": 0, "length": ROWS * WIDTH * 4}.items():
        table.external_data.add(key=key, value=str(value))
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "ids"], ["v"]),
            helper.make_node("ReduceSum", ["v", "axes"], ["state"], keepdims=0),
        ],
        "big",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["B", "F"])],
        [helper.make_tensor_value_info("state", TensorProto.FLOAT, ["B", WIDTH])],
        [table, numpy_helper.from_array(np.array([1]), "axes")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    (folder / "user.onnx").write_bytes(model.SerializeToString())
    onnx.checker.check_model(str(folder / "user.onnx"))
    return folder


READER = textwrap.dedent("""
    import sys
    from pathlib import Path
    import numpy as np
    from triton_ads.serving.engines import OnnxEngine

    engine = OnnxEngine(Path(sys.argv[1]) / "user.onnx")
    out = np.empty((1, 16), np.float32)
    for start in range(0, 1 << 20, 1 << 16):  # touch every page of the table
        ids = np.arange(start, start + (1 << 16))[None]
        engine.run({"ids": ids}, out)
    print("read", out[0, 0], flush=True)
    sys.stdin.readline()
""")


def table_pages(pid):
    """Kilobytes of the table that a process has in memory: (resident, private to it)."""
    resident = private = 0
    for block in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", Path(f"/proc/{pid}/smaps").read_text()):
        if "table.bin" in block.split("\n", 1)[0]:
            values = dict(re.findall(r"(?m)^(\w+): +(\d+) kB", block))
            resident += int(values["Rss"])
            private += int(values["Private_Dirty"])
    return resident, private


def test_processes_share_the_pages_of_a_table(big_table):
    """Two processes have read the whole table: it is mapped in both, and neither has a copy of its own."""
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", READER, str(big_table)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    try:
        assert {reader.stdout.readline().split()[0] for reader in readers} == {"read"}
        for reader in readers:
            resident, private = table_pages(reader.pid)
            assert resident > 0.9 * TABLE_KB, "the table is not read through a mapping of its file"
            assert private == 0
            memory = Path(f"/proc/{reader.pid}/status").read_text()
            anonymous = int(re.search(r"RssAnon:\s+(\d+) kB", memory)[1])
            base = _anonymous_without_table()
            assert anonymous < base + TABLE_KB // 2, "the table was copied into private memory as well"
    finally:
        for reader in readers:
            reader.communicate("\n", timeout=10)


def _anonymous_without_table():
    """Private memory of a process that has loaded the same libraries, but no table."""
    code = "import numpy, onnxruntime, triton_ads.serving.engines; print(open('/proc/self/status').read())"
    status = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    return int(re.search(r"RssAnon:\s+(\d+) kB", status.stdout)[1])
