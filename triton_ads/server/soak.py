"""A soak test: does a server that has warmed up keep memory and open files flat under requests of every kind?

    python -m triton_ads.server.soak --repository var/repository --requests 10000

Memory is sampled at even distances of requests. Growth is the median of the second half of the samples less the median
of the first half: a leak grows all the time, while a buffer that reached its size, or a single odd sample, does not.
Counted are anonymous pages (what a process allocated; pages of mapped files come and go with the page cache) of the
server and its stubs, the files of the server in /dev/shm, and the file descriptors of each process.
"""

import argparse
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from triton_ads.client import RankClient, RankError
from triton_ads.server.processes import anonymous_bytes, open_files, shared_regions
from triton_ads.server.server import TritonServer

SAMPLES = 40
THREADS = 8
#: Bytes that one process may grow by over half of the requests. Measured: requests of one size add 4 kB over 4,000:
#: nothing leaks. Of 1,000 sizes, as here, the allocator still settles: 0.8 MB over 5,000, and less each time.
#: So 10,000 requests show a leak of 300 bytes a request, 2,000 one of 1,500 bytes; most tensors are larger.
ALLOWED = 1.5e6
#: File descriptors by which one process may have more: connections of clients come and go.
ALLOWED_FILES = 4
_PATIENCE_S = 30.0
_MB = 1e6


@dataclass(frozen=True)
class Growth:
    """Memory of one thing over the samples, in bytes; or files, in descriptors."""

    name: str
    samples: tuple[int, ...]

    @property
    def first(self) -> float:
        return float(np.median(self.samples[: len(self.samples) // 2]))

    @property
    def second(self) -> float:
        return float(np.median(self.samples[len(self.samples) // 2 :]))

    @property
    def bytes(self) -> float:
        """From the middle of the first half to the middle of the second, that is, over half of the requests."""
        return self.second - self.first


@dataclass(frozen=True)
class SoakReport:
    """What was seen: every process by name, and shared memory."""

    requests: int
    refused: int
    growths: tuple[Growth, ...]
    files: tuple[Growth, ...] = ()

    def leaks(self, allowed: float = ALLOWED) -> list[str]:
        """What grew by more than `allowed` bytes over half of the requests; empty: memory was flat."""
        return [
            f"{g.name} grew by {g.bytes / _MB:.2f} MB over {self.requests // 2} requests "
            f"({g.first / _MB:.1f} to {g.second / _MB:.1f} MB; allowed {allowed / _MB:.2f} MB)"
            for g in self.growths
            if g.bytes > allowed
        ] + [
            f"{g.name} has {g.second:.0f} files open, {g.first:.0f} before (allowed {ALLOWED_FILES} more)"
            for g in self.files
            if g.bytes > ALLOWED_FILES
        ]


def soak(server: TritonServer, requests: int, warm_up: int, max_candidates: int = 1000) -> SoakReport:
    """Send `warm_up` requests, then `requests` in even steps, sampling memory after each step.

    The mix: both protocols, THREADS at a time, 1 to `max_candidates` candidates, known and unknown users and ads, and
    one request in twenty that is refused.

    Raises:
        RankError: a request that should be answered was not.
    """
    process = server.process
    names = {stub.pid: f"stub of {stub.model} ({stub.pid})" for stub in process.stubs()}
    server_pid = process.server_pid()
    if server_pid is not None:
        names[server_pid] = "tritonserver"
    samples: dict[str, list[int]] = {name: [] for name in (*names.values(), "shared memory")}
    files: dict[str, list[int]] = {name: [] for name in names.values()}
    step = max(1, requests // SAMPLES)
    refused = 0
    with (
        RankClient(server.grpc_url, timeout_s=_PATIENCE_S) as grpc,
        RankClient(server.http_url, "http", timeout_s=_PATIENCE_S) as http,
        ThreadPoolExecutor(THREADS) as pool,
    ):

        def ask(number: int) -> bool:
            return _ask((grpc, http)[number % 2], np.random.default_rng(number), max_candidates)

        list(pool.map(ask, range(warm_up)))
        for start in range(warm_up, warm_up + requests, step):
            refused += sum(pool.map(ask, range(start, start + step)))
            for pid, name in names.items():
                samples[name].append(anonymous_bytes(pid))
                files[name].append(open_files(pid))
            samples["shared memory"].append(sum(shared_regions(process.shm_prefix).values()))
    growths = tuple(Growth(name, tuple(values)) for name, values in samples.items())
    opened = tuple(Growth(name, tuple(values)) for name, values in files.items())
    return SoakReport(step * len(samples["shared memory"]), refused, growths, opened)


def _ask(client: RankClient, random: np.random.Generator, max_candidates: int) -> bool:
    """One request of the mix; True where it was refused, as it should be."""
    candidates = random.integers(0, 2000, int(np.exp(random.uniform(0, np.log(max_candidates)))))
    wrong = random.random() < 0.05
    try:
        client.rank(
            candidates,
            user_id=int(random.integers(0, 1200)),
            deadline_ms=_PATIENCE_S * 1000,  # what is tested is memory, not speed
            tier="no such tier" if wrong else "",
        )
    except RankError as error:
        if not wrong or "insisted_tier" not in str(error):
            raise
        return True
    return False


def main(arguments: list[str], show: Callable[[str], None] = print) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", type=Path, default=Path("var/repository"))
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--warm-up", type=int, default=1_000)
    parser.add_argument("--max-candidates", type=int, default=1_000)
    args = parser.parse_args(arguments)
    with TritonServer(args.repository) as server:
        report = soak(server, args.requests, args.warm_up, args.max_candidates)
    for growth in report.growths:
        first, second = growth.first / _MB, growth.second / _MB
        show(f"{growth.name:32} {first:9.2f} -> {second:9.2f} MB  {growth.bytes / 1e3:+9.1f} kB")
    for opened in report.files:
        show(f"{opened.name:32} {opened.first:9.0f} -> {opened.second:9.0f} files open")
    leaks = report.leaks()
    show(f"{report.requests} requests, {report.refused} refused: " + ("; ".join(leaks) or "flat"))
    return 1 if leaks else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
