"""Generating on the CPU: a packed model, the sequences that it decodes, its tokenizer.

    decoder = Decoder(read_packed_model(folder))
    sequence = decoder.sequence(prompt_capacity=512, node_capacity=256)
    logits_1V = sequence.extend(tokenizer.encode("An ad for"))       # prompt
    logits_2V = sequence.grow([260, 281], parents=[-1, -1])          # two beams: nodes 0 and 1 of the token tree
    logits_1V = sequence.grow([1172], parents=[1])                   # node 2 goes on from node 1
    logits_2V = forward([Part(sequence, [17], [2]), Part(other, prompt)])   # one pass for two sequences

One call is one forward pass in C++ (kernels/cpu/forward.cpp): no PyTorch, no Python between the operators.
"""

from triton_ads.serving.decoder.decoder import Decoder
from triton_ads.serving.decoder.errors import DecoderError
from triton_ads.serving.decoder.forward import Candidates, Part, forward
from triton_ads.serving.decoder.sequence import Sequence
from triton_ads.serving.decoder.tokenizer import Tokenizer

__all__ = ["Candidates", "Decoder", "DecoderError", "Part", "Sequence", "Tokenizer", "forward"]
