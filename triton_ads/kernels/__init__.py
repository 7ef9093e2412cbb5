"""Products with packed matrices on the CPU: the compiled kernels of `kernels/cpu` behind one class.

    from triton_ads.compression.packed_file import read_packed_file
    from triton_ads.kernels import PackedProduct

    product = PackedProduct(read_packed_file(path).matrices["layers.0.down"])
    y_MN = product(x_MK)

Paths are chosen at run time (`usable_paths`, fastest first); all of them read the same bytes. NumPy is all that this
package needs beside the compiled module.
"""

from triton_ads.kernels._native import usable_cores, usable_paths
from triton_ads.kernels.product import PackedProduct

__all__ = ["PackedProduct", "usable_cores", "usable_paths"]
