"""The watchdog's own HTTP endpoint, for load balancers, people and Prometheus: /live, /ready, /status, /metrics."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from triton_ads.server.ports import HOST
from triton_ads.server.watchdog import Watchdog
from triton_ads.server.watchdog_metrics import METRICS_TYPE, metrics_page


class HealthEndpoint:
    """Answers on `address` from a thread of its own, between `start` and `stop`.

    GET /live    200 while the server is watched; 503 when the watchdog gave up: restart the whole thing
    GET /ready   200 when every model answers; else 503: send no requests
    GET /status  200 and JSON: state, models with the pids of their stubs, counts of events, ports, log
    GET /metrics 200 and the same counts as Prometheus reads them
    """

    def __init__(self, watchdog: Watchdog, port: int, address: str = HOST) -> None:
        class Handler(_Handler):
            dog = watchdog

        self._server = ThreadingHTTPServer((address, port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        if self._thread.ident is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    dog: Watchdog
    timeout = 5  # of a connection that says nothing

    def do_GET(self) -> None:
        if self.path == "/live":
            self._answer(200 if self.dog.live else 503, {"live": self.dog.live})
        elif self.path == "/ready":
            ready = self.dog.ready
            self._answer(200 if ready else 503, {"ready": ready, "reason": "" if ready else self.dog.reason})
        elif self.path == "/status":
            self._answer(200, self.dog.status())
        elif self.path == "/metrics":
            self._send(200, metrics_page(self.dog).encode(), METRICS_TYPE)
        else:
            self._answer(404, {"error": f"unknown path {self.path}; allowed: /live, /ready, /status, /metrics"})

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        self._send(status, (json.dumps(content, indent=1) + "\n").encode(), "application/json")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """A probe a second is not worth a line each."""
