"""A ranker of one's own in the form in which the build trains, splits and serves models.

Its forward takes what it wants by name: the recipe's features and sequences.

    id          int64 [M]               a row of the feature's table
    ids         int64 [M, length]       rows; PAD (0) after the last
    dense       float32 [M]             less its mean over the training examples, divided by its standard deviation
    sequence    int64 [M, T, fields]    rows, most recent event first; PAD after the last

and returns logits float32 [M, K], one for each label, or [M] for one label. An id that its table does not have is OOV
(1) before the model sees it, on every engine. The constructor is called with the rows of every table and the tier's
config: `CLASS(rows, **config)`.
"""

# Legend: M rows, F id columns, D dense columns, L ids of all sequences, T steps, K labels.

import inspect
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from triton_ads.features.ids import OOV
from triton_ads.models.dense import Standardisation
from triton_ads.models.example import example_inputs
from triton_ads.models.own_file import OwnModelError, construct, load_class, told
from triton_ads.recipe import Recipe, RecipeError


@dataclass(frozen=True)
class _Place:
    """Where an argument lies: columns of an input, and the shape that one row of them gets."""

    input: str
    first: int
    shape: tuple[int, ...]  # () is one column without an axis of its own

    def of(self, x_MF: Tensor) -> Tensor:
        if not self.shape:
            return x_MF[:, self.first]
        width = int(torch.Size(self.shape).numel())
        return x_MF[:, self.first : self.first + width].unflatten(1, self.shape)


class OwnModel(nn.Module):
    """Gives a ranker its arguments out of the inputs of `triton_ads.models.build_model`.

    Args:
        recipe: what the inputs hold.
        model: the ranker.
        table_rows: rows of each table.
        where: what messages call the ranker.

    Raises:
        RecipeError: the ranker wants what the recipe does not have.
    """

    user_rows_F: Tensor
    item_rows_F: Tensor
    sequence_rows_L: Tensor

    def __init__(self, recipe: Recipe, model: nn.Module, table_rows: dict[str, int], where: str) -> None:
        super().__init__()
        self.model = model
        places = _places(recipe)
        self.arguments = {name: places[name] for name in _wanted(model, list(places), where)}
        for name, tables in (
            ("user_rows_F", [str(c.table) for c in recipe.id_columns("user", "context")]),
            ("item_rows_F", [str(c.table) for c in recipe.id_columns("item")]),
            ("sequence_rows_L", [f.table for s in recipe.sequences for _ in range(s.length) for f in s.fields]),
        ):
            self.register_buffer(name, torch.tensor([table_rows[table] for table in tables], dtype=torch.int64))
        user_dense, item_dense = len(recipe.dense_columns("user", "context")), len(recipe.dense_columns("item"))
        self.user_dense = Standardisation(user_dense) if user_dense else None
        self.item_dense = Standardisation(item_dense) if item_dense else None

    def forward(
        self,
        user_ids: Tensor,
        item_ids: Tensor,
        user_dense: Tensor | None = None,
        sequence_ids: Tensor | None = None,
        item_dense: Tensor | None = None,
    ) -> Tensor:
        """Logits float32 [M, K]; inputs as of `triton_ads.models.build_model`."""
        ready = {"user_ids": _known(user_ids, self.user_rows_F), "item_ids": _known(item_ids, self.item_rows_F)}
        if sequence_ids is not None:
            ready["sequence_ids"] = _known(sequence_ids, self.sequence_rows_L)
        if self.user_dense is not None and user_dense is not None:
            ready["user_dense"] = self.user_dense(user_dense)
        if self.item_dense is not None and item_dense is not None:
            ready["item_dense"] = self.item_dense(item_dense)
        logits = self.model(**{name: place.of(ready[place.input]) for name, place in self.arguments.items()})
        return logits.unsqueeze(1) if isinstance(logits, Tensor) and logits.ndim == 1 else logits


