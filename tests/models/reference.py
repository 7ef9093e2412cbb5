"""The models again, in plain NumPy: one row at a time, loops, float64, written from the formulas.

Nothing is shared with the library but the recipe and the names of the parameters.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from triton_ads.recipe import Recipe

Array = NDArray[np.float64]
Weights = dict[str, Array]


def weights_of(module: nn.Module) -> Weights:
    return {name: tensor.detach().double().numpy() for name, tensor in module.state_dict().items()}


def below(weights: Weights, prefix: str) -> Weights:
    """The weights of a part, by their names inside it."""
    return {name.removeprefix(prefix + "."): w for name, w in weights.items() if name.startswith(prefix + ".")}


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def silu(x: Array) -> Array:
    return x * sigmoid(x)


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max())
    return e / e.sum()


def linear(w: Weights, name: str, x: Array) -> Array:
    y = w[f"{name}.weight"] @ x
    return y + w[f"{name}.bias"] if f"{name}.bias" in w else y


def rms_norm(x: Array, scale: Array, eps: float = 1e-6) -> Array:
    return x / np.sqrt(np.mean(x * x) + eps) * scale


def mlp(w: Weights, x: Array) -> Array:
    return linear(w, "2", relu(linear(w, "0", x)))


def layer_norm(w: Weights, name: str, x: Array, eps: float = 1e-5) -> Array:
    return (x - x.mean()) / np.sqrt(x.var() + eps) * w[f"{name}.weight"] + w[f"{name}.bias"]


def swiglu(w: Weights, x: Array) -> Array:
    return w["down.weight"] @ (silu(w["gate.weight"] @ x) * (w["up.weight"] @ x))


def per_token_swiglu(w: Weights, x_TD: Array) -> Array:
    """Token t has weights of its own, used as `x W`."""
    return np.stack(
        [(silu(x @ w["gate.weight"][t]) * (x @ w["up.weight"][t])) @ w["down.weight"][t] for t, x in enumerate(x_TD)]
    )


def mean_of_valid(x_TD: Array, valid_T: Any) -> Array:
    kept = [x for x, valid in zip(x_TD, valid_T, strict=True) if valid]
    return np.mean(kept, axis=0) if kept else np.zeros(x_TD.shape[1])


def attend(q_D: Array, history_TD: Array, valid_T: Any, temperature: float) -> Array:
    """Only the valid events exist."""
    kept = [x for x, valid in zip(history_TD, valid_T, strict=True) if valid]
    if not kept:
        return np.zeros(len(q_D))
    weights = softmax(np.array([q_D @ x for x in kept]) / (np.sqrt(len(q_D)) * temperature))
    return sum(weight * x for weight, x in zip(weights, kept, strict=True))


def epnet(w: Weights, x_E: Array, domain_G: Array) -> Array:
    hidden = relu(linear(w, "hidden", np.concatenate([domain_G, x_E])))
    return 2 * sigmoid(linear(w, "gate", hidden)) * x_E


def mix(x_TD: Array) -> Array:
    tokens, width = x_TD.shape
    k = width // tokens
    y = np.zeros_like(x_TD)
    for t in range(tokens):
        for s in range(tokens):
            for i in range(k):
                y[s, t * k + i] = x_TD[t, s * k + i]
    return y


def token_mixer(w: Weights, x_TD: Array) -> Array:
    mixed = mix(x_TD)
    normed = np.stack([rms_norm(x, w["mixed_norm.weight"]) for x in mixed])
    mixed = mixed + per_token_swiglu(below(w, "mixed_ffn"), normed)
    normed = np.stack([rms_norm(x, w["reverted_norm.weight"]) for x in mix(mixed)])
    return x_TD + per_token_swiglu(below(w, "reverted_ffn"), normed)


def ple(w: Weights, x_I: Array, tasks: int, own: int, shared: int) -> list[Array]:
    out = []
    for task in range(tasks):
        experts = [relu(linear(w, f"own.{task * own + e}", x_I)) for e in range(own)]
        experts += [relu(linear(w, f"shared.{e}", x_I)) for e in range(shared)]
        gate = softmax(linear(w, f"gates.{task}", x_I))
        out.append(sum(g * expert for g, expert in zip(gate, experts, strict=True)))
    return out


class EmbeddingReference:
    """Looks every id up by itself, in tables cut out of the physical table."""

    def __init__(self, recipe: Recipe, table_rows: dict[str, int], weights: Weights) -> None:
        self.recipe, self.weights = recipe, weights
        self.tables, start = {}, 0
        flat = weights["table.weight"].reshape(-1)
        for name, table in recipe.tables.items():
            size = table_rows[name] * table.width
            self.tables[name] = flat[start : start + size].reshape(table_rows[name], table.width)
            start += size
        assert start == flat.size

    def known(self, table: str, i: int) -> int:
        return int(i) if 0 <= i < len(self.tables[table]) else 1

    def vector(self, table: str, i: int) -> Array:
        i = self.known(table, i)
        return self.tables[table][i] if i else np.zeros(self.tables[table].shape[1])

    def features(self, side: str, ids: list[int]) -> list[Array]:
        out, at = [], 0
        for f in self.recipe.features:
            if f.side != side or f.kind == "dense":
                continue
            mine = ids[at : at + (f.length or 1)]
            at += len(mine)
            vectors = np.stack([self.vector(str(f.table), i) for i in mine])
            out.append(mean_of_valid(vectors, [self.known(str(f.table), i) != 0 for i in mine]))
        assert at == len(ids)
        return out

    def dense(self, side: str, x_D: Array) -> list[Array]:
        if not len(x_D):
            return []
        w = below(self.weights, f"{side}_dense")
        return [linear(w, "linear", (x_D - w["mean_D"]) / w["std_D"])]

    def histories(self, ids: list[int]) -> list[tuple[Array, list[bool]]]:
        out, at = [], 0
        for s in self.recipe.sequences:
            events, valid = [], []
            for _ in range(s.length):
                mine = ids[at : at + len(s.fields)]
                at += len(mine)
                events.append(np.concatenate([self.vector(f.table, i) for f, i in zip(s.fields, mine, strict=True)]))
                valid.append(any(self.known(f.table, i) != 0 for f, i in zip(s.fields, mine, strict=True)))
            out.append((np.stack(events), valid))
        assert at == len(ids)
        return out

    def __call__(self, row: dict[str, Any]) -> tuple[list[Array], list[tuple[Array, list[bool]]], Array | None, int]:
        """Features, histories, vector and row of the scenario."""
        users = len(self.recipe.id_columns("user"))
        user, context = list(row["user_ids"])[:users], list(row["user_ids"])[users:]
        features = self.features("user", user) + self.features("context", context)
        features += self.features("item", list(row["item_ids"]))
        features += self.dense("user", row.get("user_dense", [])) + self.dense("item", row.get("item_dense", []))
        histories = self.histories(list(row.get("sequence_ids", [])))
        if self.recipe.scenario is None:
            return features, histories, None, -1
        column = [c.feature for c in self.recipe.id_columns("context")].index(self.recipe.scenario.feature)
        (table,) = [str(f.table) for f in self.recipe.features if f.name == self.recipe.scenario.feature]
        return features, histories, self.vector(table, context[column]), self.known(table, context[column])


def hyformer(embedding: EmbeddingReference, w: Weights, config: Any, row: dict[str, Any]) -> tuple[Array, int]:
    """All heads of one row, and the row of its scenario."""
    features, histories, domain, scenario = embedding(row)
    x_E = np.concatenate(features)
    if domain is not None:
        x_E = epnet(below(w, "epnet"), x_E, domain)
    head = -(-len(x_E) // config.tokens)
    x_E = np.concatenate([x_E, np.zeros(head * config.tokens - len(x_E))])
    project = below(w, "tokenizer.project")
    tokens = np.stack(
        [x_E[n * head : (n + 1) * head] @ project["weight"][n] + project["bias"][n, 0] for n in range(config.tokens)]
    )
    encoded = [
        (np.stack([swiglu(below(w, f"encoders.{s}"), e) for e in events]), valid)
        for s, (events, valid) in enumerate(histories)
    ]
    queries = []
    for s, (history, valid) in enumerate(encoded):
        g = below(w, f"generators.{s}")
        asked = np.concatenate([tokens.reshape(-1), mean_of_valid(history, valid)])
        queries.append(linear(g, "query", silu(linear(g, "hidden", asked))))
    for layer in range(config.layers):
        decoded = [
            attend(q, history, valid, config.temperature) for q, (history, valid) in zip(queries, encoded, strict=True)
        ]
        boosted = token_mixer(below(w, f"mixers.{layer}"), np.stack([*decoded, *tokens]))
        queries, tokens = list(boosted[: len(encoded)]), boosted[len(encoded) :]
    heads = len({name.split(".")[1] for name in w if name.startswith("heads.")})
    tasks = ple(below(w, "ple"), boosted.reshape(-1), heads, config.own_experts, config.shared_experts)
    logits = [mlp(below(w, f"heads.{h}"), x)[0] for h, x in enumerate(tasks)]
    return np.array(logits), scenario


def attend_in_heads(queries_QD: Array, history_TD: Array, valid_T: Any, temperature: float, heads: int) -> Array:
    """Each query by itself, each head on its own span of floats."""
    d = queries_QD.shape[1] // heads
    spans = [slice(h * d, (h + 1) * d) for h in range(heads)]
    return np.stack(
        [
            np.concatenate([attend(q[span], history_TD[:, span], valid_T, temperature) for span in spans])
            for q in queries_QD
        ]
    )


def read_histories(w: Weights, x_nD: Array, histories: list[tuple[Array, Any]], config: Any) -> Array:
    """What a layer of Wukong reads: its own queries for each history, history after history."""
    queries = [w["turn.weight"] @ q for q in w["ask.weight"] @ x_nD]
    out = []
    for s, (history, valid) in enumerate(histories):
        mine = np.stack(queries[s * config.queries : (s + 1) * config.queries])
        out.append(attend_in_heads(mine, history, valid, config.temperature, config.heads))
    return np.concatenate(out)


def wukong_layer(w: Weights, x_nD: Array, fm_tokens: int, read_rD: Array | None = None) -> Array:
    z_zD = x_nD if read_rD is None else np.concatenate([x_nD, read_rD])
    if "y.weight" in w:
        y_zk = w["y.weight"].T
    else:  # attentive: an MLP on compressed tokens
        y_zk = mlp(below(w, "y.mlp"), (w["y.compress.weight"] @ z_zD).reshape(-1)).reshape(len(z_zD), -1)
    fm = (z_zD @ z_zD.T) @ y_zk
    flat = layer_norm(w, "fm_norm", fm.reshape(-1))
    fmb = mlp(below(w, "fm_mlp"), flat).reshape(fm_tokens, x_nD.shape[1])
    lcb = w["compress.weight"] @ z_zD
    residual = w["residual.weight"] @ x_nD if "residual.weight" in w else x_nD
    return np.stack([layer_norm(w, "norm", x) for x in np.concatenate([fmb, lcb]) + residual])


def wukong(embedding: EmbeddingReference, w: Weights, config: Any, row: dict[str, Any]) -> tuple[Array, int]:
    features, histories, _, scenario = embedding(row)
    attention = config.sequence == "attention"
    if attention:
        histories = [
            (np.stack([swiglu(below(w, f"encoders.{s}.swiglu"), e) for e in events]) + w[f"encoders.{s}.place_TD"], ok)
            for s, (events, ok) in enumerate(histories)
        ]
    means = [mean_of_valid(events, valid) for events, valid in histories]
    vectors = features if attention else features + means
    tokens = [linear(w, f"projections.{i}", v) for i, v in enumerate(vectors)]
    x = np.stack(tokens + means if attention else tokens)
    for layer in range(config.layers):
        read = read_histories(below(w, f"readers.{layer}"), x, histories, config) if attention else None
        x = wukong_layer(below(w, f"layers.{layer}"), x, config.fm_tokens, read)
    return mlp(below(w, "head"), x.reshape(-1)), scenario


def rows_of(inputs: dict[str, Tensor]) -> list[dict[str, Any]]:
    arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
    return [{name: array[m] for name, array in arrays.items()} for m in range(len(arrays["user_ids"]))]
