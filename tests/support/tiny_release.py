"""A complete release without training: a small recipe, its store, and two tiers of known arithmetic.

The graphs follow the "Graphs" table of docs/wire.md; `tiny_scores` says in NumPy what they compute:

    u = sum of the vectors of the user and context ids      m = mean of the vectors of the sequence ids that are not PAD
    v = sum of the vectors of the item ids                  d = user_dense . w_user        e_k = item_dense . w_item_k

    standard  state = [u + m, d]      logit_k = scale_k * (v . (u + m)) + bias_k + d + e_k
    high      state = [u, m, d]       logit_k = scale_k * (v . u + (v * v) . m) + bias_k + d + e_k
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from triton_ads.features.ids import FIRST_ROW, OOV, PAD, hashed_rows, raw_id
from triton_ads.features.vocabulary import Tables
from triton_ads.manifest import CostModel, Manifest, StateEntry, TargetManifest, TierManifest, file_digest, release_id
from triton_ads.recipe import Column, Recipe, parse_recipe

# B users, C tiles, P candidates in a tile, N candidates, F id columns, D dense columns, L ids of all sequences,
# W width of a vector, K labels, Z floats of state

WIDTH = 4
SEGMENTS, DAYPARTS, TAGS = ("new", "loyal", "lapsed"), ("morning", "evening"), (1, 2, 3, 4, 5, 6)
USERS = tuple(range(100, 120))
ITEMS = tuple(range(1000, 1060))
RANK_LABEL = "dcvr"  # not the first label, so that ranking by the first one is noticed
SCALE_K = np.array([0.75, -0.5], np.float32)
BIAS_K = np.array([-0.25, 0.125], np.float32)
USER_DENSE_D = np.array([0.5, -0.25, 0.125], np.float32)
ITEM_DENSE_DK = np.array([[0.25, -0.125]], np.float32)

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


def tiny_recipe(rank_by: str = RANK_LABEL, **serving: Any) -> Recipe:
    """A recipe that has every kind of input; `serving` replaces fields of its serving section."""
    limits = {"tile": 8, "buckets": [1, 2, 4], "max_candidates": 100, "max_batch_requests": 64, "deadline_ms": 10_000}
    id_of = {name: {"name": name, "table": name} for name in ("item", "tag")}
    document = {
        "name": "tiny",
        "data": {"source": "movielens-100k"},
        "tables": {
            **{name: {"kind": "vocabulary", "width": WIDTH} for name in ("user", "segment", "daypart", "item", "tag")},
            "city": {"kind": "hashed", "width": WIDTH, "rows": 8},
        },
        "features": [
            {"name": "user_id", "side": "user", "table": "user"},
            {"name": "segment", "side": "user", "table": "segment"},
            {"name": "city", "side": "user", "table": "city"},
            {"name": "age", "side": "user", "kind": "dense"},
            {"name": "activity", "side": "user", "kind": "dense"},
            {"name": "daypart", "side": "context", "table": "daypart"},
            {"name": "bid", "side": "context", "kind": "dense"},
            {"name": "item_id", "side": "item", "table": "item"},
            {"name": "tags", "side": "item", "kind": "ids", "table": "tag", "length": 3},
            {"name": "price", "side": "item", "kind": "dense"},
            {"name": "payout", "side": "item", "kind": "value"},
        ],
        "sequences": [
            {"name": "recent", "length": 4, "fields": [id_of["item"], id_of["tag"]]},
            {"name": "clicks", "length": 3, "fields": [id_of["item"]]},
        ],
        "scenario": {"feature": "daypart", "default": "evening"},
        "labels": ["cvr", "dcvr"],
        "rank_by": rank_by,
        "tiers": {"standard": {"model": "wukong"}, "high": {"model": "hyformer"}},
        "router": {"default_tier": "standard", "high_tier": "high", "min_history": 5, "max_candidates": 50},
        "serving": {**limits, **serving},
    }
    return parse_recipe(document)


def vocabularies() -> dict[str, Ints]:
    """Sorted raw ids of every vocabulary table."""
    raw: dict[str, Sequence[int | str]] = {
        "user": USERS,
        "segment": SEGMENTS,
        "daypart": DAYPARTS,
        "item": ITEMS,
        "tag": TAGS,
    }
    return {table: np.sort(np.array([raw_id(v) for v in values], np.int64)) for table, values in raw.items()}


def rows_of(recipe: Recipe, table: str, raw: Ints) -> Ints:
    """Rows of raw ids, one after the other: the plain reference of triton_ads/features/encoder.py."""
    rows = recipe.tables[table].rows
    if rows is not None:
        return hashed_rows(raw, rows)
    known = {int(value): FIRST_ROW + i for i, value in enumerate(vocabularies()[table])}
    return np.array([PAD if v == -1 else known.get(int(v), OOV) for v in raw.ravel()], np.int64).reshape(raw.shape)


def table_rows(recipe: Recipe) -> dict[str, int]:
    known = vocabularies()
    return {name: FIRST_ROW + (table.rows or len(known[name])) for name, table in recipe.tables.items()}


def physical_table(recipe: Recipe) -> Floats:
    """The vectors of all tables, one after the other, in the recipe's order; PAD rows are zero."""
    parts = []
    for i, rows in enumerate(table_rows(recipe).values()):
        part = np.random.default_rng(i).normal(0, 0.4, (rows, WIDTH)).astype(np.float32)
        part[PAD] = 0
        parts.append(part)
    return np.concatenate(parts)


