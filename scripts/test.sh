#!/usr/bin/env bash
# Installs what the tests need and runs all checks: style, types, who imports whom, and the tests, those on the real
# Triton server included. Arguments go to pytest:
#
#   scripts/test.sh
#   scripts/test.sh tests/split -k linear
#   scripts/test.sh -m "not server"
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh --test
PATH="$PWD/.venv/bin:$PATH"
ruff check
ruff format --check
mypy
lint-imports
exec pytest "$@"
