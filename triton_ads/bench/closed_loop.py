"""A closed loop of clients in a process of its own: each asks, waits for the answer, and asks again.

    python -m triton_ads.bench.closed_loop --url HOST:PORT --release FOLDER --tiers '{"standard": 0.9, "high": 0.1}'

Prints one line of JSON: {tier: [milliseconds of every answer]}.
"""

import argparse
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from triton_ads.client import RankClient

_PATIENCE_MS = 20_000.0  # what is measured is time, so nothing is given up before


class Traffic:
    """Requests for the users and items that a release knows."""

    def __init__(self, release: Path, candidates: int) -> None:
        self._users, self._items = (np.load(release / "store" / side / "ids.npy") for side in ("users", "items"))
        self._candidates = candidates

    def draw(self, random: np.random.Generator) -> tuple[int, NDArray[np.int64]]:
        """A user, and candidates drawn with replacement."""
        return int(random.choice(self._users)), random.choice(self._items, self._candidates)


def closed_loop(
    url: str, clients: int, seconds: float, traffic: Traffic, tiers: dict[str, float], seed: int = 0
) -> dict[str, list[float]]:
    """Milliseconds of every answer by the tier that was insisted on; the first second is left out.

    Args:
        tiers: tier -> its share of the requests.
    """
    times: dict[str, list[float]] = {tier: [] for tier in tiers}
    names, shares = list(tiers), np.array(list(tiers.values()))
    start = time.monotonic()
    failures: list[BaseException] = []
    with RankClient(url, timeout_s=_PATIENCE_MS / 1000, pool=4) as client:

        def ask_again_and_again(number: int) -> None:
            random = np.random.default_rng([seed, number])
            try:
                while time.monotonic() - start < 1 + seconds:
                    tier = names[random.choice(len(names), p=shares)]
                    user, candidates = traffic.draw(random)
                    asked = time.monotonic()
                    client.rank(candidates, user_id=user, tier=tier, deadline_ms=_PATIENCE_MS)
                    if asked - start > 1:
                        times[tier].append((time.monotonic() - asked) * 1e3)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=ask_again_and_again, args=(n,)) for n in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    return times


def in_own_process(
    url: str, clients: int, seconds: float, release: Path, candidates: int, tiers: dict[str, float], seed: int
) -> dict[str, list[float]]:
    """`closed_loop`, so that the clients do not share a Python lock with whoever measures."""
    command = [sys.executable, "-m", "triton_ads.bench.closed_loop", "--url", url, "--clients", str(clients)]
    command += ["--seconds", str(seconds), "--candidates", str(candidates), "--tiers", json.dumps(tiers)]
    command += ["--seed", str(seed), "--release", str(release)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 90, check=False)
    if done.returncode:
        raise RuntimeError(f"the load generator failed: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--release", type=Path, required=True, help="whose users and items to ask for")
    parser.add_argument("--clients", type=int, default=48)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--candidates", type=int, default=256)
    parser.add_argument("--tiers", type=json.loads, default={"standard": 1.0}, help="JSON: tier -> share")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    traffic = Traffic(args.release, args.candidates)
    print(json.dumps(closed_loop(args.url, args.clients, args.seconds, traffic, args.tiers, args.seed)))


if __name__ == "__main__":
    main()
