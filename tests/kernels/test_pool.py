"""Threads: processes share the cores out, and a forked child works."""

import multiprocessing
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from triton_ads.compression.packing import pack
from triton_ads.compression.patterns import Pattern
from triton_ads.compression.quantised import round_to_nearest
from triton_ads.kernels import PackedProduct, _native, usable_cores


def large_product() -> PackedProduct:
    weight_NK = np.random.default_rng(0).standard_normal((1024, 1024), dtype=np.float32)
    return PackedProduct(pack(round_to_nearest(weight_NK, Pattern.TWO_OF_FOUR)))


#: Multiplies until its standard input is closed; says when it has begun.
NEIGHBOUR = """
import sys, threading
import numpy as np
from triton_ads.compression.packing import pack
from triton_ads.compression.patterns import Pattern
from triton_ads.compression.quantised import round_to_nearest
from triton_ads.kernels import PackedProduct

product = PackedProduct(pack(round_to_nearest(np.ones((1024, 1024)), Pattern.TWO_OF_FOUR)))
reader = threading.Thread(target=sys.stdin.read)
reader.start()
product(np.ones((1, 1024), np.float32))
print("ready", flush=True)
while reader.is_alive():
    product(np.ones((1, 1024), np.float32))
"""


def start_neighbour() -> "subprocess.Popen[str]":
    # Without site hooks where this process has none (scripts/sanitize_kernels.sh).
    flags = ["-S"] if sys.flags.no_site else []
    return subprocess.Popen(
        [sys.executable, *flags, "-c", NEIGHBOUR], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def wait_until_alone(limit_s: float = 5.0) -> None:
    """Other tests and processes of this user may have multiplied a moment ago."""
    deadline = time.monotonic() + limit_s
    while _native.active_processes() > 1:
        if time.monotonic() > deadline:
            pytest.skip("another process of this user keeps multiplying")
        time.sleep(0.01)


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="processes find each other through /dev/shm")
def test_processes_at_work_share_the_cores() -> None:
    wait_until_alone()
    product, x_MK = large_product(), np.ones((1, 1024), np.float32)
    product(x_MK)
    assert _native.last_threads() == usable_cores()
    # As many processes as cores, this one included: one thread each.
    neighbours = [start_neighbour() for _ in range(usable_cores() - 1)]
    try:
        for neighbour in neighbours:
            assert neighbour.stdout is not None
            assert neighbour.stdout.readline() == "ready\n"
        seen = set()
        for _ in range(300):
            product(x_MK)
            seen.add((_native.active_processes(), _native.last_threads()))
            time.sleep(0.002)
        # A busy machine may hold a neighbour back for more than the 20 ms after which it counts as idle.
        assert max(active for active, _ in seen) >= usable_cores()  # others may use the kernels as well
        assert min(threads for _, threads in seen) == 1
    finally:
        for neighbour in neighbours:
            assert neighbour.stdin is not None
            neighbour.stdin.close()
            assert neighbour.wait(30) == 0
            neighbour.__exit__(None, None, None)
    # Those that have ended are forgotten after 20 ms.
    wait_until_alone()
    product(x_MK)
    assert _native.last_threads() == usable_cores()


def child(queue: "multiprocessing.Queue[bytes]", product: PackedProduct) -> None:
    queue.put(product(np.ones((2, 1024), np.float32), threads=2).tobytes())


def test_a_forked_child_multiplies() -> None:
    """Helpers do not survive a fork; the child's pool is a new one."""
    product = large_product()
    wanted = product(np.ones((2, 1024), np.float32), threads=2)
    forking = multiprocessing.get_context("fork")
    queue: multiprocessing.Queue[bytes] = forking.Queue()
    process = forking.Process(target=child, args=(queue, product))
    process.start()
    assert queue.get(timeout=30) == wanted.tobytes()
    process.join(30)
    assert process.exitcode == 0
