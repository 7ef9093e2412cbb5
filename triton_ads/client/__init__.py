"""A small client for gRPC and HTTP; needs tritonclient and numpy only."""

from triton_ads.client.client import RankClient
from triton_ads.client.errors import RankError, RankTimeoutError, ServerUnavailableError
from triton_ads.client.ranking import Ranking

__all__ = ["RankClient", "RankError", "RankTimeoutError", "Ranking", "ServerUnavailableError"]