def _offsets_and_rows(recipe: Recipe, tables: Sequence[str | None]) -> tuple[Ints, Ints]:
    rows = table_rows(recipe)
    starts = dict(zip(rows, np.cumsum([0, *rows.values()]), strict=False))
    return (np.array([starts[t] for t in tables if t], np.int64), np.array([rows[t] for t in tables if t], np.int64))


def sequence_tables(recipe: Recipe) -> list[str]:
    """The table of every one of the L sequence ids."""
    return [field.table for s in recipe.sequences for _ in range(s.length) for field in s.fields]


def _vectors(recipe: Recipe, tables: Sequence[str | None], ids: Ints) -> Floats:
    offsets, rows = _offsets_and_rows(recipe, tables)
    ids = np.where((ids < 0) | (ids >= rows), OOV, ids)
    return physical_table(recipe)[ids + offsets]


def tiny_scores(
    recipe: Recipe,
    tier: str,
    user_ids_F: Ints,
    user_dense_D: Floats,
    sequence_ids_L: Ints,
    item_ids_NF: Ints,
    item_dense_ND: Floats,
) -> Floats:
    """What the graphs of `tier` answer for one user and N candidates, all as rows: probabilities [N, K], float32."""
    u_W = _vectors(recipe, [c.table for c in recipe.id_columns("user", "context")], user_ids_F).sum(0)
    s_LW = _vectors(recipe, sequence_tables(recipe), sequence_ids_L)
    m_W = s_LW.sum(0) / max(1, int((sequence_ids_L != PAD).sum()))
    v_NW = _vectors(recipe, [c.table for c in recipe.id_columns("item")], item_ids_NF).sum(1)
    dot_N = v_NW @ (u_W + m_W) if tier == "standard" else v_NW @ u_W + (v_NW * v_NW) @ m_W
    logits_NK = dot_N[:, None] * SCALE_K + BIAS_K + user_dense_D @ USER_DENSE_D + item_dense_ND @ ITEM_DENSE_DK
    return (1 / (1 + np.exp(-logits_NK))).astype(np.float32)


