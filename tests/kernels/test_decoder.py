"""The decoder in C++ against a plain reference in float64, on every path: prompts, trees, scores.

Tolerances, as root mean square over the logits' own: BF16 weights and a float32 cache differ by float32 summation
alone (1e-4; found: 2e-6). A cache of float16 rounds keys and values to 5e-4 (1e-2; found: 1.3e-3). INT4 with 16-bit
activations rounds every product to 1e-4 (5e-3; found: 3e-4).
"""

import threading
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.random_llama import EXACT, FORMATS, Reference, config_of, random_model, relative_error
from triton_ads.compression.bf16 import pack_bf16, to_bf16
from triton_ads.compression.llama_config import HEAD, LlamaConfig
from triton_ads.compression.pack_model import LayerFormat
from triton_ads.compression.packed_model import PackedModel
from triton_ads.compression.packing import pack
from triton_ads.compression.patterns import Pattern, Values
from triton_ads.compression.quantised import round_to_nearest
from triton_ads.kernels import usable_paths
from triton_ads.serving.decoder import Candidates, Decoder, Sequence

PATHS = usable_paths()
INT4 = LayerFormat(Pattern.TWO_OF_FOUR, Values.INT4)


def tokens_of(count: int, vocabulary: int = 101, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, vocabulary, count).tolist()


def literal_model() -> PackedModel:
    """Width 2, one head, no MLP, zero queries: attention is the mean of the values that are seen."""
    model = random_model(config_of(hidden=2, intermediate=1, layers=1, heads=1, kv_heads=1, head_dim=2, vocabulary=3))
    at = "model.layers.0"
    eye, zero = np.eye(2, dtype=np.float32), np.zeros((2, 2), np.float32)
    matrices = {
        **model.matrices,
        f"{at}.self_attn.q_proj": pack_bf16(zero, Pattern.DENSE),
        f"{at}.self_attn.v_proj": pack_bf16(eye, Pattern.DENSE),
        f"{at}.self_attn.o_proj": pack_bf16(eye, Pattern.DENSE),
        f"{at}.mlp.down_proj": pack_bf16(np.zeros((2, 1), np.float32), Pattern.DENSE),
        HEAD: pack_bf16(np.array([[1, 0], [0, 1], [1, 1]], np.float32), Pattern.DENSE),
    }
    embeddings_VD = to_bf16(np.array([[3, 3], [3, -3], [1, 1]], np.float32))
    norms = {name: np.ones(2, np.float32) for name in model.norms}
    return replace(model, matrices=matrices, embeddings_VD=embeddings_VD, norms=norms)


@pytest.mark.parametrize("path", PATHS)
def test_literal_logits(path: str) -> None:
    """Tokens 0 and 1: normed they are (1, 1) and (1, -1), and so are their values.

    After token 0: x = (3, 3) + (1, 1) = (4, 4), normed (1, 1): logits 1, 1, 2.
    After token 1: x = (3, -3) + mean((1, 1), (1, -1)) = (4, -3), over sqrt(12.5) = (1.13137, -0.84853).
    Node 2, a child of the prompt's end: (1, 1) + mean of three = (2, 1 + 1/3), over sqrt((4 + 16/9) / 2) = 1.69967.
    """
    sequence = Decoder(literal_model()).sequence(4, 4, cache="float32", path=path)
    found = sequence.extend([0, 1], rows="all")
    np.testing.assert_allclose(found, [[1, 1, 2], [1.13137, -0.84853, 0.28284]], rtol=1e-4)
    np.testing.assert_allclose(sequence.grow([2], [-1]), [[1.17670, 0.78446, 1.96116]], rtol=1e-4)


