"""Recipes and releases as tables for people: what `triton-ads inspect` and the end of a build print."""
