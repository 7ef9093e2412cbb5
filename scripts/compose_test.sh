#!/usr/bin/env bash
# Runs the profile `try` of docker-compose.yml on a real Docker engine, from the build of the images to the stop: the
# README's curl, metrics, what a container may not do, a killed process of a model, a stop under load, a second start.
#
#   scripts/compose_test.sh                     base image and packages from where Docker and pip take them
#   scripts/compose_test.sh BASE_IMAGE          another base; scripts/compose_base.sh makes one where none can be pulled
#   KEEP=1 COMPOSE_PROJECT_NAME=x scripts/compose_test.sh ...    leaves the volume too, for a run of the same name
#
# PIP_INDEX_URL and PIP_EXTRA_INDEX_URL go into the builds where they are set. Prometheus and Grafana are not started:
# tests/deploy asks a Prometheus of its own every query. The recipe is the default one, trained on its last 4,000
# examples only. The first time takes about ten minutes, most of it PyTorch's installation, and 5 GB. Exit status 77:
# skipped, with the reason.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ $# -gt 0 ]] && export TRITON_ADS_BASE_IMAGE=$1

skip() {
    echo "compose_test: SKIPPED: $1"
    exit 77
}
fail() {
    echo "compose_test: FAILED: $1" >&2
    exit 1
}
say() { echo "compose_test: $1 ($SECONDS s)"; }

command -v docker >/dev/null || skip "no docker here"
docker info >/dev/null 2>&1 || skip "no Docker engine answers"
compose=(docker compose)
if ! docker compose version >/dev/null 2>&1; then
    command -v docker-compose >/dev/null || skip "neither docker compose nor docker-compose here"
    compose=(docker-compose)
    # The first docker-compose builds by the engine's classic builder unless told.
    export COMPOSE_DOCKER_CLI_BUILD=1 DOCKER_BUILDKIT=1
fi
quick=$(mktemp -d)
chmod 755 "$quick"  # the container's user is another
sed 's/^training:$/&\n  max_examples: 4000/' build/recipes/movielens.yaml >"$quick/movielens.yaml"
grep -q max_examples "$quick/movielens.yaml" || fail "build/recipes/movielens.yaml has no section training"
echo "{services: {build-try: {volumes: ['$quick:/quick:ro']}}}" >"$quick/compose.yml"
export TRITON_ADS_RECIPE=/quick/movielens.yaml
compose+=(--file docker-compose.yml --file "$quick/compose.yml")
compose+=(--project-name "${COMPOSE_PROJECT_NAME:-triton-ads-test-$$}" --profile try)

read -r http grpc metrics health < <(python3 - <<'END'
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]
print(*(s.getsockname()[1] for s in sockets))
END
)
export TRITON_ADS_HTTP_PORT=$http TRITON_ADS_GRPC_PORT=$grpc TRITON_ADS_METRICS_PORT=$metrics TRITON_ADS_HEALTH_PORT=$health

clean_up() {
    local status=$?
    ((status == 0)) || "${compose[@]}" logs --tail=60 || true
    local volumes=(--volumes)
    [[ -n ${KEEP:-} ]] && volumes=()
    "${compose[@]}" down --timeout 40 "${volumes[@]}" >/dev/null 2>&1 || true
    rm -rf "$quick"
}
trap clean_up EXIT

inside() { "${compose[@]}" exec -T server-try "$@"; }
await_ready() {
    local end=$((SECONDS + $1))
    until curl --silent --fail --max-time 3 "http://127.0.0.1:$health/ready" >/dev/null; do
        ((SECONDS < end)) || fail "not ready within $1 s"
        sleep 0.5
    done
}

"${compose[@]}" build build-try server-try
say "images are built"
"${compose[@]}" up -d server-try
await_ready 120
say "the server is ready"

# The request is the README's, word for word.
request=$(sed -n "/^curl -s .*infer -d @- <<'END'$/,/^END$/p" README.md | sed '1d;$d')
[[ -n $request ]] || fail "no curl in README.md"
curl --silent --fail --max-time 10 "http://127.0.0.1:$http/v2/models/rank/infer" -d "$request" | python3 -c '
import json, sys
answer = {o["name"]: o["data"] for o in json.load(sys.stdin)["outputs"]}
asked = [50, 181, 258, 100, 294]
assert sorted(answer["ranked_ids"]) == sorted(asked), answer
print("compose_test: curl is answered:", answer["ranked_ids"])'
inside triton-ads rank --user 42 --candidates 500 --top 3 --repository /var/lib/triton-ads/repository
say "the command ranks over gRPC"

