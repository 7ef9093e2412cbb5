"""Ids, vocabularies and padding: the same code offline and online."""
