"""A small client for gRPC and HTTP; needs tritonclient and numpy only."""