@dataclass(frozen=True)
class Case:
    """A model, how it is packed and stored, a prompt in chunks, a tree in calls."""

    config: LlamaConfig
    formats: list[LayerFormat]
    chunks: list[int]
    calls: list[list[int]]
    seed: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kv_heads = draw(st.integers(1, 3))
    config = config_of(
        hidden=draw(st.integers(1, 70)),
        intermediate=draw(st.integers(1, 90)),
        layers=draw(st.integers(1, 2)),
        heads=kv_heads * draw(st.sampled_from([1, 2, 3, 5, 9])),
        kv_heads=kv_heads,
        head_dim=2 * draw(st.integers(1, 20)),
        vocabulary=draw(st.integers(2, 120)),
        tied=draw(st.booleans()),
    )
    chunks = draw(st.lists(st.integers(0, 40), max_size=3))
    calls, nodes = [], 0
    for size in draw(st.lists(st.integers(0, 40), max_size=3)):
        calls.append([draw(st.integers(-1, nodes + i - 1)) for i in range(size)])
        nodes += size
    formats = draw(st.lists(st.sampled_from(FORMATS), min_size=1, max_size=5))
    return Case(config, formats, chunks, calls, draw(st.integers(0, 2**32)))


def paths_of(parents: list[int]) -> list[list[int]]:
    """The nodes from the prompt's end to each node, itself included."""
    found: list[list[int]] = []
    for node, parent in enumerate(parents):
        found.append([*(found[parent] if parent >= 0 else []), node])
    return found


def check_against_reference(case: Case, model: PackedModel, sequence: Sequence, limit: float) -> None:
    """Every prompt token and every node has the logits of its own path run as a plain sequence."""
    reference = Reference(model)
    prompt = tokens_of(sum(case.chunks), case.config.vocabulary, case.seed)
    done = 0
    for size in case.chunks:
        found = sequence.extend(prompt[done : done + size], rows="all")
        assert found.shape == (size, case.config.vocabulary)
        if size:
            assert relative_error(found, reference.logits(prompt[: done + size])[done:]) < limit
        done += size
    parents = [parent for call in case.calls for parent in call]
    tokens = tokens_of(len(parents), case.config.vocabulary, case.seed + 1)
    found_NV = [np.zeros((0, case.config.vocabulary), np.float32)]
    done = 0
    for call in case.calls:
        found_NV.append(sequence.grow(tokens[done : done + len(call)], call))
        done += len(call)
    if parents:
        wanted_NV = [reference.logits(prompt + [tokens[node] for node in path])[-1] for path in paths_of(parents)]
        assert relative_error(np.concatenate(found_NV), np.stack(wanted_NV)) < limit
    assert (sequence.length, sequence.nodes) == (len(prompt), len(parents))


@settings(max_examples=60)
@given(case=cases(), path=st.sampled_from(PATHS), threads=st.sampled_from([1, 2]))
def test_random_models_and_trees(case: Case, path: str, threads: int) -> None:
    model = random_model(case.config, seed=case.seed)
    sequence = Decoder(model).sequence(130, 130, cache="float32", path=path, threads=threads)
    check_against_reference(case, model, sequence, 1e-4)


@settings(max_examples=25)
@given(case=cases(), path=st.sampled_from(PATHS))
def test_random_formats(case: Case, path: str) -> None:
    """Layers of any patterns and values in one model. A value that is small by chance magnifies errors: the width is
    kept from being tiny."""
    config = replace(case.config, hidden=case.config.hidden + 30, head_dim=case.config.head_dim + 8)
    names = list(config.linear_layers())
    model = random_model(config, lambda name: case.formats[names.index(name) % len(case.formats)], seed=case.seed)
    sequence = Decoder(model).sequence(130, 130, path=path)
    check_against_reference(replace(case, config=config), model, sequence, 2e-2)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("how", "cache", "bits", "limit"),
    [
        (EXACT, "float32", 16, 1e-5),
        (EXACT, "float16", 16, 5e-3),
        (INT4, "float32", 16, 1e-3),
        (INT4, "float16", 8, 0.2),
    ],
)
def test_error_of_each_rounding(path: str, how: LayerFormat, cache: str, bits: int, limit: float) -> None:
    """A model of six layers and 70 tokens: each rounding alone, then the coarsest together."""
    config = config_of(hidden=128, heads=8, kv_heads=1, head_dim=16, layers=6)
    model = random_model(config, lambda name: how)
    sequence = Decoder(model).sequence(80, cache=cache, activation_bits=bits, path=path)  # type: ignore[arg-type]
    found = sequence.extend(tokens_of(70), rows="all")
    assert relative_error(found, Reference(model).logits(tokens_of(70))) < limit


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("how", [EXACT, INT4])
def test_candidates_are_the_same_numbers(path: str, how: LayerFormat) -> None:
    """Of the whole vocabulary, and alone: with repeated, unsorted and no candidates in a row."""
    model = random_model(config_of(vocabulary=300), lambda name: how)
    asked = [[299, 0, 31, 32, 31], [], [7]]
    start = np.cumsum([0, *map(len, asked)])
    for log_probabilities in (False, True):
        sequence = Decoder(model).sequence(40, 10, path=path)
        sequence.extend(tokens_of(35, 300))
        everything = sequence.grow([1, 2, 3, 4], [-1, -1, 0, 2], log_probabilities=log_probabilities)
        sequence.clear_nodes()
        found = sequence.grow([1, 2, 3, 4], [-1, -1, 0, 2], [0, 2, 3], Candidates.of(asked), log_probabilities)
        for row, (node, tokens) in enumerate(zip([0, 2, 3], asked, strict=True)):
            np.testing.assert_array_equal(found[start[row] : start[row + 1]], everything[node, tokens])


