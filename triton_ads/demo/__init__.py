"""The demonstration: users of a release asked for on a running server, ads generated, a server that goes on."""
