"""The stages of a recipe, in the order in which they run, each with all that it depends on."""

import functools
import importlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from triton_ads.data.parquet_files import data_files
from triton_ads.data.sources import PACKAGES, SOURCES
from triton_ads.pipeline.inputs import Digests, file_inputs, package_inputs, path_digests, recipe_inputs, source_inputs
from triton_ads.pipeline.layout import Layout
from triton_ads.pipeline.record import RECORD_FILE
from triton_ads.pipeline.runner import Stage
from triton_ads.recipe import Recipe
from triton_ads.targeting.published import checkpoint_files

#: Fields of a recipe that change neither the examples nor what a model looks like; any other field is taken to.
_NOT_OF_THE_MODEL = frozenset(
    {"version", "name", "rank_by", "tiers", "training", "calibration", "router", "serving", "target"}
)

_TRAINING = ("numpy", "torch")
_GENERATOR = (*_TRAINING, "scipy", "transformers", "tokenizers", "gguf")
_PACKED = ("numpy", "scipy", "tokenizers", "gguf")
_EXPORT = (*_TRAINING, "onnx", "onnxruntime", "onnxscript")


def plan(recipe: Recipe, layout: Layout) -> list[Stage]:
    """All stages of a recipe."""
    model = [field for field in Recipe.model_fields if field not in _NOT_OF_THE_MODEL]
    data = layout.work("data")
    source = recipe.data.source
    stages = [
        _stage(
            recipe,
            layout,
            "data",
            None,
            fields=model,
            packages=("numpy", *PACKAGES.get(source, ())),
            modules=[SOURCES[source]],
            files=functools.partial(data_files, recipe),
        )
    ]
    for tier in (name for name, part in recipe.tiers.items() if part.own):
        fields = [*model, f"tiers.{tier}", "serving.tile"]
        stages.append(_stage(recipe, layout, "check", tier, fields=fields, packages=_EXPORT, needs=[data]))
    for tier in recipe.tiers:
        fields = [*model, "training", f"tiers.{tier}"]
        stages.append(_stage(recipe, layout, "train", tier, fields=fields, packages=_TRAINING, needs=[data]))
    fields = [*model, "training"]
    stages.append(_stage(recipe, layout, "baselines", None, fields=fields, packages=_TRAINING, needs=[data]))
    for tier in recipe.tiers:
        # What is held to which bound concerns the release alone.
        maps = [f"calibration.{field}" for field in ("method", "by_scenario", "min_examples")]
        needs, fields = [data, layout.work("train", tier)], [*model, *maps]
        stages.append(_stage(recipe, layout, "calibrate", tier, fields=fields, packages=_TRAINING, needs=needs))
    for tier in recipe.tiers:
        needs = [data, layout.work("train", tier), layout.work("calibrate", tier)]
        fields = [*model, f"tiers.{tier}", "serving.tile"]
        stages.append(_stage(recipe, layout, "export", tier, fields=fields, packages=_EXPORT, needs=needs))
    needs = [data, *(layout.work("export", tier) for tier in recipe.tiers)]
    if recipe.router.learned:
        # Of what exporting made it reads what a tier costs.
        judged = (recipe.router.default_tier, str(recipe.router.high_tier))
        made = [layout.work(kind, tier) for kind in ("train", "calibrate", "export") for tier in judged]
        fields = [*model, "router.default_tier", "router.high_tier"]
        stages.append(_stage(recipe, layout, "router", None, fields=fields, packages=("numpy",), needs=[data, *made]))
        needs.append(layout.work("router"))
    if recipe.target is not None:
        stages += _target(recipe, layout, model)
        needs += [layout.work("identifiers"), layout.work("pack")]
    stages.append(_stage(recipe, layout, "release", None, fields=Recipe.model_fields, needs=needs))
    stages.append(
        _stage(recipe, layout, "repository", None, fields=Recipe.model_fields, needs=[layout.work("release")])
    )
    return stages


def _target(recipe: Recipe, layout: Layout, model: Sequence[str]) -> list[Stage]:
    """Of a recipe that generates ads; each of them reads the data's log itself."""
    parts = ["journey", "events", "identifiers", "model.checkpoint"]
    trained = [*parts, "query_words", "model", "training"]
    needs = [layout.work("identifiers"), layout.work("generator")]
    source = recipe.data.source

    def stage(kind: str, fields: Sequence[str], packages: Sequence[str], needs: Sequence[Path]) -> Stage:
        return _stage(
            recipe,
            layout,
            kind,
            None,
            fields=[*model, *fields],
            packages=(*packages, *PACKAGES.get(source, ())),
            needs=needs,
            modules=[SOURCES[source]],
            files=lambda: [*data_files(recipe), *checkpoint_files(recipe)],
        )

    return [
        stage("identifiers", [f"target.{part}" for part in parts], _PACKED, ()),
        stage("generator", [f"target.{part}" for part in trained], _GENERATOR, needs[:1]),
        stage("pack", ["target"], _PACKED, needs),
    ]


def _own_model(recipe: Recipe, layout: Layout, tier: str) -> Digests:
    """The file of a tier's model that is not ours."""
    file, _, _ = recipe.tiers[tier].model.rpartition(":")
    return file_inputs(recipe.folder / file, layout.var) if recipe.tiers[tier].own else {}


def _stage(
    recipe: Recipe,
    layout: Layout,
    kind: str,
    tier: str | None,
    *,
    fields: Iterable[str],
    packages: Iterable[str] = (),
    needs: Sequence[Path] = (),
    modules: Sequence[str] = (),
    files: Callable[[], Sequence[Path]] = tuple,
) -> Stage:
    """`modules`: of ours, beside the stage's own; `files`: the recipe author's, asked for before it runs."""
    module = f"triton_ads.pipeline.stages.{kind}"
    arguments = (recipe, layout, tier) if tier else (recipe, layout)

    def inputs() -> Digests:
        return {
            **recipe_inputs(recipe, fields),
            **path_digests(needs, layout.var, ignore=RECORD_FILE),
            **path_digests(files(), layout.var),
            **(_own_model(recipe, layout, tier) if tier else {}),
            **{path: digest for name in (module, *modules) for path, digest in source_inputs(name).items()},
            **package_inputs(packages),
        }

    def run() -> Sequence[Path]:
        # PyTorch's threads spin while they wait for each other, and for long: where other programs want the cores that
        # makes training several times slower. This many turns keep its speed on idle cores and most of it on busy
        # ones. OpenMP reads it when PyTorch is imported.
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
        return importlib.import_module(module).run(*arguments)

    return Stage(
        name=f"{kind} {tier}" if tier else kind,
        folder=layout.work(kind, tier),
        base=layout.var,
        needs=tuple(needs),
        inputs=inputs,
        run=run,
    )