@pytest.mark.parametrize("path", PATHS)
def test_log_probabilities(path: str) -> None:
    sequence = Decoder(random_model(config_of())).sequence(40, path=path)
    logits = sequence.extend(tokens_of(40), rows="all").astype(np.float64)
    sequence.cut(0)
    found = sequence.extend(tokens_of(40), rows="all", log_probabilities=True)
    wanted = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_rows_are_those_asked_for() -> None:
    decoder = Decoder(random_model(config_of()))
    every = decoder.sequence(80).extend(tokens_of(80), rows="all")
    np.testing.assert_array_equal(decoder.sequence(80).extend(tokens_of(80)), every[-1:])
    np.testing.assert_array_equal(decoder.sequence(80).extend(tokens_of(80), [0, 31, 32, 79]), every[[0, 31, 32, 79]])
    assert decoder.sequence(80).extend(tokens_of(80), "none").shape == (0, 101)


def test_a_prompt_is_cut_and_goes_on() -> None:
    """Requests that begin alike share the beginning: what came after it leaves no trace."""
    decoder = Decoder(random_model(config_of()))
    plain = decoder.sequence(60, 8).extend(tokens_of(50))
    sequence = decoder.sequence(60, 8)
    sequence.extend([*tokens_of(30), *tokens_of(25, seed=9)])
    sequence.grow([5, 6], [-1, 0])
    sequence.cut(30)
    assert (sequence.length, sequence.nodes) == (30, 0)
    # Another division into passes adds up the same numbers, in float32, in another order at most.
    assert relative_error(sequence.extend(tokens_of(50)[30:]), plain) < 1e-5


def test_decoders_are_shared_by_threads() -> None:
    """Sequences of several threads, which share the pool as well, give what each gives alone."""
    decoder = Decoder(random_model(config_of(hidden=128, heads=8, kv_heads=2, head_dim=16), lambda name: INT4))
    wanted = [decoder.sequence(64).extend(tokens_of(64, seed=seed)) for seed in range(4)]
    found: dict[tuple[int, int], np.ndarray] = {}

    def run(seed: int) -> None:
        for turn in range(5):
            found[seed, turn] = decoder.sequence(64).extend(tokens_of(64, seed=seed))

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 20
    for (seed, _), logits in found.items():
        np.testing.assert_array_equal(logits, wanted[seed])


def test_a_head_with_sorted_rows() -> None:
    """Rows of different group sizes are sorted into tiles; candidates are found all the same."""
    model = random_model(config_of(hidden=130, vocabulary=200))
    weight_VD = np.random.default_rng(3).standard_normal((200, 130)).astype(np.float32)
    sizes = np.random.default_rng(4).choice([32, 64, 128], 200).astype(np.uint16)
    head = pack(round_to_nearest(weight_VD, Pattern.DENSE, sizes))
    assert head.row_order is not None
    model = replace(model, matrices={**model.matrices, HEAD: head})
    decoder = Decoder(model)
    every = decoder.sequence(9).extend(tokens_of(9))
    assert relative_error(every, Reference(model).logits(tokens_of(9))[-1:]) < 1e-2
    tokens = list(range(199, 0, -3))
    found = decoder.sequence(9).extend(tokens_of(9), candidates=Candidates.of([tokens]))
    np.testing.assert_array_equal(found, every[0, tokens])
