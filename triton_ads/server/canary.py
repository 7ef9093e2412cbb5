"""The canary: a question that goes through every model of the chain, asked by the watchdog."""

from triton_ads.client import RankClient

#: An id that no user and no ad has; the server counts it as out of vocabulary.
_NOBODY = -(2**62)


class RankCanary:
    """Asks the model `rank` to score one unknown ad for an unknown user."""

    model = "rank"

    def __init__(self, http_url: str) -> None:
        self.http_url = http_url

    def __call__(self, timeout_s: float) -> None:
        """
        Raises:
            RankError: no answer, an error, or not in time.
        """
        # A connection of its own each time: what is tested is whether a new client would be answered.
        with RankClient(self.http_url, "http", timeout_s=timeout_s) as client:
            client.rank([_NOBODY], user_id=_NOBODY, deadline_ms=timeout_s * 1000)