class _Graph:
    """Nodes of one ONNX graph; every method returns the name of a value."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, array: NDArray[Any]) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def op(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        name = output or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def sum(self, value: str, axis: int, keep: int = 0) -> str:
        return self.op("ReduceSum", value, self.constant(np.array([axis], np.int64)), keepdims=keep)

    def slice(self, value: str, start: int, end: int) -> str:
        return self.op("Slice", value, *(self.constant(np.array([i], np.int64)) for i in (start, end, 1)))

    def vectors(self, recipe: Recipe, ids: str, tables: Sequence[str | None]) -> str:
        """Sanitise, offset and gather: ids [..., F] -> [..., F, W]."""
        offsets, rows = _offsets_and_rows(recipe, tables)
        zero, oov = self.constant(np.array(0, np.int64)), self.constant(np.array(OOV, np.int64))
        low = self.op("GreaterOrEqual", ids, zero)
        high = self.op("Less", ids, self.constant(rows))
        known = self.op("Where", self.op("And", low, high), ids, oov)
        return self.op("Gather", "table", self.op("Add", known, self.constant(offsets)), axis=0)

    def save(
        self, path: Path, table: Floats, inputs: Mapping[str, tuple[int, Sequence[Any]]], output: str, dims: list[Any]
    ) -> None:
        """Write the model; its table stays outside, in table.bin beside it."""
        external = TensorProto(name="table", data_type=TensorProto.FLOAT, dims=table.shape)
        external.data_location = TensorProto.EXTERNAL
        for key, value in {"location": "table.bin", "offset": 0, "length": table.nbytes}.items():
            external.external_data.add(key=key, value=str(value))
        graph = helper.make_graph(
            self.nodes,
            path.stem,
            [helper.make_tensor_value_info(name, dtype, shape) for name, (dtype, shape) in inputs.items()],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, dims)],
            [*self.constants, external],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
        path.write_bytes(model.SerializeToString())
        onnx.checker.check_model(str(path))


def _user_graph(recipe: Recipe, tier: str, path: Path) -> None:
    columns, graph = recipe.id_columns("user", "context"), _Graph()
    u_BW = graph.sum(graph.vectors(recipe, "user_ids", [c.table for c in columns]), axis=1)
    s_BW = graph.sum(graph.vectors(recipe, "sequence_ids", sequence_tables(recipe)), axis=1)
    given_BL = graph.op("Greater", "sequence_ids", graph.constant(np.array(PAD, np.int64)))
    count_B1 = graph.sum(graph.op("Cast", given_BL, to=TensorProto.FLOAT), axis=1, keep=1)
    m_BW = graph.op("Div", s_BW, graph.op("Max", count_B1, graph.constant(np.array(1, np.float32))))
    d_B1 = graph.op("MatMul", "user_dense", graph.constant(USER_DENSE_D[:, None]))
    parts = [graph.op("Add", u_BW, m_BW), d_B1] if tier == "standard" else [u_BW, m_BW, d_B1]
    graph.op("Concat", *parts, output="state", axis=1)
    inputs: dict[str, tuple[int, Sequence[Any]]] = {
        "user_ids": (TensorProto.INT64, ["B", len(columns)]),
        "user_dense": (TensorProto.FLOAT, ["B", len(USER_DENSE_D)]),
        "sequence_ids": (TensorProto.INT64, ["B", recipe.sequence_width]),
    }
    graph.save(path, physical_table(recipe), inputs, "state", ["B", _state_size(tier)])


def _item_graph(recipe: Recipe, tier: str, path: Path) -> None:
    columns, graph = recipe.id_columns("item"), _Graph()
    last = graph.constant(np.array([-1], np.int64))
    s_C1Z = graph.op("Unsqueeze", graph.op("Gather", "state", "user_of_tile", axis=0), graph.constant(np.array([1])))
    s_CZ1 = graph.op("Transpose", s_C1Z, perm=[0, 2, 1])
    v_CPW = graph.sum(graph.vectors(recipe, "item_ids", [c.table for c in columns]), axis=2)
    part = [graph.op("Slice", s_CZ1, *(graph.constant(np.array([i], np.int64)) for i in (a, b, 1)))
            for a, b in ((0, WIDTH), (WIDTH, 2 * WIDTH))]  # fmt: skip
    dot_CP1 = graph.op("MatMul", v_CPW, part[0])
    if tier == "high":
        dot_CP1 = graph.op("Add", dot_CP1, graph.op("MatMul", graph.op("Mul", v_CPW, v_CPW), part[1]))
    d_C11 = graph.op("Gather", s_C1Z, last, axis=2)
    logits = graph.op("Add", graph.op("Mul", dot_CP1, graph.constant(SCALE_K)), graph.constant(BIAS_K))
    logits = graph.op("Add", logits, d_C11)
    logits = graph.op("Add", logits, graph.op("MatMul", "item_dense", graph.constant(ITEM_DENSE_DK)))
    graph.op("Sigmoid", logits, output="scores")
    inputs: dict[str, tuple[int, Sequence[Any]]] = {
        "state": (TensorProto.FLOAT, ["B", _state_size(tier)]),
        "user_of_tile": (TensorProto.INT64, ["C"]),
        "item_ids": (TensorProto.INT64, ["C", "P", len(columns)]),
        "item_dense": (TensorProto.FLOAT, ["C", "P", len(ITEM_DENSE_DK)]),
    }
    graph.save(path, physical_table(recipe), inputs, "scores", ["C", "P", len(recipe.labels)])


def _state_size(tier: str) -> int:
    return WIDTH + 1 if tier == "standard" else 2 * WIDTH + 1


def _raw_column(column: Column, n: int, rng: np.random.Generator, ids: Ints) -> Ints:
    """Plausible raw ids of one column: the entity's own id, or any of the values of the table, -1 in between."""
    if column.feature in ("user_id", "item_id"):
        return ids
    values = {
        "segment": [raw_id(s) for s in SEGMENTS],
        "city": [raw_id(f"city {i}") for i in range(20)],
        "tags": [-1, *TAGS],
    }
    return rng.choice(np.array(values[column.feature], np.int64), n)


