"""The demonstration: three users of a release asked for on a running server, and a server that outlives its caller."""
