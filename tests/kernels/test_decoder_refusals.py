"""What a decoder refuses, in words; and that nothing has changed then."""

import re
import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.random_llama import config_of, random_model
from triton_ads.compression.bf16 import pack_bf16
from triton_ads.compression.patterns import Pattern
from triton_ads.kernels import PackedProduct, _native
from triton_ads.serving.decoder import Candidates, Decoder, DecoderError, Sequence

MODEL = random_model(config_of(positions=16))
DECODER = Decoder(MODEL)


def begun() -> Sequence:
    """Three prompt tokens of five, two nodes of four."""
    sequence = DECODER.sequence(5, 4, cache="float32")
    sequence.extend([1, 2, 3])
    sequence.grow([4, 5], [-1, 0])
    return sequence


REFUSED: list[tuple[Callable[[Sequence], object], str]] = [
    (lambda s: s.grow([101], [-1]), "token 0 is 101; 0 to 100 allowed"),
    (lambda s: s.grow([1, -1], [-1, -1]), "token 1 is -1; 0 to 100 allowed"),
    (lambda s: s.grow([1], [2]), "node 2 has parent 2; -1 (the prompt's end) or an earlier node is allowed"),
    (lambda s: s.grow([1], [-2]), "node 2 has parent -2; -1"),
    (lambda s: s.grow([1, 1], [3, -1]), "node 2 has parent 3; -1"),
    (lambda s: s.grow([1], [2**40]), "node 2 has parent 1099511627776; -1"),
    (lambda s: s.grow([1, 2], [-1]), "there are 2 tokens and 1 parents; one for each is needed"),
    (lambda s: s.grow([1, 2, 3], [-1] * 3), "the tree would have 5 nodes (2 and 3 more); there is room for 4"),
    (lambda s: s.grow([0.5], [-1]), "tokens are float64 of shape (1,); a list of whole numbers is allowed"),
    (lambda s: s.grow([[1]], [-1]), "tokens are int64 of shape (1, 1); a list of whole numbers is allowed"),
    (lambda s: s.grow(["a"], [-1]), "tokens are <U1 of shape (1,)"),
    (lambda s: s.extend([1]), "the tree has 2 nodes; the prompt grows only without nodes"),
    (lambda s: s.grow([1], [-1], rows=[1]), "scores are asked for row 1 after row -1; ascending rows below 1"),
    (lambda s: s.grow([1, 1], [-1, -1], rows=[1, 0]), "scores are asked for row 0 after row 1; ascending rows"),
    (lambda s: s.grow([1, 1], [-1, -1], rows=[1, 1]), "scores are asked for row 1 after row 1; ascending rows"),
    (lambda s: s.grow([1], [-1], rows="some"), "rows is 'some'; 'all', 'last', 'none' or numbers"),  # type: ignore[arg-type]
    (lambda s: s.grow([1], [-1], candidates=Candidates.of([[101]])), "a candidate is token 101; 0 to 100 allowed"),
    (lambda s: s.grow([1], [-1], candidates=Candidates.of([[1], [2]])), "candidate starts do not run from 0 to 2"),
    (
        lambda s: s.grow([1, 1], [-1, -1], candidates=Candidates(np.array([0, 3, 2]), np.array([1, 1]))),
        "candidate starts fall from 3 to 2",
    ),
    (lambda s: s.cut(4), "the prompt cannot be cut to 4 tokens; it has 3"),
    (lambda s: s.cut(-1), "the prompt cannot be cut to -1 tokens; it has 3"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_refused_and_unchanged(call: Callable[[Sequence], object], message: str) -> None:
    sequence, untouched = begun(), begun()
    with pytest.raises(DecoderError, match=re.escape(message)):
        call(sequence)
    assert (sequence.length, sequence.nodes) == (3, 2)
    np.testing.assert_array_equal(sequence.grow([7], [1]), untouched.grow([7], [1]))


def test_a_full_prompt() -> None:
    sequence = begun()
    sequence.clear_nodes()
    message = re.escape("the prompt would have 6 tokens (3 and 3 more); there is room for 5")
    with pytest.raises(DecoderError, match=message):
        sequence.extend([1, 2, 3])
    assert sequence.length == 3
    sequence.extend([1, 2])
    assert sequence.length == 5


def test_positions_beyond_the_model() -> None:
    sequence = DECODER.sequence(40, 10)
    message = re.escape("position 16 is asked for; the model allows 0 to 15")
    with pytest.raises(DecoderError, match=message):
        sequence.extend([1] * 17)
    sequence.extend([1] * 15)
    sequence.grow([1, 1, 1], [-1, -1, -1])
    with pytest.raises(DecoderError, match=message):
        sequence.grow([1, 1], [-1, 2])
    assert sequence.nodes == 3


def test_nothing_is_a_call_too() -> None:
    sequence = begun()
    assert sequence.grow([], []).shape == (0, 101)
    assert sequence.grow([], [], candidates=Candidates.of([])).shape == (0,)
    sequence.clear_nodes()
    assert sequence.extend([]).shape == (0, 101)
    assert DECODER.sequence(0, 0).extend([]).shape == (0, 101)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt_capacity": -1}, "prompt_capacity is -1; 0 to 2^24 allowed"),
        ({"node_capacity": 2**24 + 1}, "node_capacity is 16777217; 0 to 2^24 allowed"),
        ({"cache": "int8"}, "cache is 'int8'; float16 and float32 are allowed"),
        ({"activation_bits": 4}, "activation_bits is 4; 16 and 8 are allowed"),
        ({"threads": 0}, "threads is 0; 1 to 1024 allowed"),
        ({"path": "sse"}, "path 'sse' is not one of those this CPU runs"),
    ],
)
def test_options(options: dict[str, int | str], message: str) -> None:
    with pytest.raises(DecoderError, match=re.escape(message)):
        DECODER.sequence(**{"prompt_capacity": 4, **options})  # type: ignore[arg-type]


