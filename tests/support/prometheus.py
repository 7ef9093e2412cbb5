"""A real Prometheus on this machine, for tests of what it reads and answers."""

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

CONFIG = Path(__file__).parents[2] / "deploy" / "prometheus" / "prometheus.yml"
SCRAPE_S = 0.5


def needs(program: str) -> str:
    """The path of a program, or the test is skipped and says so."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"no {program} here (Debian and Ubuntu: apt-get install prometheus)")
    return found


@contextmanager
def prometheus(folder: Path, targets: Mapping[str, str]) -> Iterator[str]:
    """Prometheus with our configuration, but for where the jobs' targets are and how often they are read.

    Yields:
        Its address, ready to be asked.
    """
    program = needs("prometheus")
    config = yaml.safe_load(CONFIG.read_text())
    config["global"] |= {"scrape_interval": f"{int(SCRAPE_S * 1000)}ms", "scrape_timeout": f"{int(SCRAPE_S * 1000)}ms"}
    config["rule_files"] = [str(CONFIG.with_name(name)) for name in config["rule_files"]]
    for job in config["scrape_configs"]:
        job["static_configs"] = [{"targets": [targets[job["job_name"]]]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [program, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
    try:
        end = time.monotonic() + 30
        while not _ready(url):
            assert process.poll() is None and time.monotonic() < end, (folder / "log").read_text()[-2000:]
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(20)


def _ready(url: str) -> bool:
    try:
        return bool(urllib.request.urlopen(f"{url}/-/ready", timeout=1).status == 200)
    except (urllib.error.URLError, OSError):
        return False


def ask(url: str, query: str) -> list[dict[str, Any]]:
    """The series that a query returns now, each with `metric` (its labels) and `value` (time, text)."""
    with urllib.request.urlopen(f"{url}/api/v1/query?{urllib.parse.urlencode({'query': query})}", timeout=10) as page:
        answer = json.load(page)
    assert answer["status"] == "success", answer
    return list(answer["data"]["result"])
