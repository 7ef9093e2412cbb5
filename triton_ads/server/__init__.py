"""Outside Triton: launcher, watchdog, publishing."""
