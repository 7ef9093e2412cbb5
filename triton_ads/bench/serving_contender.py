"""The contenders of `bench serving`: how each is started, asked and read. All speak HTTP/1.1 with binary bodies.

One protocol, so that one load generator sends prepared bytes to all of them and costs the same for each.
"""

import importlib.util
import os
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import tritonclient.http as triton
from google.protobuf import text_format
from numpy.typing import NDArray
from tritonclient.grpc import model_config_pb2 as pb

from triton_ads.bench.serving_peers.peer_model import TIER
from triton_ads.client.request import rank_inputs
from triton_ads.export.repository import write_repository
from triton_ads.loadtest.load import Running
from triton_ads.loadtest.requests import post, triton_request
from triton_ads.manifest import Manifest
from triton_ads.recipe.names import RELEASE_LINK
from triton_ads.server import TritonServer
from triton_ads.server.ports import HOST, choose_ports
from triton_ads.server.watchdog import WatchdogLimits

# N candidates, K labels

OURS, NAIVE, UNMIXED, FASTAPI = "ours", "naive on Triton", "unmixed on Triton", "FastAPI"
_FAR_US = 4_000_000_000_000_000  # a deadline in the year 2096: what is measured is time, so nobody gives up before
_START_S = 60.0
_APP = "triton_ads.bench.serving_peers.fastapi_app"
#: Environment of every contender: glibc keeps freed memory. Else the kernel maps each large array anew and zeroes its
#: pages, which on the MovieLens recipe doubles the time of the eager model and costs the naive one a tenth.
_ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 32)}
#: Its question would be a request more, and under a load beyond the server's capacity it would restart the server.
_NO_CANARY = WatchdogLimits(canary_period_s=86_400)


class PeerStartError(RuntimeError):
    """A peer did not become ready."""


@dataclass(frozen=True)
class Ask:
    """What every contender is asked: scores of the candidates for the user."""

    user: int
    candidates_N: NDArray[np.int64]


@dataclass(frozen=True)
class Answer:
    """A response of HTTP."""

    headers: dict[str, str]  # names in lower case
    body: bytes


@dataclass(frozen=True)
class Contender:
    name: str
    #: Starts it; it is ready when entered, and nothing is left of it afterwards.
    serve: Callable[[], AbstractContextManager[Running]]
    #: The bytes of a request, head and body.
    request: Callable[[Ask], bytes]
    #: Scores float32 [N, K] in the order of the request.
    scores: Callable[[Answer, Ask], NDArray[np.float32]]


def ours(name: str, repository: Path, model: str, tier: str) -> Contender:
    """`rank` in either layout, under the name that it has in the repository."""

    def request(ask: Ask) -> bytes:
        inputs = rank_inputs(ask.candidates_N, user_id=ask.user, deadline_us=_FAR_US, tier=tier)
        return triton_request(model, inputs).content

    def scores(answer: Answer, ask: Ask) -> NDArray[np.float32]:
        result = _triton_result(answer)
        ranked_NK, position_N = result.as_numpy("scores")[0], result.as_numpy("positions")[0]
        scores_NK = np.empty_like(ranked_NK)
        scores_NK[position_N] = ranked_NK
        return scores_NK

    return Contender(name, lambda: _triton(repository), request, scores)


def other_layout(release: Path, repository: Path) -> str:
    """Write a repository that serves the release in the layout that its recipe has not; returns which."""
    other: Literal["single", "ensemble"]
    other = "ensemble" if Manifest.load(release, verify_files=False).recipe.serving.layout == "single" else "single"
    write_repository(release, repository, other)
    return other


def triton_peer(name: str, model: str, repository: Path) -> Contender:
    """A peer of `write_peer`."""

    def request(ask: Ask) -> bytes:
        user = np.array([[ask.user]], np.int64)
        return triton_request(model, {"user_id": user, "candidates": ask.candidates_N[None]}).content

    def scores(answer: Answer, ask: Ask) -> NDArray[np.float32]:
        return _triton_result(answer).as_numpy("scores")[0]

    return Contender(name, lambda: _triton(repository), request, scores)


