"""The request-oriented compiler: a row-wise model becomes a user part and an item part."""