def own_model(recipe: Recipe, tier: str, table_rows: dict[str, int]) -> OwnModel:
    """The model of a tier whose `model` is FILE.py:CLASS, as its constructor leaves it.

    Raises:
        RecipeError: no such file or class, a config that the class does not take, or arguments that the recipe lacks.
        OwnModelError: the file, or the model for a few rows of random ids, fails or returns something else than logits.
    """
    settings = recipe.tiers[tier]
    where = f"tiers.{tier}.model"
    if recipe.heads.by == "scenarios":
        raise RecipeError(f"heads.by: scenarios is for built-in models; {settings.model} can read the scenario itself")
    cls = load_class(settings.model, recipe.folder, where)
    model = construct(cls, table_rows, settings.config, f"tiers.{tier}.config")
    own = OwnModel(recipe, model, table_rows, f"{where}: {settings.model}")
    _try(own, example_inputs(recipe, table_rows, rows=3), len(recipe.labels), f"{where}: {settings.model}")
    return own


def _try(own: OwnModel, inputs: dict[str, Tensor], labels: int, where: str) -> None:
    """Raises OwnModelError where the logits of `inputs` are no float32 [M, K]."""
    own.eval()
    try:
        with torch.no_grad():
            found = own(**inputs)
    except Exception as error:
        source = inspect.getfile(type(own.model))
        raise OwnModelError(f"{where}: forward failed: {told(error, source)}") from error
    finally:
        own.train()
    rows = len(inputs["item_ids"])
    needed = f"float32 [{rows}, {labels}]" + (f" or [{rows}]" if labels == 1 else "") + f" needed for {rows} rows"
    shown = (
        f"{str(found.dtype).removeprefix('torch.')} {list(found.shape)}" if isinstance(found, Tensor) else _kind(found)
    )
    if not isinstance(found, Tensor) or found.shape != (rows, labels) or found.dtype != torch.float32:
        raise OwnModelError(f"{where}: forward returned {shown}, {needed}")
    if not found.isfinite().all():
        raise OwnModelError(f"{where}: forward returned numbers that are not finite, for random ids")


def _kind(found: object) -> str:
    """What is no tensor, in a few words: a tuple of 2, a dict of clicked."""
    name = type(found).__name__
    if isinstance(found, Mapping):
        return f"a {name} of {', '.join(map(str, found))}"
    return f"a {name} of {len(found)}" if isinstance(found, list | tuple) else repr(found)


def _known(ids_MF: Tensor, rows_F: Tensor) -> Tensor:
    """An id below 0 or beyond its table becomes OOV: in the graph, because engines differ in what they make of it."""
    return torch.where((ids_MF < 0) | (ids_MF >= rows_F), OOV, ids_MF)


def _wanted(model: nn.Module, names: list[str], where: str) -> list[str]:
    """The arguments of the model's forward."""
    parameters = inspect.signature(model.forward).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return names
    for p in parameters:
        if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL) or (p.name not in names and p.default is p.empty):
            raise RecipeError(
                f"{where}: forward has the argument {str(p)!r}; allowed are features and sequences of the recipe, "
                f"by name: {', '.join(names)}"
            )
    return [p.name for p in parameters if p.name in names]


def _places(recipe: Recipe) -> dict[str, _Place]:
    """Where every feature and sequence lies."""
    places: dict[str, _Place] = {}
    first = dict.fromkeys(("user_ids", "item_ids", "user_dense", "item_dense", "sequence_ids"), 0)

    def place(name: str, tensor: str, shape: tuple[int, ...]) -> None:
        if name in places:
            raise RecipeError(f"{name}: a feature and a sequence have this name; a model of one's own cannot tell them")
        places[name] = _Place(tensor, first[tensor], shape)
        first[tensor] += torch.Size(shape).numel()

    for side in ("user", "context", "item"):
        for f in recipe.features:
            if f.side == side and f.kind != "value":
                tensor = ("item_" if side == "item" else "user_") + ("dense" if f.kind == "dense" else "ids")
                place(f.name, tensor, (f.length,) if f.length is not None else ())
    for s in recipe.sequences:
        place(s.name, "sequence_ids", (s.length, len(s.fields)))
    return places
