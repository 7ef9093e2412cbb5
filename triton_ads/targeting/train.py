"""Training of a generator: a small llama that continues prompts with identifiers.

Nothing in it is ours but the data: the model is Hugging Face's LlamaForCausalLM, and what is written is a checkpoint
as any other llama-family model has it, so that another can take its place.
"""

# Legend: M examples of a batch, P tokens of the longest of them, V vocabulary.

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch.optim.lr_scheduler import LambdaLR
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils.logging import disable_progress_bar

from triton_ads.features.prompt import BOS, PAD
from triton_ads.progress import StageProgress
from triton_ads.recipe.target import Generator, GeneratorTraining
from triton_ads.targeting.examples import Example, ExampleMaker
from triton_ads.training.optimisers import rate_factor

_NOT_LEARNED = -100  # what cross-entropy leaves out


def train_generator(
    maker: ExampleMaker,
    journeys: Sequence[Sequence[int]],
    vocabulary: int,
    positions: int,
    shape: Generator,
    settings: GeneratorTraining,
    folder: Path,
) -> None:
    """Train and write a checkpoint (config.json, model.safetensors) into `folder`.

    The same seed, machine and thread count give the same weights.

    Args:
        journeys: of the training part.
        vocabulary: tokens, words and identifiers included.
        positions: of the longest prompt with its answer.
    """
    torch.manual_seed(settings.seed)
    random = np.random.default_rng(settings.seed)
    model = new_generator(vocabulary, positions, shape)
    decayed = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=settings.learning_rate, betas=(0.9, 0.98))
    epochs = [_batches(maker.epoch(journeys, random), settings.batch_size, random) for _ in range(settings.epochs)]
    steps = sum(map(len, epochs))
    schedule = LambdaLR(optimiser, lambda step: rate_factor(step, steps))
    smooth: float | None = None
    model.train()
    with StageProgress("train generator", steps) as progress:
        for batches in epochs:
            for batch in batches:
                tokens_MP, labels_MP = _padded(batch)
                loss = _loss(model, _disturbed(tokens_MP, labels_MP, vocabulary, settings.dropout, random), labels_MP)
                optimiser.zero_grad(set_to_none=True)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimiser.step()
                schedule.step()
                smooth = loss.item() if smooth is None else 0.95 * smooth + 0.05 * loss.item()
                progress.advance(f"loss {smooth:.4f}")
    model.eval()
    disable_progress_bar()  # of a second, in the middle of a log
    model.save_pretrained(folder)


def new_generator(vocabulary: int, positions: int, shape: Generator) -> LlamaForCausalLM:
    """An untrained llama; the output head shares the embeddings."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=shape.width,
            intermediate_size=shape.feed_forward,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.kv_heads,
            max_position_embeddings=positions,
            bos_token_id=BOS,
            eos_token_id=None,
            pad_token_id=PAD,
            tie_word_embeddings=True,
        )
    )


def _batches(examples: list[Example], size: int, random: np.random.Generator) -> list[list[Example]]:
    """Batches of examples of about the same length, in random order: little is padded."""
    chunks = [examples[start : start + 50 * size] for start in range(0, len(examples), 50 * size)]
    batches = []
    for chunk in chunks:
        ordered = sorted(chunk, key=lambda example: len(example.tokens))
        batches += [ordered[start : start + size] for start in range(0, len(ordered), size)]
    return [batches[i] for i in random.permutation(len(batches))]


def _padded(batch: list[Example]) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and labels int64 [M, P]; padding lies behind, where causal attention does not see it."""
    longest = max(len(example.tokens) for example in batch)
    tokens_MP = torch.full((len(batch), longest), PAD)
    labels_MP = torch.full((len(batch), longest), _NOT_LEARNED)
    for row, example in enumerate(batch):
        tokens = torch.from_numpy(example.tokens)
        tokens_MP[row, : len(tokens)] = tokens
        labels_MP[row, example.learn_from : len(tokens)] = tokens[example.learn_from :]
    return tokens_MP, labels_MP


def _disturbed(
    tokens_MP: torch.Tensor, labels_MP: torch.Tensor, vocabulary: int, share: float, random: np.random.Generator
) -> torch.Tensor:
    """Some of what is read is replaced by any token, so that a journey is not learned by heart."""
    chosen_MP = torch.from_numpy(random.random(tuple(tokens_MP.shape)) < share) & (tokens_MP > BOS)
    other_MP = torch.from_numpy(random.integers(BOS + 1, vocabulary, tuple(tokens_MP.shape)))
    return torch.where(chosen_MP, other_MP, tokens_MP)


def _loss(model: LlamaForCausalLM, tokens_MP: torch.Tensor, labels_MP: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the next token, over what is learned."""
    hidden_MPD = model.model(tokens_MP[:, :-1]).last_hidden_state
    wanted_MP = labels_MP[:, 1:]
    learned_MP = wanted_MP != _NOT_LEARNED
    logits_LV = model.lm_head(hidden_MPD[learned_MP])
    return F.cross_entropy(logits_LV, wanted_MP[learned_MP])