def test_one_thread_at_a_time() -> None:
    """A second thread is told so, or comes when the first has finished; no call is half done."""
    sequence = Decoder(random_model(config_of(hidden=256, layers=4, positions=4096))).sequence(4000)
    refused = []

    def run() -> None:
        for _ in range(20):
            try:
                sequence.extend([1] * 40, rows="none")
            except DecoderError as error:
                refused.append(str(error))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(refused) <= {"another thread uses this sequence, or another part of this call; each needs its own"}
    assert sequence.length == 40 * (60 - len(refused))


def parts() -> dict[str, object]:
    """What the native decoder takes for a model of one layer."""
    model = random_model(config_of(layers=1))
    names = [f"model.layers.0.{name}" for name in (
        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
        "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")]  # fmt: skip
    matrices = [PackedProduct(model.matrices[name]).native for name in names]
    norm = np.ones(48, np.float32)
    return {
        "hidden": 48, "heads": 6, "kv_heads": 2, "head_dim": 8, "vocabulary": 101, "positions": 64, "epsilon": 1e-5,
        "layers": [(*matrices, norm, norm)], "embeddings": model.embeddings_VD.reshape(-1), "final_norm": norm,
        "head": PackedProduct(model.matrices["lm_head"]).native, "inverse_frequencies": model.frequencies,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": 47}, "the final norm has 48 values; this model needs 47"),
        ({"vocabulary": 102}, "there are 4848 values of embeddings; 102 x 48 are needed"),
        ({"heads": 5}, "heads is 5, kv_heads 2; the first must be a multiple of the second"),
        ({"heads": 8}, "layer 0: q is 48 x 48; this model needs 64 x 48"),
        ({"kv_heads": 0}, "kv_heads is 0; 1 to 6 allowed"),
        ({"head_dim": 10}, "there are 4 frequencies; head_dim 10 needs half of it"),
        ({"positions": 0}, "positions is 0; 1 to 16777216 allowed"),
        ({"layers": []}, "there are 0 layers; at least 1 is needed"),
        ({"layers": [(1, 2)]}, "layer 0 has 2 parts; 9 are needed"),
        ({"head": PackedProduct(pack_bf16(np.ones((101, 47)), Pattern.DENSE)).native}, "head is 101 x 47; this model"),
    ],
)
def test_parts_that_do_not_fit(change: dict[str, object], message: str) -> None:
    _native.Decoder(**parts())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=re.escape(message)):
        _native.Decoder(**{**parts(), **change})  # type: ignore[arg-type]


def test_damaged_numbers_reach_the_logits_and_nothing_else() -> None:
    """Embeddings and weights that are not finite: the answer is not finite, and nobody reads out of bounds."""
    embeddings_VD = MODEL.embeddings_VD.copy()
    embeddings_VD[7] = 0x7FC0  # not a number
    sequence = Decoder(replace(MODEL, embeddings_VD=embeddings_VD)).sequence(8, 4)
    sequence.extend([1, 2])
    assert np.isnan(sequence.grow([7], [-1])).all()
    assert np.isfinite(sequence.grow([8], [-1])).all()


@settings(max_examples=150)
@given(
    tokens=st.lists(st.integers(-2, 105) | st.integers(-(2**63), 2**63 - 1), max_size=6),
    parents=st.lists(st.integers(-3, 8) | st.integers(-(2**63), 2**63 - 1), max_size=6),
    rows=st.lists(st.integers(-2, 8) | st.integers(-(2**63), 2**63 - 1), max_size=4),
    starts=st.none() | st.lists(st.integers(-2, 8) | st.integers(-(2**63), 2**63 - 1), max_size=5),
    candidates=st.lists(st.integers(-2, 105) | st.integers(-(2**63), 2**63 - 1), max_size=6),
    out=st.integers(0, 320),
)
def test_any_call_is_answered_or_refused(
    tokens: list[int], parents: list[int], rows: list[int], starts: list[int] | None, candidates: list[int], out: int
) -> None:
    sequence, other = begun(), begun()
    tokens_T, parents_T, rows_R = (np.array(one, np.int64) for one in (tokens, parents, rows))
    given: list[tuple[_native.Sequence, np.ndarray, np.ndarray | None]]
    given = [(other.native, np.array([1]), np.array([0])), (sequence.native, tokens_T, parents_T)]
    given_starts = None if starts is None else np.array(starts, np.int64)
    given_candidates = None if starts is None else np.array(candidates, np.int64)
    for parts in (given, given[1:]):
        before = other.nodes
        try:
            _native.forward(parts, rows_R, given_starts, given_candidates, True, np.zeros(out, np.float32))
        except ValueError:
            assert (sequence.nodes, other.nodes) == (2, before)
        else:
            assert sequence.nodes == 2 + len(tokens)
            sequence.clear_nodes()
            sequence.grow([4, 5], [-1, 0])
