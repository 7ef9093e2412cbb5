"""A small client for gRPC and HTTP; needs tritonclient and numpy only."""

from triton_ads.client.client import RankClient
from triton_ads.client.errors import RankError, RankTimeoutError, ServerBusyError, ServerUnavailableError
from triton_ads.client.ranking import Ranking
from triton_ads.client.target import RankedTargets, TargetClient, Targets

__all__ = [
    "RankClient",
    "RankError",
    "RankTimeoutError",
    "RankedTargets",
    "Ranking",
    "ServerBusyError",
    "ServerUnavailableError",
    "TargetClient",
    "Targets",
]
