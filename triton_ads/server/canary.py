"""The canary: a question that goes through every model of every chain, asked by the watchdog."""

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor

from triton_ads.client import RankClient, RankError, ServerBusyError, TargetClient
from triton_ads.recipe.names import TARGET

#: An id that no user and no ad has; the server counts it as out of vocabulary.
NOBODY = -(2**62)


class RankCanary:
    """Asks every `rank` to score one unknown ad for an unknown user, and every `target` for one ad.

    Args:
        http_url: host:port.
        askable: their names, asked for each time: a server that was started again may serve others.
    """

    def __init__(self, http_url: str, askable: Callable[[], Collection[str]]) -> None:
        self.http_url, self.askable = http_url, askable

    def __call__(self, timeout_s: float) -> None:
        """
        Raises:
            RankError: no answer, an error, or not in time; the message names whom it asked where there are several.
        """
        asked = self.askable()
        if not asked:
            return
        # At once, so that one that hangs takes no time from the others.
        with ThreadPoolExecutor(len(asked)) as pool:
            found = list(pool.map(lambda model: _error_of(self._ask_of(model), model, timeout_s), asked))
        problems = {model: error for model, error in zip(asked, found, strict=True) if error is not None}
        if problems:
            several = len(asked) > 1
            raise RankError(
                "; ".join(f"{name}: {error}" if several else str(error) for name, error in problems.items())
            )

    def _ask_of(self, model: str) -> Callable[[str, float], None]:
        return self._target if model == TARGET or model.endswith(f"_{TARGET}") else self._rank

    # A connection of its own each time: what is tested is whether a new client would be answered.

    def _rank(self, model: str, timeout_s: float) -> None:
        with RankClient(self.http_url, "http", model=model, timeout_s=timeout_s) as client:
            client.rank([NOBODY], user_id=NOBODY, deadline_ms=timeout_s * 1000)

    def _target(self, model: str, timeout_s: float) -> None:
        with TargetClient(self.http_url, "http", model=model, timeout_s=timeout_s) as client:
            client.target(user_id=NOBODY, top=1, deadline_ms=timeout_s * 1000)


def _error_of(ask: Callable[[str, float], None], model: str, timeout_s: float) -> RankError | None:
    try:
        ask(model, timeout_s)
    except ServerBusyError:
        return None  # full, which it says at once: not sick
    except RankError as error:
        return error
    return None