def _write_store(recipe: Recipe, folder: Path) -> None:
    rng = np.random.default_rng(7)
    users, items = np.array(USERS, np.int64), np.array(ITEMS, np.int64)

    def side(name: str, ids: Ints, columns: list[Column], width: int) -> None:
        (folder / name).mkdir(parents=True)
        rows = [rows_of(recipe, str(c.table), _raw_column(c, len(ids), rng, ids)) for c in columns]
        np.save(folder / name / "ids.npy", ids)
        np.save(folder / name / "rows.npy", np.stack(rows, 1).astype(np.int32))
        np.save(folder / name / "dense.npy", rng.normal(0, 1, (len(ids), width)).astype(np.float32))

    payout_n = np.random.default_rng(8).gamma(2, 1, (len(items), len(recipe.value_columns()))).astype(np.float32)
    payout_n[::7] = np.nan  # nobody said

    side("users", users, recipe.id_columns("user"), len(recipe.dense_columns("user")))
    side("items", items, recipe.id_columns("item"), len(recipe.dense_columns("item")))
    np.save(folder / "items" / "values.npy", payout_n)
    history = np.arange(len(users), dtype=np.int32)  # the first user has none, the last more than every sequence holds
    sequences = np.zeros((len(users), recipe.sequence_width), np.int32)
    for i, events in enumerate(history):
        start = 0
        for s in recipe.sequences:
            for event in range(min(int(events), s.length)):
                for j, field in enumerate(s.fields):
                    rows = table_rows(recipe)[field.table]
                    sequences[i, start + event * len(s.fields) + j] = rng.integers(FIRST_ROW, rows)
            start += s.length * len(s.fields)
    np.save(folder / "users" / "sequences.npy", sequences)
    np.save(folder / "users" / "history.npy", history)
    (folder / "titles.json").write_text(json.dumps({str(i): f"Ad {i}" for i in ITEMS}))


def _tier_manifest(recipe: Recipe, tier: str) -> TierManifest:
    names = ("sum", "dense") if tier == "standard" else ("user", "history", "dense")
    sizes = [WIDTH] * (len(names) - 1) + [1]
    starts = np.cumsum([0, *sizes])
    return TierManifest(
        model=recipe.tiers[tier].model,
        engine="onnxruntime",
        precision="float32",
        state=tuple(
            StateEntry(name=n, shape=(size,), dtype="float32", offset=int(start), size=size)
            for n, size, start in zip(names, sizes, starts, strict=False)
        ),
        state_size=_state_size(tier),
        parameters=int(physical_table(recipe).size),
        flops_user=100,
        flops_item=10,
        cost=CostModel(fixed_ms=0.05, tile_ms=0.01, user_ms=0.05),
        parity={"eager-onnx": 0.0},
        quality={label: {"auc": 0.5} for label in recipe.labels},
    )


def write_tiny_release(folder: Path, recipe: Recipe | None = None) -> Path:
    """Write a complete, valid release into `folder` (made if missing) and return it."""
    recipe = recipe or tiny_recipe()
    (folder / "vocabularies").mkdir(parents=True)
    for table, ids in vocabularies().items():
        np.save(folder / "vocabularies" / f"{table}.npy", ids)
    _write_store(recipe, folder / "store")
    for tier in recipe.tiers:
        parts = folder / "tiers" / tier
        parts.mkdir(parents=True)
        physical_table(recipe).tofile(parts / "table.bin")
        _user_graph(recipe, tier, parts / "user.onnx")
        _item_graph(recipe, tier, parts / "item.onnx")
    seal(folder, recipe)
    return folder


def seal(folder: Path, recipe: Recipe, target: TargetManifest | None = None) -> None:
    """Write the manifest of what the folder holds now."""
    (folder / "manifest.json").unlink(missing_ok=True)
    paths = sorted(p for p in folder.rglob("*") if p.is_file())
    files = {str(p.relative_to(folder)): file_digest(p) for p in paths}
    Manifest(
        release=release_id(recipe.digest, files),
        recipe=recipe,
        recipe_digest=recipe.digest,
        vocabulary_digest=Tables.load(recipe, folder / "vocabularies").digest,
        table_rows=table_rows(recipe),
        tiers={tier: _tier_manifest(recipe, tier) for tier in recipe.tiers},
        target=target,
        files=files,
    ).save(folder)
