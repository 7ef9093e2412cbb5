"""What a forward costs here and now: `fixed_ms + token_ms * T`, fitted to a few measured sizes."""

# Legend: R repeats, S sizes.

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

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
    medians = np.median(forward_ms(decoder, prompt_tokens, sizes, _REPEATS), axis=0)
    if len(sizes) == 1:
        return ForwardCost(float(medians[0]), 0.0)
    token_ms, fixed_ms = np.polyfit(sizes, medians, 1, w=1 / medians)
    return ForwardCost(max(0.0, float(fixed_ms)), max(1e-6, float(token_ms)))


def forward_ms(
    decoder: PackedTreeDecoder, prompt_tokens: int, sizes: Sequence[int], repeats: int
) -> NDArray[np.float64]:
    """Milliseconds [R, S] of forwards of so many nodes behind a prompt, one size after the other, again and again.

    With one thread it is the processor time of the caller, which what else runs on the machine hardly changes.
    """
    clock = time.thread_time if decoder.threads == 1 else time.perf_counter
    none = np.zeros(0, np.int64)
    session = decoder.session(np.zeros(prompt_tokens, np.int64))
    decoder.forward([(session, Step(none, none, np.array([PROMPT]), np.zeros(1, np.int64)))])
    times_RS = np.zeros((repeats, len(sizes)))
    for times_S in times_RS:
        for i, size in enumerate(sizes):
            zeros = np.zeros(size, np.int64)
            began = clock()
            decoder.forward([(session, Step(zeros, np.full(size, PROMPT), np.arange(size), zeros))])
            times_S[i] = (clock() - began) * 1e3
            session.memory.clear_nodes()  # the prompt is run once: a large model takes long for it
    decoder.release(session)
    return times_RS
