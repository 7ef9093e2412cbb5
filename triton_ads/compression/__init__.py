"""Weights made small: INT4 values, N:M sparsity, and the packed format that the CPU and CUDA kernels read.

    patterns.py      how many of four neighbours are kept, value kinds, the constants of the layout
    quantised.py     a matrix of INT4 codes and group scales, still row-major; round to nearest
    packed_matrix.py the same matrix as a stream of tiles, and what makes such a stream valid
    lanes.py         where a value and its index stand in a tile
    packing.py       quantised <-> packed, exactly
    bf16.py          packed matrices of 16-bit values
    packed_file.py   packed matrices in one checksummed, memory-mapped safetensors file
    sizes.py         bytes of a packed matrix beside the usual sparse formats

    checkpoint.py    a published llama-family model: Hugging Face folder or GGUF file (checkpoint_*.py read them)
    llama_config.py  the numbers of a decoder, the names of its matrices
    packed_model.py  a whole decoder in one folder, as it is served (docs/decoder.md)
    pack_model.py    from a checkpoint to a packed model, by magnitude and rounding alone

What serves a model imports this package, NumPy and no training library. The layout is drawn in
docs/packed_format.md.
"""
