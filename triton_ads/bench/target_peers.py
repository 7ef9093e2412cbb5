"""Hugging Face's constrained beam search: as documented, and with the prompt run once.

`generate` with `prefix_allowed_tokens_fn` copies the prompt for every beam before it runs it. The second contender runs
the prompt once and repeats its cache, which few do: it is the fair peer.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LlamaForCausalLM

from triton_ads.trie import Tree


class HuggingFaceBeams:
    """Beam search of one model in one tree."""

    def __init__(self, model: LlamaForCausalLM, tree: Tree, beam: int) -> None:
        self._model, self._tree, self._beam = model, tree, beam

    def documented(self, prompt: NDArray[np.int64]) -> dict[tuple[int, ...], float]:
        """Identifier -> log-probability."""
        return self._generate(prompt)

    def prefilled(self, prompt: NDArray[np.int64]) -> dict[tuple[int, ...], float]:
        """The same, with one run of the prompt, all but its last token."""
        with torch.inference_mode():
            cache = self._model(torch.from_numpy(prompt)[None, :-1], use_cache=True, logits_to_keep=1).past_key_values
        cache.batch_repeat_interleave(self._beam)
        return self._generate(prompt, cache=cache)

    def _generate(self, prompt: NDArray[np.int64], **more: object) -> dict[tuple[int, ...], float]:
        tree, start = self._tree, len(prompt)

        def allowed(_: int, tokens: torch.Tensor) -> list[int]:
            node = tree.node_of(tokens[start:].tolist())
            assert node is not None  # only allowed tokens were chosen
            return tree.children(np.array([node])).token_E.tolist()

        found = self._model.generate(
            torch.from_numpy(prompt)[None],
            attention_mask=torch.ones(1, start, dtype=torch.int64),
            num_beams=self._beam,
            num_return_sequences=self._beam,
            max_new_tokens=tree.length,
            min_new_tokens=tree.length,
            do_sample=False,
            length_penalty=0.0,
            prefix_allowed_tokens_fn=allowed,
            return_dict_in_generate=True,
            output_scores=True,
            eos_token_id=None,
            pad_token_id=0,
            **more,
        )
        identifiers = [tuple(row[start:].tolist()) for row in found.sequences]
        return dict(zip(identifiers, found.sequences_scores.tolist(), strict=True))
