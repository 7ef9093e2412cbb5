"""Models that take their time, without any use of a processor: what a server does that is asked more than it can."""

from pathlib import Path

_SLOW = """

import time


class TritonPythonModel(TritonPythonModel):
    def build(self, folder, counters):
        service = super().build(folder, counters)
        answer = service.answer

        def slow(requests):
            if requests[0].decision.tier in {tiers!r}:
                time.sleep({seconds} * len(requests))
            return answer(requests)

        service.answer = slow
        return service
"""


def slow_down(rank: Path, seconds: float, *tiers: str) -> None:
    """Let version 1 of a model of the layout `single` take `seconds` for each request that one of the tiers answers."""
    source = rank / "1" / "model.py"
    source.write_text(source.read_text() + _SLOW.format(tiers=tiers, seconds=seconds))
