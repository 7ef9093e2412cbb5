"""Searches that benchmark `targeting` compares: step by step, and the modes that are served."""

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from triton_ads.compression.packed_model import PackedModel
from triton_ads.recipe.target import Target
from triton_ads.serving.decoder import Decoder
from triton_ads.serving.target.ads import Asked
from triton_ads.serving.target.best_first import best_first
from triton_ads.serving.target.calibrate import calibrate
from triton_ads.serving.target.packed import PackedTreeDecoder
from triton_ads.serving.target.search import Search, search
from triton_ads.serving.target.together import Request, run_together
from triton_ads.serving.target.trigger import Trigger
from triton_ads.trie import Blocked, Tree

#: `steps`: mode beam, one forward a level to the end.
Kind = Literal["steps", "beam", "exact", "global"]
Answer = Callable[[Asked], NDArray[np.int64]]


def searching(tree: Tree, model: PackedModel, prompt_tokens: int, target: Target, kind: Kind) -> Answer:
    """Request -> ads, best first; one thread, calibrated here.

    Args:
        prompt_tokens: of the longest prompt.
    """
    decoder = PackedTreeDecoder(Decoder(model), prompt_tokens, target.max_nodes)
    trigger = Trigger(
        tree,
        calibrate(decoder, prompt_tokens, target.beam),
        most=target.max_nodes // 2,
        at=0 if kind == "steps" else None,
        steady=kind == "exact",
    )

    def one(asked: Asked) -> Search:
        blocked = Blocked(tree)
        blocked.block(asked.withheld_N.tolist())
        beam = max(target.beam, asked.top)
        if kind == "global":
            return best_first(tree, blocked, beam)
        return search(tree, blocked, trigger, beam, "exact" if kind == "exact" else "beam")

    def answer(asked: Asked) -> NDArray[np.int64]:
        session = decoder.session(asked.prompt_P)
        request = Request(session, one(asked))
        run_together(decoder, [request])
        decoder.release(session)
        assert request.found is not None  # nothing stops it
        return tree.ad_of(request.found.node_B)[: asked.top]

    return answer
