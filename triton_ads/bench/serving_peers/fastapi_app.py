"""The usual first deployment: the row-wise PyTorch module, eager, behind FastAPI and uvicorn, in one process.

    POST /rank   int64 user, int64 candidates [N]   ->   float32 scores [N, K]      both as raw bytes

    python -m triton_ads.bench.serving_peers.fastapi_app --release FOLDER --checkpoint FILE --tier NAME --port N

At its best for one core: bytes instead of JSON, uvloop and httptools, inference_mode, one thread, an endpoint that
runs in the event loop (a pool of threads would add two switches to each request); and whoever starts it tells the
allocator to keep freed memory (triton_ads/bench/serving_contender.py).
"""

import argparse
from pathlib import Path

import numpy as np
import torch
import uvicorn
from fastapi import FastAPI, Request, Response

from triton_ads.bench.serving_peers.lookup import Lookup
from triton_ads.bench.serving_peers.ranker import load_ranker, row_inputs


def build_app(release: Path, checkpoint: Path, tier: str) -> FastAPI:
    """The application; it answers GET /ready when the model is loaded."""
    ranker, lookup = load_ranker(release, checkpoint, tier), Lookup(release)
    app = FastAPI()

    @app.get("/ready")
    async def ready() -> Response:
        return Response()

    @app.post("/rank")
    async def rank(request: Request) -> Response:
        ids = np.frombuffer(await request.body(), np.int64)
        with torch.inference_mode():
            scores_NK = ranker(**row_inputs(lookup, int(ids[0]), ids[1:]))
        return Response(scores_NK.numpy().tobytes(), media_type="application/octet-stream")

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", type=Path, required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--tier", required=True)
    parser.add_argument("--port", type=int, required=True, help="on 127.0.0.1")
    args = parser.parse_args()
    torch.set_num_threads(1)
    uvicorn.run(
        build_app(args.release, args.checkpoint, args.tier),
        host="127.0.0.1",
        port=args.port,
        loop="uvloop",
        http="httptools",
        log_level="error",
        access_log=False,
        timeout_keep_alive=600,  # the load generator keeps its connections
    )


if __name__ == "__main__":
    main()
