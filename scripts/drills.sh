#!/usr/bin/env bash
# All failure drills at full length on the real server, with a table of what was seen (docs/drills.md); about 15 minutes.
# Needs the environment of scripts/setup.sh --test. Arguments go to pytest:
#
#   scripts/drills.sh
#   scripts/drills.sh -k publish
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH="$PWD/.venv/bin:$PATH"
exec pytest tests/drills --full --durations=0 "$@"
