"""The Triton configurations of a recipe: the model `rank`, or three Python models and the ensemble `rank` that chains
them, as its layout says; of a recipe that generates ads, two models more and the ensembles `target` and `ads`.

Their names carry the recipe's prefix (triton_ads/recipe/names.py).

The tensors are those of docs/wire.md, and tests/test_wire.py holds the two together. Every input of a request has
Triton's batch as its first dimension, which is always 1: Triton asks for the same batch on every input, and a request
is one user with many candidates. Candidates lie on an axis of their own, free in length, so `allow_ragged_batch` must
be set for requests of different lengths to be grouped (on the composing models: Triton ignores it on an ensemble).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from triton_ads.recipe import Recipe
from triton_ads.recipe.names import (
    ADS,
    ENCODER,
    GENERATOR,
    LAYOUTS,
    RANK,
    ROUTER,
    SCORER,
    TARGET,
    TARGET_MODELS,
    VERIFIER,
    prefixed,
)


@dataclass(frozen=True)
class Tensor:
    """One input or output. `dims` are without Triton's batch; -1 is any length."""

    name: str
    dtype: str  # as in docs/wire.md: INT64, FP32, ...
    dims: tuple[int, ...]


@dataclass(frozen=True)
class Wire:
    """The inputs and outputs of one model."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


#: The input of what ranks that is the verifier's answer where ads are generated.
_CANDIDATES = "candidates"


def wire(recipe: Recipe) -> dict[str, Wire]:
    """Inputs and outputs of the models and ensembles of a recipe, in either layout, by name without prefix."""
    rank = _rank_wire(recipe)
    return rank if recipe.target is None else rank | _target_wire(rank[RANK])


def chains(recipe: Recipe) -> dict[str, tuple[str, ...]]:
    """The models behind every ensemble of the recipe, without prefix."""
    models = LAYOUTS[recipe.serving.layout]
    found: dict[str, tuple[str, ...]] = {} if RANK in models else {RANK: models}
    return found if recipe.target is None else found | {TARGET: TARGET_MODELS, ADS: (*TARGET_MODELS, *models)}


def models_of(recipe: Recipe) -> tuple[str, ...]:
    """The models of the recipe, without prefix."""
    return (*LAYOUTS[recipe.serving.layout], *(TARGET_MODELS if recipe.target is not None else ()))


def _rank_wire(recipe: Recipe) -> dict[str, Wire]:
    label_count = len(recipe.labels)
    client = {
        "user_id": Tensor("user_id", "INT64", (1,)),
        "user_features": Tensor("user_features", "INT64", (-1,)),
        "user_dense": Tensor("user_dense", "FP32", (-1,)),
        "sequence_lengths": Tensor("sequence_lengths", "INT32", (-1,)),
        "sequences": Tensor("sequences", "INT64", (-1,)),
        "context_features": Tensor("context_features", "INT64", (-1,)),
        "context_dense": Tensor("context_dense", "FP32", (-1,)),
        "candidates": Tensor("candidates", "INT64", (-1,)),
        "item_features": Tensor("item_features", "INT64", (-1,)),
        "item_dense": Tensor("item_dense", "FP32", (-1,)),
        "item_values": Tensor("item_values", "FP32", (-1,)),
        "deadline_us": Tensor("deadline_us", "INT64", (1,)),
        "insisted_tier": Tensor("insisted_tier", "BYTES", (1,)),
    }
    items = ("item_features", "item_dense", "item_values")
    encoded = (
        _fixed("user_rows", "INT64", len(recipe.id_columns("user", "context"))),
        _fixed("user_floats", "FP32", len(recipe.dense_columns("user", "context"))),
        _fixed("sequence_rows", "INT64", recipe.sequence_width),
    )
    route, state = Tensor("route", "INT64", (3,)), Tensor("state", "FP32", (-1,))
    chosen = (Tensor("tier", "BYTES", (1,)), Tensor("reason", "BYTES", (1,)))
    ranking = (
        Tensor("ranked_ids", "INT64", (-1,)),
        Tensor("scores", "FP32", (-1, label_count)),
        Tensor("rank_values", "FP32", (-1,)),
        Tensor("positions", "INT32", (-1,)),
        Tensor("release", "BYTES", (1,)),
    )
    return {
        ROUTER: Wire(tuple(t for name, t in client.items() if name not in items), (*encoded, route, *chosen)),
        ENCODER: Wire((*encoded, route), (state,)),
        SCORER: Wire((client["candidates"], *(client[name] for name in items), route, state), ranking),
        RANK: Wire(tuple(client.values()), (*ranking[:4], *chosen, ranking[4])),
    }


def _target_wire(rank: Wire) -> dict[str, Wire]:
    user_id, deadline = (next(t for t in rank.inputs if t.name == name) for name in ("user_id", "deadline_us"))
    asked = (
        user_id,
        Tensor("journey", "INT64", (-1,)),
        Tensor("query", "BYTES", (1,)),
        Tensor("exclude", "INT64", (-1,)),
        Tensor("top", "INT32", (1,)),
        deadline,
    )
    scored = (
        Tensor("nodes", "INT32", (-1,)),
        Tensor("parents", "INT32", (-1,)),
        Tensor("log_probabilities", "FP64", (-1,)),
        Tensor("withheld", "INT64", (-1,)),
        Tensor("plan", "INT64", (3,)),
    )
    found = (
        Tensor("target_ids", "INT64", (-1,)),
        Tensor("target_scores", "FP32", (-1,)),
        Tensor("target_release", "BYTES", (1,)),
    )
    # Of the ads that it ranks, `ads` is told by its own first half.
    others = tuple(t for t in rank.inputs if t.name != _CANDIDATES and t not in asked)
    return {
        GENERATOR: Wire(asked, scored),
        VERIFIER: Wire(scored, found),
        TARGET: Wire(asked, found),
        ADS: Wire((*asked, *others), (*rank.outputs, *found[:2])),
    }


def _fixed(name: str, dtype: str, length: int) -> Tensor:
    """A tensor of a length that the recipe fixes. Triton refuses a dimension of 0 in a config, but not on the wire."""
    return Tensor(name, dtype, (length or -1,))


def render_configs(recipe: Recipe, version: int = 1) -> dict[str, str]:
    """The text of every config.pbtxt, by the model's name with the recipe's prefix. Equal recipes give equal text.

    Two versions of a model may be loaded at once, while a release is published (docs/drills.md): an ensemble names the
    `version` of the models that it chains, so that it never mixes two.
    """
    wires = wire(recipe)
    rendered = [
        *(_model(name, wires[name], recipe) for name in models_of(recipe)),
        *(_ensemble(name, chain, wires, recipe, version) for name, chain in chains(recipe).items()),
    ]
    configs = {config.name: config for config in rendered}
    head = f"# Rendered from the recipe `{recipe.name}` by triton_ads/export/configs.py. Change the recipe, not this.\n"
    return {name: head + text_format.MessageToString(config) for name, config in configs.items()}


def _model(name: str, tensors: Wire, recipe: Recipe) -> pb.ModelConfig:
    serving = recipe.serving
    return pb.ModelConfig(
        name=prefixed(name, serving.prefix),
        backend="python",
        version_policy=pb.ModelVersionPolicy(all=pb.ModelVersionPolicy.All()),
        max_batch_size=serving.max_batch_requests,
        input=[_input(t, ragged=True) for t in tensors.inputs],
        output=_outputs(tensors.outputs),
        instance_group=[pb.ModelInstanceGroup(kind=pb.ModelInstanceGroup.KIND_CPU, count=serving.instances)],
        dynamic_batching=pb.ModelDynamicBatching(
            max_queue_delay_microseconds=serving.queue_delay_us,
            default_queue_policy=pb.ModelQueuePolicy(max_queue_size=serving.max_queue) if serving.max_queue else None,
        ),
    )


def _ensemble(
    ensemble: str, chain: Sequence[str], wires: dict[str, Wire], recipe: Recipe, version: int
) -> pb.ModelConfig:
    given = {t.name for t in wires[ensemble].inputs}
    # Triton refuses an ensemble in which a tensor goes nowhere.
    wanted = {t.name for t in wires[ensemble].outputs} | {t.name for name in chain for t in wires[name].inputs}

    def source(name: str) -> str:
        """Where a step's input comes from: the tensor of its name, unless it is what another step found."""
        return "target_ids" if name == _CANDIDATES and name not in given else name

    steps = [
        pb.ModelEnsembling.Step(
            model_name=prefixed(name, recipe.serving.prefix),
            model_version=version,
            input_map={t.name: source(t.name) for t in wires[name].inputs},
            output_map={t.name: t.name for t in wires[name].outputs if t.name in wanted},
        )
        for name in chain
    ]
    return pb.ModelConfig(
        name=prefixed(ensemble, recipe.serving.prefix),
        platform="ensemble",
        max_batch_size=recipe.serving.max_batch_requests,
        input=[_input(t, ragged=False) for t in wires[ensemble].inputs],
        output=_outputs(wires[ensemble].outputs),
        ensemble_scheduling=pb.ModelEnsembling(step=steps),
    )


def _input(tensor: Tensor, *, ragged: bool) -> pb.ModelInput:
    return pb.ModelInput(
        name=tensor.name,
        data_type=_dtype(tensor),
        dims=tensor.dims,
        allow_ragged_batch=ragged and -1 in tensor.dims,
    )


def _outputs(tensors: Sequence[Tensor]) -> list[pb.ModelOutput]:
    return [pb.ModelOutput(name=t.name, data_type=_dtype(t), dims=t.dims) for t in tensors]


def _dtype(tensor: Tensor) -> int:
    return pb.DataType.Value("TYPE_STRING" if tensor.dtype == "BYTES" else f"TYPE_{tensor.dtype}")
