"""One module a benchmark: `triton-ads bench NAME`."""
