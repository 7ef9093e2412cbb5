"""Token mixer with revert: every token sees every other, and the residual stays aligned.

After TokenMixer-Large (arXiv 2602.06563), as iQIYI uses it (3.2.3):

    mixed    = mix(X)                                   token t' holds sub-space t' of all tokens
    mixed    = mixed + SwiGLU_1(RMSNorm_1(mixed))       weights of its own for each mixed token
    Y        = X + SwiGLU_2(RMSNorm_2(mix(mixed)))      back in the order of X, where the residual fits

With as many sub-spaces as tokens mixing is a transposition, so it is its own inverse: revert = mix. No parameter.

Chosen here: the norms stand before their network (the sources disagree on pre- or post-norm) and have one scale for
all tokens; the networks have no biases.
"""

# Legend: T tokens, M rows, D token width, k = D / T width of a sub-space.

from torch import Tensor, nn

from triton_ads.models.per_token import PerTokenSwiGLU

EPSILON = 1e-6  # of RMSNorm


def mix(x_TMD: Tensor) -> Tensor:
    """Swap tokens and sub-spaces: `y[t', :, t k + i] = x[t, :, t' k + i]`, float32 [T, M, D]; its own inverse."""
    tokens = x_TMD.shape[0]
    x_TMTk = x_TMD.unflatten(2, (tokens, -1))
    return x_TMTk.permute(2, 1, 0, 3).flatten(2)


class TokenMixer(nn.Module):
    """One layer, float32 [T, M, D] -> [T, M, D]; `width` must be a multiple of `tokens`."""

    def __init__(self, tokens: int, width: int, hidden: int) -> None:
        super().__init__()
        self.mixed_norm = nn.RMSNorm(width, eps=EPSILON)
        self.mixed_ffn = PerTokenSwiGLU(tokens, width, hidden)
        self.reverted_norm = nn.RMSNorm(width, eps=EPSILON)
        self.reverted_ffn = PerTokenSwiGLU(tokens, width, hidden)

    def forward(self, x_TMD: Tensor) -> Tensor:
        mixed_TMD = mix(x_TMD)
        mixed_TMD = mixed_TMD + self.mixed_ffn(self.mixed_norm(mixed_TMD))
        return x_TMD + self.reverted_ffn(self.reverted_norm(mix(mixed_TMD)))
