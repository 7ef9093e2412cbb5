"""docker-compose.yml: what its containers may do and reach, for every profile; and, where there is an engine, a run."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from triton_ads.cli import parse
from triton_ads.commands.serve import GRPC_PORT, HEALTH_PORT, HTTP_PORT, METRICS_PORT

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "images" / "Dockerfile"
BASE_IMAGE = os.environ.get("TRITON_ADS_BASE_IMAGE", "python:3.11-slim-bookworm")
SERVERS = ("server-try", "server-cpu", "server-gpu")
SKIPPED = 77  # the exit status of scripts/compose_test.sh for that

_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


def load() -> dict[str, Any]:
    """The file as Compose reads it without any variable set; YAML itself resolves anchors and merges."""
    text = _VARIABLE.sub(lambda match: match.group(2), (ROOT / "docker-compose.yml").read_text())
    assert "${" not in text, "a variable without a default"
    return dict(yaml.safe_load(text))


SERVICES: dict[str, Any] = load()["services"]


def test_each_profile_has_a_server_and_what_watches_it() -> None:
    of = {p: {n for n, s in SERVICES.items() if p in s["profiles"]} for p in ("try", "cpu", "gpu", "load")}
    assert of == {
        "try": {"build-try", "server-try", "prometheus", "grafana"},
        "cpu": {"build-ngc", "server-cpu", "prometheus", "grafana"},
        "gpu": {"build-ngc", "server-gpu", "prometheus", "grafana"},
        "load": {"locust"},
    }


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_may_do_as_little_as_can_be(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] and service["cap_drop"] == ["ALL"] and service["init"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["mem_limit"] and service["cpus"] and service["pids_limit"]
    assert "privileged" not in service and "cap_add" not in service and "network_mode" not in service


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_open_on_this_machine_alone(name: str) -> None:
    for port in SERVICES[name].get("ports", []):
        assert port.startswith("127.0.0.1:"), port


@pytest.mark.parametrize("name", SERVICES)
def test_images_have_a_version_and_run_as_nobody_in_particular(name: str) -> None:
    service = SERVICES[name]
    if "build" not in service:
        assert re.search(r":v?\d+\.\d+\.\d+$", service["image"]), service["image"]
        assert service["user"].split(":")[0] not in ("0", "root")
        return
    base = service["build"]["args"]["BASE_IMAGE"]
    assert re.search(r":\d+\.\d+-\w+", base), base
    stage = DOCKERFILE.read_text().split(f" AS {service['build']['target']}\n")[1].split("\nFROM ")[0]
    assert re.findall(r"^USER (\S+)$", stage, re.MULTILINE) == ["10001"]


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_is_started_with_options_that_there_are(name: str) -> None:
    service = SERVICES[name]
    options = parse([shlex.quote(word) for word in service["command"]])
    ports = (options.http_port, options.grpc_port, options.metrics_port, options.health_port)
    assert ports == (HTTP_PORT, GRPC_PORT, METRICS_PORT, HEALTH_PORT)
    assert [port.rsplit(":", 1)[1] for port in service["ports"]] == [str(port) for port in ports]
    assert options.address == "0.0.0.0"
    assert (options.tritonserver is None) == (name == "server-try")
    assert any(mount.startswith(f"{options.folder}:") for mount in service["tmpfs"])
    assert service["volumes"] == ["models:/var/lib/triton-ads:ro"]
    # The guardian's time to clean up comes on top of that of the requests.
    assert int(service["stop_grace_period"].rstrip("s")) >= options.stop_timeout + 10


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_starts_when_its_models_are_built_and_is_healthy_when_the_watchdog_says_so(name: str) -> None:
    service = SERVICES[name]
    ((build, needs),) = service["depends_on"].items()
    assert needs == {"condition": "service_completed_successfully"}
    assert SERVICES[build]["volumes"] == ["models:/var/lib/triton-ads"]
    # The same base builds and serves: engines that depend on a version fit.
    assert SERVICES[build]["build"]["args"] == service["build"]["args"]
    assert f"127.0.0.1:{HEALTH_PORT}/ready" in service["healthcheck"]["test"][-1]
    options = parse([shlex.quote(word) for word in SERVICES[build]["command"]])
    assert (ROOT / options.recipe).is_file() and str(options.var) == "/var/lib/triton-ads"


def test_only_the_gpu_is_given_one() -> None:
    devices = SERVICES["server-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert devices == [{"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}]
    assert "deploy" not in SERVICES["server-cpu"]


def test_prometheus_and_grafana_find_what_they_read() -> None:
    aliases = {alias for name in SERVERS for alias in SERVICES[name]["networks"]["default"]["aliases"]}
    scraped = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    targets = [target for job in scraped for each in job["static_configs"] for target in each["targets"]]
    assert aliases == {"server"} and targets == [f"server:{METRICS_PORT}", f"server:{HEALTH_PORT}"]
    for name in ("prometheus", "grafana"):
        for volume in SERVICES[name]["volumes"]:
            assert not volume.startswith(".") or (ROOT / volume.split(":")[0]).is_dir(), volume
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (ROOT / "deploy" / "grafana" / "dashboards" / Path(home).name).is_file()
    provisioning = ROOT / "deploy" / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())["datasources"]
    assert (source["uid"], source["url"]) == ("prometheus", "http://prometheus:9090")


@pytest.mark.parametrize("profile", ["try", "cpu", "gpu", "load"])
def test_compose_itself_takes_every_profile(profile: str) -> None:
    command = ["docker", "compose"]
    if shutil.which("docker") is None or subprocess.run([*command, "version"], capture_output=True).returncode:
        command = ["docker-compose"]
        if shutil.which(command[0]) is None:
            pytest.skip("neither docker compose nor docker-compose here")
    done = subprocess.run(
        [*command, "--profile", profile, "config", "--quiet"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_what_the_images_copy_is_in_the_build_context() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE.read_text(), re.MULTILINE)
        for source in line.split()[:-1]
    }
    assert copied == kept
    assert all((ROOT / source).exists() for source in copied)


@pytest.mark.server
def test_the_profile_try_from_build_to_stop() -> None:
    """Only where an engine answers and has the base image, so that no test fetches one."""
    if shutil.which("docker") is None or subprocess.run(["docker", "info"], capture_output=True).returncode:
        pytest.skip("no Docker engine answers")
    if subprocess.run(["docker", "image", "inspect", BASE_IMAGE], capture_output=True).returncode:
        pytest.skip(f"the Docker engine has no image {BASE_IMAGE}: `docker pull` it, or scripts/compose_base.sh")
    done = subprocess.run([ROOT / "scripts" / "compose_test.sh", BASE_IMAGE], capture_output=True, text=True)
    if done.returncode == SKIPPED:
        pytest.skip(done.stdout.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
