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

    compress.py      from a checkpoint and a recipe to a packed model and its report (docs/compression.md), by way of
      recipe.py, budget.py                what is asked for
      text.py, llama.py, calibration.py   the text, the model in PyTorch, what the text says of its matrices
      importance.py, layer_importance.py  which weights stay; which layers may lose more of them
      groups.py, allocate.py              group sizes; how a budget is spent
      rounding.py, error_compensation.py  codes and scales
      recovery.py                         training of what is left
      compressor.py                       all of these in their order; compressed_matrix.py is what comes out
      quality.py, report.py               what it is worth

What serves a model imports patterns to packed_model, NumPy, and no training library; the files of the last block are
for building alone, and some of them need PyTorch. The layout is drawn in docs/packed_format.md.
"""
