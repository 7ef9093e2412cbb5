#!/usr/bin/env bash
# Where there is a GPU: builds the CUDA kernel, tests it against the dequantised product, and prints a table of times.
#
#   scripts/gpu_check.sh
#
# Needs nvcc, a CUDA build of torch and the package with its `test` extra. Takes about two minutes.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-python}
"$python" -c 'import torch; assert torch.cuda.is_available(), "torch finds no CUDA device"; print(torch.cuda.get_device_name())'
"$python" -m pip install --no-deps -q -e . -C cmake.define.TRITON_ADS_CUDA=ON
"$python" -m pytest tests/kernels/test_cuda_build.py tests/kernels/test_cuda_decode.py tests/serving/gpu
"$python" -m triton_ads.bench.gpu_gemv
