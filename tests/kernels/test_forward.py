"""Several sequences in one forward: each gets, to the bit, what it gets in calls of its own.

That is more than a tolerance: a search that runs beside others must not find other ads. It holds because integers add
up exactly, and because floats of a row add up in the same order whatever rows are beside it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.random_llama import EXACT, FORMATS, config_of, random_model
from triton_ads.compression.llama_config import LlamaConfig
from triton_ads.compression.pack_model import LayerFormat
from triton_ads.kernels import usable_paths
from triton_ads.serving.decoder import Candidates, Decoder, DecoderError, Part, Sequence, forward

PATHS = usable_paths()


@dataclass(frozen=True)
class Call:
    """What one sequence gets in one call: prompt tokens, or nodes where there are parents; and what is asked of it."""

    tokens: list[int]
    parents: list[int] | None
    rows: list[int]
    candidates: list[list[int]]


@dataclass(frozen=True)
class Case:
    config: LlamaConfig
    formats: list[LayerFormat]
    calls: list[list[Call]]  # of each sequence; those of one place are made together
    seed: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kv_heads = draw(st.integers(1, 2))
    config = config_of(
        hidden=draw(st.integers(30, 70)),
        intermediate=draw(st.integers(1, 90)),
        heads=kv_heads * draw(st.sampled_from([1, 3, 9])),
        kv_heads=kv_heads,
        head_dim=2 * draw(st.integers(1, 12)),
    )
    count = draw(st.integers(1, 3))
    sequences = []
    for _ in range(draw(st.integers(1, 5))):
        nodes, calls = 0, []
        grows = draw(st.integers(0, count))  # from this call on the tree grows: then the prompt may not
        for place in range(count):
            size = draw(st.integers(0, 40))
            parents = None
            if place >= grows:
                parents = [draw(st.integers(-1, nodes + i - 1)) for i in range(size)]
                nodes += size
            tokens = draw(st.lists(st.integers(0, 100), min_size=size, max_size=size))
            rows = sorted(draw(st.sets(st.integers(0, size - 1), max_size=6))) if size else []
            candidates = [draw(st.lists(st.integers(0, 100), max_size=4)) for _ in rows]
            calls.append(Call(tokens, parents, rows, candidates))
        sequences.append(calls)
    formats = draw(st.lists(st.sampled_from(FORMATS), min_size=1, max_size=4))
    return Case(config, formats, sequences, draw(st.integers(0, 2**32)))


def made(decoder: Decoder, case: Case, path: str, bits: int, cache: str, threads: int) -> list[Sequence]:
    return [
        decoder.sequence(130, 130, bits, cache=cache, threads=threads, path=path)  # type: ignore[arg-type]
        for _ in case.calls
    ]


@settings(max_examples=60)
@given(
    case=cases(),
    path=st.sampled_from(PATHS),
    bits=st.sampled_from([16, 8]),
    cache=st.sampled_from(["float16", "float32"]),
    threads=st.sampled_from([1, 2]),
    normalised=st.booleans(),
)
def test_together_as_alone(case: Case, path: str, bits: int, cache: str, threads: int, normalised: bool) -> None:
    names = list(case.config.linear_layers())
    model = random_model(case.config, lambda name: case.formats[names.index(name) % len(case.formats)], case.seed)
    decoder = Decoder(model)
    alone, together = (made(decoder, case, path, bits, cache, threads) for _ in range(2))
    for calls in zip(*case.calls, strict=True):
        parts = [Part(one, call.tokens, call.parents) for one, call in zip(together, calls, strict=True)]
        starts = np.cumsum([0, *(len(call.tokens) for call in calls)])
        rows = np.concatenate(
            [start + np.array(call.rows, np.int64) for start, call in zip(starts, calls, strict=False)]
        )
        asked = Candidates.of([tokens for call in calls for tokens in call.candidates])
        wanted = [
            forward([Part(one, call.tokens, call.parents)], call.rows, Candidates.of(call.candidates), normalised)
            for one, call in zip(alone, calls, strict=True)
        ]
        found = forward(parts, rows, asked, normalised)
        np.testing.assert_array_equal(found, np.concatenate(wanted))
    assert [(one.length, one.nodes) for one in together] == [(one.length, one.nodes) for one in alone]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("how", FORMATS, ids=str)
def test_a_beam_among_neighbours(path: str, how: LayerFormat) -> None:
    """20 nodes behind a prompt of 50, alone and between prompts and beams of others: whole distributions."""
    decoder = Decoder(random_model(config_of(hidden=128, heads=8, kv_heads=2, head_dim=16, layers=3), lambda name: how))

    def begun(seed: int) -> tuple[Sequence, list[int]]:
        tokens = np.random.default_rng(seed).integers(0, 101, 70).tolist()
        sequence = decoder.sequence(60, 40, path=path)
        sequence.extend(tokens[:50], rows="none")
        return sequence, tokens[50:]

    own, tokens = begun(0)
    alone = own.grow(tokens, [-1] * 20, log_probabilities=True)
    own.clear_nodes()
    others = [begun(seed) for seed in range(1, 5)]
    parts = [
        Part(others[0][0], others[0][1][:7], [-1] * 7),
        Part(others[1][0], others[1][1][:9]),
        Part(own, tokens, [-1] * 20),
        Part(others[2][0], others[2][1], list(range(-1, 19))),
        Part(others[3][0], []),
    ]
    found = forward(parts, rows="all", log_probabilities=True)
    np.testing.assert_array_equal(found[16:36], alone)
    last = forward([Part(own, [5], [0]), Part(others[3][0], []), Part(others[0][0], [4, 5], [-1, 6])], rows="last")
    assert last.shape == (2, 101)  # of a part without tokens nothing is scored
    np.testing.assert_array_equal(last[1], others[0][0].grow([5], [6])[0])


DECODER = Decoder(random_model(config_of(positions=16)))
OTHER = Decoder(random_model(config_of(positions=16)))


def pair() -> tuple[Sequence, Sequence]:
    one, other = DECODER.sequence(5, 4), DECODER.sequence(5, 4)
    one.extend([1, 2])
    other.extend([3])
    other.grow([4], [-1])
    return one, other


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (lambda a, b: [], "a call has 0 parts; at least 1 is needed"),
        (lambda a, b: [Part(a, [1]), Part(a, [1])], "or another part of this call; each needs its own"),
        (lambda a, b: [Part(a, [1]), Part(b, [1])], "the tree has 1 nodes; the prompt grows only without nodes"),
        (lambda a, b: [Part(a, [1]), Part(b, [1], [1])], "node 1 has parent 1; -1"),
        (lambda a, b: [Part(a, [1]), Part(b, [101], [0])], "token 0 is 101"),
        (lambda a, b: [Part(a, [1] * 4), Part(b, [1], [0])], "the prompt would have 6 tokens"),
        (lambda a, b: [Part(a, [1]), Part(OTHER.sequence(5), [1])], "are of two decoders; one is allowed"),
        (lambda a, b: [Part(a, [1]), Part(DECODER.sequence(5, cache="float32"), [1])], "differ in cache, activation"),
        (lambda a, b: [Part(a, [1]), Part(DECODER.sequence(5, activation_bits=8), [1])], "differ in cache, activation"),
        (lambda a, b: [Part(a, [1]), Part(DECODER.sequence(5, path="portable"), [1])], "differ in cache, activation"),
    ],
)
def test_refused_and_nothing_changed(parts: Callable[[Sequence, Sequence], list[Part]], message: str) -> None:
    one, other = pair()
    untouched = pair()
    with pytest.raises(DecoderError, match=re.escape(message)):
        forward(parts(one, other))
    assert [(s.length, s.nodes) for s in (one, other)] == [(2, 0), (1, 1)]
    for mine, theirs in zip((one, other), untouched, strict=True):
        np.testing.assert_array_equal(mine.grow([7], [-1]), theirs.grow([7], [-1]))


def test_rows_count_over_all_parts() -> None:
    one, other = pair()
    with pytest.raises(DecoderError, match="scores are asked for row 3 after row 0; ascending rows below 3"):
        forward([Part(one, [1]), Part(other, [1, 1], [0, 0])], rows=[0, 3])
    assert forward([Part(one, [1]), Part(other, [1, 1], [0, 0])], rows=[0, 2]).shape == (2, 101)


def test_decoders_of_two_sizes_share_a_thread() -> None:
    """Buffers belong to the thread: a large decoder between two calls of a small one leaves no trace."""
    small = Decoder(random_model(config_of(), lambda name: EXACT))
    large = Decoder(random_model(config_of(hidden=160, heads=12, layers=1, vocabulary=400), lambda name: EXACT))
    wanted = small.sequence(40).extend(range(40), rows="all")
    large.sequence(64, 64).extend(range(64))
    np.testing.assert_array_equal(small.sequence(40).extend(range(40), rows="all"), wanted)