def write_peer(
    model: str, cls: str, release: Path, tier: str, batch: int, repository: Path, instances: int = 1
) -> Path:
    """Write a repository with one peer of serving_peers/; returns its version folder, to which graphs may be added.

    Args:
        batch: requests that Triton's dynamic batcher may give to the model at once.
        instances: processes of the model.
    """
    recipe = Manifest.load(release, verify_files=False).recipe
    config = pb.ModelConfig(
        name=model,
        backend="python",
        max_batch_size=batch,
        input=[
            pb.ModelInput(name="user_id", data_type=pb.TYPE_INT64, dims=[1]),
            pb.ModelInput(name="candidates", data_type=pb.TYPE_INT64, dims=[-1], allow_ragged_batch=True),
        ],
        output=[pb.ModelOutput(name="scores", data_type=pb.TYPE_FP32, dims=[-1, len(recipe.labels)])],
        instance_group=[pb.ModelInstanceGroup(kind=pb.ModelInstanceGroup.KIND_CPU, count=instances)],
        dynamic_batching=pb.ModelDynamicBatching(),
        parameters={TIER: pb.ModelParameter(string_value=tier)},
    )
    version = repository / model / "1"
    version.mkdir(parents=True)
    (repository / model / "config.pbtxt").write_text(text_format.MessageToString(config))
    source = f"from triton_ads.bench.serving_peers.{model} import {cls} as TritonPythonModel\n"
    (version / "model.py").write_text(source)
    (version / RELEASE_LINK).symlink_to(release.resolve(), target_is_directory=True)
    return version


def fastapi_is_installed() -> bool:
    return all(importlib.util.find_spec(package) for package in ("fastapi", "uvicorn", "uvloop", "httptools"))


def fastapi(release: Path, checkpoint: Path, tier: str) -> Contender:
    """The eager module behind FastAPI."""
    labels = len(Manifest.load(release, verify_files=False).recipe.labels)

    def request(ask: Ask) -> bytes:
        return post("/rank", np.concatenate([[ask.user], ask.candidates_N]).astype(np.int64).tobytes())

    def scores(answer: Answer, ask: Ask) -> NDArray[np.float32]:
        return np.frombuffer(answer.body, np.float32).reshape(-1, labels)

    return Contender(FASTAPI, lambda: _uvicorn(release, checkpoint, tier), request, scores)


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _triton(repository: Path) -> Iterator[Running]:
    server = TritonServer(repository, limits=_NO_CANARY)
    with ExitStack() as stack:
        with _environment(_ALLOCATOR):
            stack.enter_context(server)
        yield Running(int(server.http_url.rpartition(":")[2]), server.process.members()[0].session)


@contextmanager
def _uvicorn(release: Path, checkpoint: Path, tier: str) -> Iterator[Running]:
    """A child of the guardian that guards Triton: it ends with this process, however that ends."""
    port = choose_ports({"FastAPI": 0})["FastAPI"]
    app = [sys.executable, "-m", _APP, "--release", str(release), "--checkpoint", str(checkpoint)]
    app += ["--tier", tier, "--port", str(port)]
    guardian = [sys.executable, "-m", "triton_ads.server.guardian", "--launcher", str(os.getpid()), "--grace-s", "5"]
    guardian += ["--shm-prefix", f"triton_ads_fastapi_{secrets.token_hex(8)}"]
    process = subprocess.Popen([*guardian, "--", *app], env=os.environ | _ALLOCATOR, start_new_session=True)
    try:
        _await(f"http://{HOST}:{port}/ready", process)
        yield Running(port, process.pid)
    finally:
        process.terminate()
        process.wait()


def _await(url: str, process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + _START_S
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            if process.poll() is not None:
                raise PeerStartError(f"the FastAPI peer ended with status {process.returncode}") from None
            if time.monotonic() > end:
                raise PeerStartError(f"the FastAPI peer was not ready after {_START_S:g} s") from None
            time.sleep(0.1)


def _triton_result(answer: Answer) -> "triton.InferResult":
    length = answer.headers.get("inference-header-content-length")
    return triton.InferenceServerClient.parse_response_body(
        answer.body, header_length=None if length is None else int(length)
    )