page=$(curl --silent --fail "http://127.0.0.1:$metrics/metrics")
grep -q '^triton_ads_candidates_total{.*tier="' <<<"$page" || fail "no candidates among the metrics"
grep -q '^nv_inference_request_summary_us{.*quantile="0.99"}' <<<"$page" || fail "no quantiles among the metrics"
curl --silent --fail "http://127.0.0.1:$health/metrics" | grep -qx 'triton_ads_ready 1' || fail "the watchdog's metrics"
say "metrics are there"

[[ $(inside id -u) == 10001 ]] || fail "the server runs as another user than 10001"
for path in /x /opt/venv/x /var/lib/triton-ads/x; do
    ! inside touch "$path" 2>/dev/null || fail "$path can be written"
done
! inside python3 -c 'import torch' 2>/dev/null || fail "PyTorch is in the image that serves"
inside grep -q '^CapEff:.*0000000000000000$' /proc/1/status || fail "there are capabilities left"
inside grep -q '^NoNewPrivs:.*1$' /proc/1/status || fail "privileges can be gained"
for path in repository/index systemsharedmemory/region/x/register; do
    status=$(curl --silent --output /dev/null --write-out '%{http_code}' -d '{}' "http://127.0.0.1:$http/v2/$path")
    [[ $status == 403 ]] || fail "/v2/$path answers $status without a key, 403 wanted"
done
say "the container is closed where it must be"

# On a volume that cannot be written the watchdog unloads and loads: another way than on a laptop.
inside python3 - <<'END'
import os, signal
from triton_ads.server.processes import read_process, read_stub
processes = (read_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
stub = next(filter(None, (read_stub(process) for process in processes if process)))
os.kill(stub.pid, signal.SIGKILL)
print("compose_test: killed the process of", stub.model)
END
for ((i = 0; i < 100; i++)); do
    curl --silent "http://127.0.0.1:$health/metrics" | grep -qE '^triton_ads_(reloads|restarts)_total [1-9]' && break
    sleep 0.2
done
await_ready 30
curl --silent "http://127.0.0.1:$health/metrics" | grep -qx 'triton_ads_dead_stubs_total 1' || fail "the dead process was not seen"
say "a killed process was replaced"

server=$("${compose[@]}" ps -q server-try)
# Requests that take a while are under way when the stop comes; asked from inside, where no proxy is between.
slow=$quick/slow.log
inside python3 -u - <<'END' >"$slow" &
import threading, time
from triton_ads.client import RankClient
def ask():
    with RankClient("127.0.0.1:8001", timeout_s=60) as client:
        ranking = client.rank(range(1, 1601), user_id=42, tier="high", deadline_ms=60_000)
    print("answered", len(ranking))
threads = [threading.Thread(target=ask) for _ in range(4)]
for thread in threads: thread.start()
time.sleep(0.2)
print("sent")
for thread in threads: thread.join()
END
asking=$!
until grep -qs sent "$slow" || ! kill -0 "$asking" 2>/dev/null; do sleep 0.02; done
! grep -q answered "$slow" || fail "the requests were answered before the stop came"
docker stop --time 30 "$server" >/dev/null
wait "$asking" || true
[[ $(grep -c '^answered 1600$' "$slow") == 4 ]] || fail "requests under way were lost by the stop: $(<"$slow")"
status=$(docker inspect --format '{{.State.ExitCode}} {{.State.OOMKilled}}' "$server")
[[ $status == "0 false" ]] || fail "exit status and out of memory: $status, '0 false' wanted"
say "a stop lets 4 requests under way end"

began=$SECONDS
"${compose[@]}" up -d server-try
await_ready 120
((SECONDS - began < 120)) || fail "the second start took $((SECONDS - began)) s: did it build again?"
say "a second start takes $((SECONDS - began)) s"
echo "compose_test: PASSED in $SECONDS s"
