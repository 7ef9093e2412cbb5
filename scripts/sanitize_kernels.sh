#!/usr/bin/env bash
# Runs the tests of kernels, decoder and damaged models with the module built under the address and undefined-behaviour
# sanitizers.
#
#   scripts/sanitize_kernels.sh [pytest arguments]
#
# Works in a temporary folder: a copy of the library with the sanitized module in it, imported without site hooks so
# that an editable install does not take its place. Needs g++, cmake, ninja and the environment that runs the tests.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${PYTHON:-python}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cmake -S "$root/kernels" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=None -DTRITON_ADS_SANITIZE=ON \
    -DPython_EXECUTABLE="$("$python" -c 'import sys; print(sys.executable)')" \
    -Dnanobind_DIR="$("$python" -m nanobind --cmake_dir)" >"$folder/configure.log" ||
    { cat "$folder/configure.log"; exit 1; }
cmake --build "$folder/build"

cp -r "$root/triton_ads" "$root/tests" "$folder"
cp "$folder"/build/_native*.so "$folder/triton_ads/kernels/"
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

cd "$folder"
# Leaks are not looked for: the interpreter and the pool keep memory until the process ends.
env LD_PRELOAD="$(g++ -print-file-name=libasan.so):$(g++ -print-file-name=libstdc++.so.6)" \
    ASAN_OPTIONS=detect_leaks=0:halt_on_error=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
    PYTHONPATH="$folder:$packages" PYTHONDONTWRITEBYTECODE=1 \
    "$python" -S -m pytest -c /dev/null --import-mode=importlib -p no:cacheprovider -q \
    tests/kernels tests/compression/test_packed_model.py --ignore-glob='*cuda*' "$@"
