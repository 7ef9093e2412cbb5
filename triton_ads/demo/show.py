"""What the demonstration asks of a running server: films ranked for three users, then films generated for them."""

from pathlib import Path

from rich.console import Console

from triton_ads.demo.targets import show_targets
from triton_ads.demo.users import choose_users, show_users
from triton_ads.manifest import Manifest
from triton_ads.recipe.names import ADS, TARGET, prefixed


def show(ranking: Path, targeting: Path, grpc_url: str, http_url: str, console: Console) -> None:
    """
    Args:
        ranking, targeting: releases that the server serves.

    Raises:
        RankError, DemoError: as for `show_users` and `show_targets`.
    """
    users = choose_users(ranking)
    show_users(ranking, users, grpc_url, http_url, console)
    prefix = Manifest.load(targeting, verify_files=False).recipe.serving.prefix
    show_targets(targeting, users[:2], grpc_url, prefixed(TARGET, prefix), prefixed(ADS, prefix), console)
