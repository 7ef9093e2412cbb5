#!/usr/bin/env bash
# From a clone to generated and ranked ads: makes the environment, builds a ranker and a generator on MovieLens-100k,
# starts the real Triton server, ranks films for three users over gRPC and HTTP, generates films for them and for a query,
# and stops. What has not changed since the last time is skipped.
#
#   scripts/demo.sh           stops the server at the end
#   scripts/demo.sh --keep    leaves it running, and says how to ask it and how to stop it
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh
exec .venv/bin/triton-ads demo "$@"
