"""Datasets become examples: the only place that knows a dataset's files."""
