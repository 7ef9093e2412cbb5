"""docs/wire.md and the rendered configs say the same."""

import re
from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from tests.support.tiny_release import tiny_recipe
from tests.support.tiny_target import target_recipe
from triton_ads.export.configs import render_configs
from triton_ads.recipe import load_recipe
from triton_ads.serving.errors import Cause

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "wire.md").read_text()
MOVIELENS = load_recipe(ROOT / "build" / "recipes" / "movielens.yaml")
MODELS = ("router", "user_encoder", "item_scorer")


def table(heading, first_cell):
    """The rows of the table under a heading that begins with `first_cell`, as lists of cells."""
    section = TEXT.split(f"## {heading}", 1)[1].split("\n## ", 1)[0]
    block = section.split(f"| {first_cell} |", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()[2:] if line]


def name(cell):
    return re.fullmatch(r"`(\w+)`", cell)[1]


RANK = "`rank`: what clients send and get"
BETWEEN = "`router` -> `user_encoder` -> `item_scorer`: what the models say to each other"
INPUTS = {name(row[0]): row[1:] for row in table(RANK, "input")}
OUTPUTS = {name(row[0]): row[1:] for row in table(RANK, "output")}
PASSED = {name(row[0]): row[1:] for row in table(BETWEEN, "tensor")}


TARGET = "`target`: which ads to consider, and `ads`: these, ranked"
SCORED = "`generator` -> `trie_verifier`: what was scored"
ASKED = {name(row[0]): row[1:] for row in table(TARGET, "input")}
ANSWERED = {name(row[0]): row[1:] for row in table(TARGET, "output")}
VERIFIED = {name(row[0]): row[1:] for row in table(SCORED, "tensor")}


def dims(shape, recipe):
    """The dims of a config for a shape of the document: numbers, sums of known letters, or free."""
    known = {
        "Fu": len(recipe.id_columns("user")),
        "Fc": len(recipe.id_columns("context")),
        "Du": len(recipe.dense_columns("user")),
        "Dc": len(recipe.dense_columns("context")),
        "L": recipe.sequence_width,
        "K": len(recipe.labels),
    }

    def one(term):
        parts = [known.get(p, int(p) if p.isdigit() else None) for p in term.strip().split(" + ")]
        return sum(parts) if None not in parts else -1

    return [one(term) for term in shape.split(",")]


def tensors(fields):
    return {
        f.name: ("BYTES" if f.data_type == pb.TYPE_STRING else pb.DataType.Name(f.data_type)[5:], list(f.dims))
        for f in fields
    }


@pytest.fixture(params=[MOVIELENS, tiny_recipe()], ids=["movielens", "tiny"])
def recipe(request):
    return request.param


def rendered(recipe, layout):
    recipe = recipe.model_copy(update={"serving": recipe.serving.model_copy(update={"layout": layout})})
    return {model: text_format.Parse(text, pb.ModelConfig()) for model, text in render_configs(recipe).items()}


@pytest.fixture
def configs(recipe):
    return rendered(recipe, "ensemble")


@pytest.fixture
def single(recipe):
    return rendered(recipe, "single")["rank"]


def documented(rows, recipe):
    return {tensor: (dtype, dims(shape, recipe)) for tensor, (dtype, shape, *_) in rows.items()}


def test_the_document_was_read():
    assert (len(INPUTS), len(OUTPUTS), len(PASSED)) == (13, 7, 5)


def test_what_clients_send_and_get_in_either_layout(configs, single, recipe):
    for rank in (configs["rank"], single):
        assert tensors(rank.input) == documented(INPUTS, recipe)
        assert tensors(rank.output) == documented(OUTPUTS, recipe)


def test_what_the_models_say_to_each_other(configs, recipe):
    passed = documented(PASSED, recipe)
    for tensor, (_, _, source, target, _) in PASSED.items():
        targets = ["user_encoder", "item_scorer"] if target == "both" else [target]
        assert tensors(configs[source].output)[tensor] == passed[tensor]
        for model in MODELS:
            found = tensors(configs[model].input)
            assert found.get(tensor) == (passed[tensor] if model in targets else None)


def test_generated_ads(recipe):
    assert (len(ASKED), len(ANSWERED), len(VERIFIED)) == (6, 3, 5)
    recipe = target_recipe(recipe)
    configs = rendered(recipe, "ensemble")
    asked, answered, scored = (documented(rows, recipe) for rows in (ASKED, ANSWERED, VERIFIED))
    assert tensors(configs["generator"].input) == asked and tensors(configs["generator"].output) == scored
    assert tensors(configs["trie_verifier"].input) == scored and tensors(configs["trie_verifier"].output) == answered
    assert tensors(configs["target"].input) == asked and tensors(configs["target"].output) == answered
    ranked = documented(INPUTS, recipe) | documented(OUTPUTS, recipe)
    inputs = {name: one for name, one in ranked.items() if name in INPUTS and name != "candidates"}
    assert tensors(configs["ads"].input) == inputs | asked
    found = {name: one for name, one in answered.items() if name != "target_release"}
    assert tensors(configs["ads"].output) == documented(OUTPUTS, recipe) | found
    steps = {step.model_name: step for step in configs["ads"].ensemble_scheduling.step}
    assert steps["item_scorer"].input_map["candidates"] == steps["router"].input_map["candidates"] == "target_ids"
    other = rendered(recipe, "single")["ads"]
    assert (other.input, other.output) == (configs["ads"].input, configs["ads"].output)
    assert other.ensemble_scheduling.step[2].input_map["candidates"] == "target_ids"
    for model in ("generator", "trie_verifier"):
        for tensor in configs[model].input:
            assert tensor.allow_ragged_batch == (-1 in tensor.dims) and not tensor.optional


def test_every_tensor_of_a_model_is_documented(configs, recipe):
    known = documented(INPUTS, recipe) | documented(OUTPUTS, recipe) | documented(PASSED, recipe)
    for model in MODELS:
        for tensor, found in [*tensors(configs[model].input).items(), *tensors(configs[model].output).items()]:
            assert found == known[tensor]


def test_no_output_has_the_name_of_an_input():
    assert not (INPUTS.keys() & OUTPUTS.keys())


def test_what_may_differ_in_length_may_be_batched(configs, single):
    for config in (single, *(configs[model] for model in MODELS)):
        for tensor in config.input:
            assert tensor.allow_ragged_batch == (-1 in tensor.dims)
            assert not tensor.optional  # an input that some requests omit stops Triton from batching them
        assert config.HasField("dynamic_batching")


def test_every_cause_of_an_error_has_a_row_of_bad_input():
    """The words by which a row of "Answers to bad input" speaks of a cause; INTERNAL is our own fault."""
    words = {
        Cause.TOO_MANY_CANDIDATES: "more candidates than `serving.max_candidates`",
        Cause.WRONG_LENGTH: "a tensor of the wrong length",
        Cause.NOT_FINITE: "NaN or infinite",
        Cause.OUT_OF_RANGE: "`top` below 0 or above `target.max_top`",
        Cause.UNKNOWN_TIER: "unknown `insisted_tier`",
        Cause.DEADLINE: "deadline already passed",
        Cause.OTHER_RELEASE: "of another release",
    }
    assert set(words) == set(Cause) - {Cause.INTERNAL}
    rows = [row[0] for row in table("Answers to bad input", "input")]
    assert all(any(text in row for row in rows) for text in words.values())
