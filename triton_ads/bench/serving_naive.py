"""The naive peer of `bench serving` by itself, on all cores: what `triton-ads loadtest --naive` puts under load."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from triton_ads.bench import serving_contender as contenders
from triton_ads.bench import serving_requests as requests
from triton_ads.bench.serving import PEER_BATCH, ask_once, check_scores
from triton_ads.bench.serving_contender import NAIVE, Contender
from triton_ads.bench.serving_peers.ranker import export_rows, load_ranker
from triton_ads.loadtest.load import Running
from triton_ads.pipeline.layout import Layout

MODEL = "naive"


@contextmanager
def naive_server(
    layout: Layout, release: Path, tier: str, longest: int, instances: int
) -> Iterator[tuple[Contender, Running]]:
    """The row-wise model of a tier behind Triton, started, and checked against the PyTorch module.

    Args:
        layout: of the build that made the release; it has the checkpoint.
        longest: candidates of a request at most.
        instances: processes of the model, one thread each; as many as there are cores are best.

    Raises:
        FileNotFoundError: the build has no checkpoint.
        DifferentScoresError: the checkpoint is not the release's.
    """
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="triton-ads-naive-") as folder:
        repository = Path(folder) / "repository"
        ranker = load_ranker(release, layout.work("train", tier) / "checkpoint.pt", tier)
        version = contenders.write_peer(MODEL, "NaiveModel", release, tier, PEER_BATCH, repository, instances)
        export_rows(ranker, release, version)
        contender = contenders.triton_peer(NAIVE, MODEL, repository)
        samples = requests.samples(release, longest)
        right = requests.right_scores(ranker, release, samples)
        with contender.serve() as server:
            found = [contender.scores(ask_once(server.port, contender.request(ask)), ask) for ask in samples]
            check_scores(NAIVE, samples, found, right)
            yield contender, server
