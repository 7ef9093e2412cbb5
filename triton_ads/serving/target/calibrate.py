"""What a forward costs here and now: `fixed_ms + token_ms * T`, fitted to a few measured sizes."""

import time

import numpy as np

from triton_ads.serving.target.packed import PackedTreeDecoder
from triton_ads.serving.target.step import PROMPT, Step
from triton_ads.serving.target.trigger import ForwardCost

_REPEATS = 5


def calibrate(decoder: PackedTreeDecoder, prompt_tokens: int, beam: int) -> ForwardCost:
    """Measure forwards of 1 to 16 beams behind a prompt of `prompt_tokens` tokens of the smallest number.

    The median of each size, since a machine is never alone; then the line with the smallest squared error, weighted so
    that small forwards count as much as large ones.
    """
    sizes = sorted({min(decoder.nodes, size) for size in (1, beam, 4 * beam, 16 * beam)})
    medians = [forward_ms(decoder, prompt_tokens, size, _REPEATS) for size in sizes]
    if len(sizes) == 1:
        return ForwardCost(medians[0], 0.0)
    token_ms, fixed_ms = np.polyfit(sizes, medians, 1, w=1 / np.array(medians))
    return ForwardCost(max(0.0, float(fixed_ms)), max(1e-6, float(token_ms)))


def forward_ms(decoder: PackedTreeDecoder, prompt_tokens: int, size: int, repeats: int) -> float:
    """Median milliseconds of a forward of `size` nodes behind a prompt."""
    none, zeros = np.zeros(0, np.int64), np.zeros(size, np.int64)
    first = Step(none, none, np.array([PROMPT]), np.zeros(1, np.int64))
    step = Step(zeros, np.full(size, PROMPT), np.arange(size), zeros)
    times = []
    session = decoder.session(np.zeros(prompt_tokens, np.int64))
    decoder.forward([(session, first)])
    for _ in range(repeats):
        began = time.perf_counter()
        decoder.forward([(session, step)])
        times.append((time.perf_counter() - began) * 1e3)
        session.memory.clear_nodes()  # the prompt is run once: a large model takes long for it
    decoder.release(session)
    return float(np.median(times))
