#!/usr/bin/env bash
# Makes the virtual environment .venv with everything that triton-ads needs; quick when it is up to date.
#
#   scripts/setup.sh           what building and serving need (requirements.txt)
#   scripts/setup.sh --test    and what the tests need (requirements-test.txt)
#
# PYTHON names the interpreter to use. pip's own variables and configuration decide where packages come from, for
# example PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS to take PyTorch's build for CPUs, which is much smaller.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

requirements=requirements.txt
[[ "${1:-}" == --test ]] && requirements=requirements-test.txt

fail() {
    echo "setup: $1" >&2
    exit 1
}

check_platform() {
    local found
    found="$(uname -s) $(uname -m)"
    [[ "$found" == "Linux x86_64" ]] || fail "the Triton server of nvidia-pytriton runs on Linux x86_64, this is $found"
    found="$(getconf GNU_LIBC_VERSION 2>/dev/null)" || fail "glibc 2.35 or later is needed, this system has another C library"
    printf '2.35\n%s\n' "${found#glibc }" | sort --version-sort --check=quiet ||
        fail "glibc 2.35 or later is needed (Ubuntu 22.04, Debian 12), this system has $found"
    command -v c++ g++ clang++ >/dev/null ||
        fail "no C++ compiler found; the kernels are built from source (Debian and Ubuntu: install g++)"
}

# The first interpreter of a version that works; PYTHON, where given, is the only candidate.
find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.12 python3.11}; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null; then
            "$candidate" -c 'import ensurepip, venv' 2>/dev/null ||
                fail "$candidate cannot make virtual environments; Debian and Ubuntu: install python3-venv"
            command -v "$candidate"
            return
        fi
    done
    fail "Python 3.11 or 3.12 is needed; tried ${PYTHON:-python3, python3.12, python3.11}. PYTHON=/path/to/python3.12 names one"
}

# What an installation depends on: when this has not changed there is nothing to do.
stamp() {
    pwd
    echo "${PYTHON:-}"
    sha256sum requirements.txt "$requirements" pyproject.toml
    find kernels -type f -exec sha256sum {} + | sort
}

installed=".venv/installed-$requirements"
if [[ -f "$installed" && "$(stamp)" == "$(<"$installed")" ]]; then
    exit 0
fi

check_platform
python="$(find_python)"
# An environment made elsewhere, or by another Python, is made anew: its scripts name the old place.
made_by="$(pwd) $("$python" -V)"
if [[ ! -f .venv/made-by || "$(<.venv/made-by)" != "$made_by" ]]; then
    echo "setup: making .venv with $("$python" -V) ($python)"
    "$python" -m venv --clear .venv
    echo "$made_by" >.venv/made-by
fi
echo "setup: installing $requirements (the first time takes minutes; PyTorch is most of it)"
.venv/bin/python -m pip install --disable-pip-version-check --requirement "$requirements" |
    sed --unbuffered '/^Requirement already satisfied/d'
echo "setup: compiling the kernels and installing triton-ads"
.venv/bin/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation --editable .
.venv/bin/python -c 'from triton_ads.server.install import find_server; find_server()' 2>&1 | tail -1
stamp >"$installed"
