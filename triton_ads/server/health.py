"""The watchdog's own HTTP endpoint, for load balancers and people: /live, /ready, /status."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from triton_ads.server.ports import HOST
from triton_ads.server.watchdog import Watchdog


class HealthEndpoint:
    """Answers on HOST from a thread of its own, between `start` and `stop`.

    GET /live    200 while the server is watched; 503 when the watchdog gave up: restart the whole thing
    GET /ready   200 when every model answers; else 503: send no requests
    GET /status  200 and JSON: state, models with the pids of their stubs, counts of events, ports, log
    """

    def __init__(self, watchdog: Watchdog, port: int) -> None:
        class Handler(_Handler):
            dog = watchdog

        self._server = ThreadingHTTPServer((HOST, port), Handler)
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
        else:
            self._answer(404, {"error": f"unknown path {self.path}; allowed: /live, /ready, /status"})

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        body = (json.dumps(content, indent=1) + "\n").encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """A probe a second is not worth a line each."""
