"""The sub-commands of `triton-ads`, one module each: `configure` declares arguments, `run` does the work."""
