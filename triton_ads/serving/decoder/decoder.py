"""A packed model ready to decode: its matrices checked by the kernels, its sequences made from here."""

from typing import Literal

from triton_ads.compression.llama_config import FINAL_NORM, HEAD
from triton_ads.compression.packed_model import PackedModel
from triton_ads.kernels import PackedProduct, _native, usable_cores
from triton_ads.kernels.product import ActivationBits
from triton_ads.serving.decoder.errors import DecoderError
from triton_ads.serving.decoder.sequence import Sequence

CacheType = Literal["float16", "float32"]
_LINEAR = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
           "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")  # fmt: skip
_NORMS = ("input_layernorm", "post_attention_layernorm")


class Decoder:
    """Weights alone: any number of sequences, in any number of threads, share one decoder."""

    def __init__(self, model: PackedModel) -> None:
        """Raises DecoderError where the model is larger than the kernels take."""
        self.config = config = model.config
        layers = []
        try:
            for layer in range(config.layers):
                at = f"model.layers.{layer}"
                matrices = [PackedProduct(model.matrices[f"{at}.{name}"]).native for name in _LINEAR]
                layers.append((*matrices, *(model.norms[f"{at}.{name}"] for name in _NORMS)))
            self._native = _native.Decoder(
                hidden=config.hidden,
                heads=config.heads,
                kv_heads=config.kv_heads,
                head_dim=config.head_dim,
                vocabulary=config.vocabulary,
                positions=config.positions,
                epsilon=config.epsilon,
                layers=layers,
                embeddings=model.embeddings_VD.reshape(-1),
                final_norm=model.norms[FINAL_NORM],
                head=PackedProduct(model.matrices[HEAD]).native,
                inverse_frequencies=model.frequencies,
            )
        except ValueError as error:
            raise DecoderError(str(error)) from error

    def sequence(
        self,
        prompt_capacity: int,
        node_capacity: int = 0,
        activation_bits: ActivationBits = 16,
        cache: CacheType = "float16",
        threads: int | None = None,
        path: str = "",
    ) -> Sequence:
        """An empty sequence with room for so many prompt tokens and tree nodes; they are given here and never moved.

        Memory is taken when it is first used. `cache` is how keys and values are stored. `activation_bits`, `threads`
        and `path` as for PackedProduct. Raises DecoderError for capacities and options that cannot be.
        """
        try:
            native = _native.Sequence(
                self._native,
                prompt_capacity=prompt_capacity,
                node_capacity=node_capacity,
                cache=cache,
                activation_bits=activation_bits,
                threads=usable_cores() if threads is None else threads,
                path=path,
            )
        except ValueError as error:
            raise DecoderError(str(error)) from error
        return Sequence(native, self.config.vocabulary)
