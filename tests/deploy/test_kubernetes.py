"""Kubernetes: every object fits its schema; what the server needs is there; names fit each other."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from triton_ads.commands.serve import GRPC_PORT, HEALTH_PORT, HTTP_PORT, METRICS_PORT

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
TARGETS = ("cpu", "gpu")
VERSION = "1.34"  # the oldest whose schema has everything that is used: preStop.sleep is stable there

Object = dict[str, Any]


def objects(text: str) -> list[Object]:
    return [each for each in yaml.safe_load_all(text) if each]


def files() -> list[Path]:
    """Those with complete objects, named as resources; patches have only what they change."""
    found = []
    for file in FOLDER.glob("**/kustomization.yaml"):
        resources = yaml.safe_load(file.read_text())["resources"]
        found += [file.parent / name for name in resources if name.endswith(".yaml")]
    return sorted(found)


@cache
def build(target: str) -> str:
    """What `kubectl apply -k` would send."""
    program = shutil.which("kustomize") or shutil.which("kubectl")
    if program is None:
        pytest.skip("neither kustomize nor kubectl here: the overlays are not put together")
    verb = "build" if Path(program).name == "kustomize" else "kustomize"
    command = [program, verb, str(FOLDER / "overlays" / target)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def the(kind: str, target: str, name: str = "triton-ads") -> Object:
    (found,) = [o for o in objects(build(target)) if (o["kind"], o["metadata"]["name"]) == (kind, name)]
    return found


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(FOLDER)))
def test_every_object_fits_its_schema(path: Path) -> None:
    for each in objects(path.read_text()):
        kubernetes_validate.validate(each, VERSION, strict=True)


def test_the_schemas_find_mistakes() -> None:
    (budget,) = objects((FOLDER / "base" / "disruption.yaml").read_text())
    budget["spec"]["maxUnavailible"] = 1
    with pytest.raises(kubernetes_validate.ValidationError, match="maxUnavailible"):
        kubernetes_validate.validate(budget, VERSION, strict=True)


@pytest.mark.parametrize("target", TARGETS)
def test_every_object_of_an_overlay_fits_its_schema(target: str) -> None:
    found = objects(build(target))
    kinds = ["Deployment", "HorizontalPodAutoscaler", "Job", "NetworkPolicy", "PersistentVolumeClaim"]
    assert sorted(o["kind"] for o in found) == [*kinds, "PodDisruptionBudget", *["Service"] * 3]
    for each in found:
        kubernetes_validate.validate(each, VERSION, strict=True)


@pytest.mark.parametrize("target", TARGETS)
def test_every_container_may_do_as_little_as_can_be(target: str) -> None:
    for pod in (the("Deployment", target), the("Job", target, "triton-ads-build")):
        spec = pod["spec"]["template"]["spec"]
        assert spec["automountServiceAccountToken"] is False
        security = spec["securityContext"]
        assert security["runAsNonRoot"] and security["runAsUser"] == 10001
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in [*spec.get("initContainers", []), *spec["containers"]]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("target", TARGETS)
def test_probes_and_services_meet_the_ports_of_the_server(target: str) -> None:
    deployment = the("Deployment", target)
    (server,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in server["ports"]}
    assert ports == {"http": HTTP_PORT, "grpc": GRPC_PORT, "metrics": METRICS_PORT, "health": HEALTH_PORT}
    paths = {name: server[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")}
    assert paths == {
        "startup": {"path": "/ready", "port": "health"},
        "readiness": {"path": "/ready", "port": "health"},
        "liveness": {"path": "/live", "port": "health"},
    }
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    for service in [o for o in objects(build(target)) if o["kind"] == "Service"]:
        assert service["spec"]["selector"].items() <= labels.items()
        assert all(ports[port["targetPort"]] == port["port"] for port in service["spec"]["ports"])
    for kind in ("PodDisruptionBudget", "NetworkPolicy"):
        spec = the(kind, target)["spec"]
        assert spec.get("selector", spec.get("podSelector"))["matchLabels"].items() <= labels.items()
    assert the("Service", target)["spec"]["clusterIP"] == "None"  # headless: clients balance


@pytest.mark.parametrize("target", TARGETS)
def test_a_stop_is_given_the_time_that_it_may_take(target: str) -> None:
    pod = the("Deployment", target)["spec"]["template"]["spec"]
    (server,) = pod["containers"]
    (stop,) = [int(m.group(1)) for a in server["args"] if (m := re.fullmatch(r"--stop-timeout=(\d+)", a))]
    clean_up = 10  # ServerProcess.stop waits for its guardian that much longer
    assert pod["terminationGracePeriodSeconds"] > server["lifecycle"]["preStop"]["sleep"]["seconds"] + stop + clean_up


@pytest.mark.parametrize("target", TARGETS)
def test_autoscaling_asks_for_metrics_that_the_adapter_makes(target: str) -> None:
    rules = yaml.safe_load((FOLDER / "metrics" / "adapter.yaml").read_text())["rules"]["custom"]
    made = {rule["name"]["as"] for rule in rules}
    asked = [
        m["pods"]["metric"]["name"] for m in the("HorizontalPodAutoscaler", target)["spec"]["metrics"] if "pods" in m
    ]
    assert asked and set(asked) <= made
    reference = the("HorizontalPodAutoscaler", target)["spec"]["scaleTargetRef"]
    assert reference["name"] == the("Deployment", target)["metadata"]["name"]


def test_only_the_gpu_asks_for_one() -> None:
    limits = {
        t: the("Deployment", t)["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] for t in TARGETS
    }
    assert "nvidia.com/gpu" not in limits["cpu"]
    assert limits["gpu"]["nvidia.com/gpu"] == "1"
