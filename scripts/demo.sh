#!/usr/bin/env bash
# From a clone to ranked ads: makes the environment, builds the default recipe on MovieLens-100k, starts the real Triton
# server, ranks ads for three users over gRPC and HTTP, and stops. What has not changed since the last time is skipped.
#
#   scripts/demo.sh           stops the server at the end
#   scripts/demo.sh --keep    leaves it running, and says how to ask it and how to stop it
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh
exec .venv/bin/triton-ads demo "$@"
