"""TritonServer: a real server as a context manager, watched while it runs, clean when left."""

import secrets
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from triton_ads.client import RankError
from triton_ads.recipe.names import askable
from triton_ads.server.canary import RankCanary
from triton_ads.server.health import HealthEndpoint
from triton_ads.server.image import find_image_server
from triton_ads.server.install import find_server
from triton_ads.server.launcher import LOG_NAME, LaunchOptions, ServerProcess, ServerStartError
from triton_ads.server.ports import HOST, choose_ports
from triton_ads.server.watchdog import DEFAULT_LIMITS, Watchdog, WatchdogLimits


class TritonServer:
    """The tritonserver of the `nvidia-pytriton` wheel on a model repository.

        with TritonServer(Path("var/repository")) as server:
            client = RankClient(server.grpc_url)

    Ready when entered: every model was loaded and, where the repository has the model `rank`, it has answered.
    Nothing is left when the block ends, nor when this process is killed.

    Args:
        repository: a folder with a folder for each model.
        http_port, grpc_port, metrics_port, health_port: ports on 127.0.0.1; 0: any free one.
        strict: a model that cannot be loaded is an error; else the others are served.
        folder: where the log and the links to the backend go; by default a temporary one, removed when left.
        start_timeout_s: until every model is ready.
        stop_timeout_s: from SIGTERM to SIGKILL.
        limits: periods and bounds of the watchdog.
        arguments: further options of tritonserver.
        address: what it listens on. Beyond this machine, only what clients need is open: the rest (RESTRICTED in
            control.py) wants a key, made anew by each start and kept in `control.key` in `folder`.
        image: the folder of a container image's own server, used in place of the wheel's.
    """

    def __init__(
        self,
        repository: Path,
        *,
        http_port: int = 0,
        grpc_port: int = 0,
        metrics_port: int = 0,
        health_port: int = 0,
        strict: bool = True,
        folder: Path | None = None,
        start_timeout_s: float = 120.0,
        stop_timeout_s: float = 5.0,
        limits: WatchdogLimits = DEFAULT_LIMITS,
        arguments: tuple[str, ...] = (),
        address: str = HOST,
        image: Path | None = None,
    ) -> None:
        self._image = image
        self._health_port = health_port
        self._limits = limits
        self._options = LaunchOptions(
            repository=repository,
            folder=folder or Path(tempfile.gettempdir()) / f"triton-ads-{secrets.token_hex(6)}",
            temporary=folder is None,
            ports={"gRPC": grpc_port, "HTTP": http_port, "metrics": metrics_port},
            strict=strict,
            start_timeout_s=start_timeout_s,
            stop_timeout_s=stop_timeout_s,
            arguments=arguments,
            address=address,
            control_key="" if address == HOST else secrets.token_hex(16),
        )
        self._process: ServerProcess | None = None
        self._watchdog: Watchdog | None = None
        self._health: HealthEndpoint | None = None

    @property
    def process(self) -> ServerProcess:
        """
        Raises:
            RuntimeError: the server was not started.
        """
        if self._process is None:
            raise RuntimeError("the server is not running: use it inside `with`, or call start()")
        return self._process

    @property
    def watchdog(self) -> Watchdog:
        """
        Raises:
            RuntimeError: the server was not started.
        """
        if self._watchdog is None:
            raise RuntimeError("the server is not running: use it inside `with`, or call start()")
        return self._watchdog

    @property
    def models(self) -> tuple[str, ...]:
        return self.process.models

    @property
    def grpc_url(self) -> str:
        """host:port, as clients of gRPC take it."""
        return f"{HOST}:{self.process.ports['gRPC']}"

    @property
    def http_url(self) -> str:
        """host:port, as RankClient takes it."""
        return f"{HOST}:{self.process.ports['HTTP']}"

    @property
    def metrics_url(self) -> str:
        return f"http://{HOST}:{self.process.ports['metrics']}/metrics"

    @property
    def health_url(self) -> str:
        """The watchdog's endpoint; see health.py for its paths."""
        return f"http://{HOST}:{self._health_port}"

    @property
    def log_path(self) -> Path:
        return self._options.folder / LOG_NAME

    def start(self) -> None:
        """Start and wait until everything is ready.

        Raises:
            ServerInstallError: no server can run here.
            PortTakenError: a port is in use; nothing was started.
            ServerStartError: it did not become ready; nothing is left running. The log stays.
        """
        install = find_server() if self._image is None else find_image_server(self._image)
        self._health_port = choose_ports({**self._options.ports, "health": self._health_port})["health"]
        self._options.folder.mkdir(parents=True, exist_ok=True)
        self.log_path.unlink(missing_ok=True)
        self._write_key()
        process = self._process = ServerProcess(self._options, install)
        try:
            process.start()
            repository = self._options.repository
            asked = askable(repository, process.models)
            canary = RankCanary(self.http_url, lambda: askable(repository, process.models)) if asked else None
            if canary is not None:
                canary(self._options.start_timeout_s)
            watchdog = self._watchdog = Watchdog(process, canary, self._limits)
            self._health = HealthEndpoint(watchdog, self._health_port, self._options.address)
            watchdog.start()
            self._health.start()
        except RankError as error:
            self._stop_all()
            raise ServerStartError(
                f"the models are loaded, but a first request failed: {error}\nlog: {self.log_path}"
            ) from None
        except BaseException:
            self._stop_all()
            if not self.log_path.exists():  # else the error names it
                self._remove_folder()
            raise

    def stop(self) -> None:
        """Stop everything; safe to call at any time."""
        self._stop_all()
        self._remove_folder()

    def _stop_all(self) -> None:
        if self._health is not None:
            self._health.stop()
        if self._watchdog is not None:
            self._watchdog.stop()
        if self._process is not None:
            self._process.stop()
        self._health = self._watchdog = self._process = None

    def _write_key(self) -> None:
        file = self._options.control_key_file
        file.unlink(missing_ok=True)
        if self._options.control_key:
            file.touch(mode=0o600)
            file.write_text(self._options.control_key)

    def _remove_folder(self) -> None:
        if self._options.temporary:
            shutil.rmtree(self._options.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
